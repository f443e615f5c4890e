// The latency that a message pays in addition to that of the reference distance, which
// facts().latency includes.
//
// Between nodes the reference is one switch between two NICs. The extra is the latency of all
// cables from NIC to NIC, less that of the cluster's fastest pair of NIC ports. Each further switch
// adds the latency of the cable that leads to it (InfiniBand 0.13 to 0.25 us, RoCE 0.4 to 0.8 us,
// fibre 5 ns/m). Five switches with 0.5 us a hop take 4 x 0.5 = 2 us more than one switch. In a
// node the reference is the nearest GPU over NVLink; GPUs that relay traffic (a torus) add the
// latency of their links. If shortest paths differ in latency, the slowest one counts.
// tests/topologies/latency_test.cpp checks these rules.
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

  // For a message on router.route(), and for one on router.route_rail_aligned().
  [[nodiscard]] Seconds extra(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds extra_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

 private:
  [[nodiscard]] double fastest_port_s(Way way) const;
  [[nodiscard]] std::optional<double> equal_hops_s() const;
  [[nodiscard]] Latencies to_target(std::uint32_t target, const Distances& hops) const;
  [[nodiscard]] Seconds in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds over_fabric(Router::Crossing ends) const;

  std::shared_ptr<const Router> router_;
  bool gpus_relay_ = false;  // NVLink joins some GPUs without a switch
  double reference_s_ = 0.0;
  std::optional<double> hop_s_;  // latency of every link between switches, if equal
  // By target. Used if hop_s_ is empty and distances have a table.
  std::vector<Latencies> to_target_;
};

}  // namespace trainyard
