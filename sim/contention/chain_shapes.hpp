// What chains put on links, as shapes of the joint graph (joint_graph.hpp): of parallel links the
// lowest, each load relative to the most loaded link, and of a group's chains those that are alike
// once.
//
//   ChainShapes shapes(cluster, joint, false);   // joint knows parallel links
//   shapes.begin();                       // a group
//   ShapedPhase made = shapes.shaped(phase);
//   shapes.shape(0);                      // of the first group the first
//   if (!shapes.hold()) ...;              // parallel links are loaded unequally
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cluster/transport.hpp"
#include "sim/contention/joint_graph.hpp"

namespace trainyard {

class ChainShapes {
 public:
  // Reads of the joint graph which links are parallel. With `every_link` they are told one by one.
  // REQUIRES: both outlive it.
  ChainShapes(const Cluster& cluster, const JointGraph& joint, bool every_link);

  // What follows is of another group.
  void begin();
  // Chains have their shapes by number among those of the group.
  [[nodiscard]] ShapedPhase shaped(const Phase& phase);

  // Of all groups, in the order in which they came; each sorted by link.
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(offsets_.size() - 1);
  }
  [[nodiscard]] std::span<const ShapeLoad> shape(std::uint32_t index) const {
    return std::span(shape_loads_).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
  }
  // As JointGraph::loads.
  [[nodiscard]] const std::vector<double>& loads() const { return loads_; }

  // Whether all chains so far load parallel links alike.
  [[nodiscard]] bool hold() const { return hold_; }

 private:
  // What a chain puts on parallel links.
  struct ParallelLoad {
    double bytes = 0.0;  // on each link
    std::uint32_t links = 0;
  };

  [[nodiscard]] std::uint32_t shape_of(const Chain& chain, double payload);
  [[nodiscard]] std::vector<ShapeLoad> loads_of(std::span<const LinkLoad> loads, double payload);
  [[nodiscard]] bool meet(LinkId lowest, const LinkLoad& load);
  [[nodiscard]] std::uint32_t load_index(double load);

  const Cluster& cluster_;
  const JointGraph& joint_;
  bool every_link_ = false;
  bool hold_ = true;
  std::unordered_map<LinkId, ParallelLoad> met_;  // of the chain at hand, by the lowest of them
  std::vector<std::size_t> offsets_ = {0};        // of shapes in shape_loads_, and the end
  std::vector<ShapeLoad> shape_loads_;
  std::vector<double> loads_;
  std::uint32_t first_ = 0;                                            // shape of the group
  std::unordered_multimap<std::uint64_t, std::uint32_t> shapes_here_;  // of the group, by hash
  std::unordered_map<std::uint64_t, std::uint32_t> load_indices_;
  // The one last asked for: in a chain equal loads come in a row.
  std::optional<std::pair<std::uint64_t, std::uint32_t>> last_load_;
};

}  // namespace trainyard
