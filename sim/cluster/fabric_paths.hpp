// The ways through the fabric: how far every switch is from those that lead down to a NIC, how a
// message spreads on its way there, and which GPUs reach each other.
//
//   const FabricPaths fabric(topology, parallel_links);
//   const Distances hops = fabric.distances(fabric.ports().target(to_gpu));
//   fabric.trunk(fabric.nearest_starts(from_gpu, hops), hops, target);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/fabric_ports.hpp"
#include "sim/cluster/node_paths.hpp"

namespace trainyard {

// The links that a message crosses from some switches to a target, of parallel ones the lowest.
struct Trunk {
  Route parallel_links = {};          // in the order of the walk
  std::vector<double> arriving = {};  // by number of the switch in its target
};

class FabricPaths {
 public:
  // REQUIRES: both outlive it.
  FabricPaths(const Topology& topology, const ParallelLinks& parallel_links);
  FabricPaths(const FabricPaths&) = delete;
  FabricPaths& operator=(const FabricPaths&) = delete;

  [[nodiscard]] const FabricNet& fabric() const { return fabric_; }
  [[nodiscard]] const FabricPorts& ports() const { return ports_; }
  // False where the table would be too large, so that distances are searched each time.
  [[nodiscard]] bool has_table() const { return !row_of_target_.empty(); }
  [[nodiscard]] Distances distances(std::uint32_t target) const;
  // Returns those cables of a NIC that start a shortest path.
  [[nodiscard]] std::vector<Arc> nearest_starts(std::uint32_t gpu, const Distances& hops) const;
  // Spreads a message over all shortest paths, in equal shares per cable.
  [[nodiscard]] Trunk trunk(std::span<const Arc> starts, const Distances& hops,
                            std::uint32_t target) const;

 private:
  // Distances to a target: a row, in which two places may have to trade theirs.
  struct Row {
    std::uint32_t row = 0;
    std::uint32_t target = 0;  // places
    std::uint32_t like = 0;
  };
  void tabulate();
  [[nodiscard]] std::vector<std::uint32_t> wiring_at(std::uint32_t place) const;

  const ParallelLinks& parallel_links_;
  FabricNet fabric_;
  FabricPorts ports_;
  std::vector<Hops> rows_;  // those that differ
  std::vector<Row> row_of_target_;
};

// The GPUs that reach each other over the fabric are one component: two planes or a dead rail part
// it into several.
struct FabricComponents {
  std::uint32_t count = 0;                 // 0: there are no NICs
  std::vector<std::uint32_t> of_gpu = {};  // empty: all are of one
  [[nodiscard]] bool join(std::uint32_t a, std::uint32_t b) const {
    return of_gpu.empty() || of_gpu[a] == of_gpu[b];
  }
};

// Throws InputError where not every GPU reaches every other, over its node and the fabric.
[[nodiscard]] FabricComponents fabric_components(const Topology& topology, const NodePaths& nodes,
                                                 const FabricPaths& fabric);

}  // namespace trainyard
