// Where a step runs: a topology, the routes through it, and what distance costs in latency.
//
// A cluster is a topology with routes: code that needs no routes takes a Topology, and a cluster is
// one.
//
//   const Cluster cluster = build_cluster(spec);
//   for (RouteHop hop : cluster.router().route(0, 8)) use(cluster.link(hop.link), hop.fraction);
//   cluster.latency().extra(0, 8);
#pragma once

#include <cstddef>
#include <memory>

#include "sim/cluster/latency_model.hpp"

namespace trainyard {

// Built once by topologies/ from a drawing, then never changed; copies share all of it.
class Cluster : public Topology {
 public:
  // Throws InputError for GPUs that cannot reach each other.
  explicit Cluster(Topology topology);
  // Makes its topology of these. Throws InputError as Topology does too.
  Cluster(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu)
      : Cluster(Topology(std::move(facts), std::move(wiring), std::move(gpus),
                         std::move(nic_of_gpu))) {}
  // Returns the same cluster with the links of each kind so many times as fast. Routes and
  // latencies do not depend on rates, so both clusters share them and what was searched for them.
  [[nodiscard]] Cluster with_rates(const std::function<double(LinkKind)>& factor_of) const;

  [[nodiscard]] const Router& router() const { return *router_; }
  [[nodiscard]] const LatencyModel& latency() const { return *latency_; }

 private:
  std::shared_ptr<const Router> router_;
  std::shared_ptr<const LatencyModel> latency_;
};

// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Cluster& cluster);

}  // namespace trainyard
