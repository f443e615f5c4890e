#include "sim/cluster/cluster.hpp"

namespace trainyard {

Cluster::Cluster(Topology topology)
    : Topology(std::move(topology)),
      router_(std::make_shared<const Router>(*this)),
      latency_(std::make_shared<const LatencyModel>(router_)) {}

Cluster Cluster::with_rates(const std::function<double(LinkKind)>& factor_of) const {
  Cluster changed = *this;
  static_cast<Topology&>(changed) = Topology::with_rates(factor_of);
  return changed;
}

// Wiring, sets of parallel links and fabric tables take about ten 32-bit numbers per link.
std::size_t footprint(const Cluster& cluster) {
  constexpr std::size_t kNumbersOfALink = 10;
  return cluster.links().size() * kNumbersOfALink * sizeof(std::uint32_t);
}

}  // namespace trainyard
