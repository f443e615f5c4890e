// The latency that a message pays beyond the reference distance, for which facts().latency stands.
//
// Between nodes that reference is one switch between two NICs: the extra is the latency of all
// cables from NIC to NIC, less that of the cluster's fastest pair of NIC ports; each further switch
// adds the latency of the cable that leads to it (InfiniBand 0.13 to 0.25 us, RoCE 0.4 to 0.8 us,
// fibre 5 ns/m). Five switches with 0.5 us a hop are 4 x 0.5 = 2 us more than one. In a node the
// reference is the nearest GPU over NVLink; GPUs that pass traffic on (a torus) add their links.
// Where shortest paths differ, the slowest one counts. Held by tests/topologies/latency_test.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/router.hpp"

namespace trainyard {

class LatencyModel {
 public:
  explicit LatencyModel(std::shared_ptr<const Router> router);

  // On router.route(), and on route_rail_aligned().
  [[nodiscard]] Seconds extra(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds extra_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

 private:
  [[nodiscard]] double fastest_port_s(Way way) const;
  [[nodiscard]] std::optional<double> equal_hops_s() const;
  [[nodiscard]] Latencies to_target(std::uint32_t target, const Distances& hops) const;
  [[nodiscard]] Seconds in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds over_fabric(Router::Crossing ends) const;

  std::shared_ptr<const Router> router_;
  bool gpus_relay_ = false;  // some GPUs are joined by NVLink without a switch
  double reference_s_ = 0.0;
  std::optional<double> hop_s_;       // where all links between switches have the same
  std::vector<Latencies> to_target_;  // else, by target
};

}  // namespace trainyard
