// The cluster on which a step runs: a topology, the routes through it, and the latency that
// distance adds.
//
// A Cluster is a Topology with routes. Code that needs no routes takes a Topology.
//
//    const Cluster cluster = build_cluster(spec);
//    for (RouteHop hop : cluster.router().route(0, 8)) use(cluster.link(hop.link), hop.fraction);
//    cluster.latency().extra(0, 8);
#pragma once

#include <cstddef>
#include <memory>

#include "sim/cluster/latency_model.hpp"

namespace trainyard {

// Immutable; topologies/ builds it once. Copies share all its contents.
class Cluster : public Topology {
 public:
  // Throws InputError for GPUs that cannot reach each other.
  explicit Cluster(Topology topology);
  // Builds its Topology from these arguments. Throws InputError also where Topology does.
  Cluster(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu)
      : Cluster(Topology(std::move(facts), std::move(wiring), std::move(gpus),
                         std::move(nic_of_gpu))) {}
  // Returns the same cluster with the rates of each kind of link multiplied by factor_of(kind).
  // Routes and latencies do not depend on rates, so both clusters share them, with their caches.
  [[nodiscard]] Cluster with_rates(const std::function<double(LinkKind)>& factor_of) const;

  [[nodiscard]] const Router& router() const { return *router_; }
  [[nodiscard]] const LatencyModel& latency() const { return *latency_; }

 private:
  std::shared_ptr<const Router> router_;
  std::shared_ptr<const LatencyModel> latency_;
};

// Estimates the memory of a cluster in bytes.
[[nodiscard]] std::size_t footprint(const Cluster& cluster);

}  // namespace trainyard
