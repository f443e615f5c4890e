// The paths through the fabric: the distance of every switch to the switches above a NIC, the
// shares of a message on the way there, and which GPUs reach each other.
//
//    const FabricPaths fabric(topology, parallel_links);
//    const std::uint32_t target = fabric.ports().target(to_gpu);
//    const Distances hops = fabric.distances(target);
//    fabric.trunk(fabric.nearest_starts(from_gpu, hops), hops, target);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/fabric_ports.hpp"
#include "sim/cluster/node_paths.hpp"

namespace trainyard {

// The links that a message crosses from some switches to a target. Parallel links appear as their
// lowest.
struct Trunk {
  Route parallel_links = {};          // in the order of the walk
  std::vector<double> arriving = {};  // share that arrives, by index of the switch in its target
};

class FabricPaths {
 public:
  // REQUIRES: both arguments outlive the object.
  FabricPaths(const Topology& topology, const ParallelLinks& parallel_links);
  FabricPaths(const FabricPaths&) = delete;
  FabricPaths& operator=(const FabricPaths&) = delete;
  ~FabricPaths() = default;

  [[nodiscard]] const FabricNet& fabric() const { return fabric_; }
  [[nodiscard]] const FabricPorts& ports() const { return ports_; }
  // False if the distance table would be too large. Then distances() searches on each call.
  [[nodiscard]] bool has_table() const { return !row_of_target_.empty(); }
  [[nodiscard]] Distances distances(std::uint32_t target) const;
  // Returns the cables of a NIC that begin a shortest path.
  [[nodiscard]] std::vector<Arc> nearest_starts(std::uint32_t gpu, const Distances& hops) const;
  // Spreads a message over all shortest paths, in equal shares per cable.
  [[nodiscard]] Trunk trunk(std::span<const Arc> starts, const Distances& hops,
                            std::uint32_t target) const;

 private:
  // The distances to a target: a row of rows_, in which two entries may have to be swapped.
  struct Row {
    std::uint32_t row = 0;
    std::uint32_t target = 0;  // index in the fabric, as `like`; these two are swapped
    std::uint32_t like = 0;
  };
  void tabulate();
  [[nodiscard]] std::vector<std::uint32_t> wiring_at(std::uint32_t place) const;

  const ParallelLinks& parallel_links_;
  FabricNet fabric_;
  FabricPorts ports_;
  std::vector<Hops> rows_;  // the distinct rows
  std::vector<Row> row_of_target_;
};

// The connected components of the GPUs over the fabric. GPUs of one component reach each other. Two
// planes or a failed rail give several components.
struct FabricComponents {
  std::uint32_t count = 0;                 // 0: there are no NICs
  std::vector<std::uint32_t> of_gpu = {};  // empty: all GPUs are in one component
  [[nodiscard]] bool join(std::uint32_t a, std::uint32_t b) const {
    return of_gpu.empty() || of_gpu[a] == of_gpu[b];
  }
};

// Throws InputError if some GPU cannot reach another over its node and the fabric.
[[nodiscard]] FabricComponents fabric_components(const Topology& topology, const NodePaths& nodes,
                                                 const FabricPaths& fabric);

}  // namespace trainyard
