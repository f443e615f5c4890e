// How flows load links, as shapes of the joint graph (joint_graph.hpp): in which proportions a flow
// loads which links. Flows of different sizes share a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cluster/communication_model.hpp"
#include "sim/contention/group_placements.hpp"
#include "sim/contention/joint_graph.hpp"

namespace trainyard {

// A list of shapes, each sorted by link.
struct ShapeTable {
  std::vector<std::size_t> offsets = {0};  // first load of each shape in shape_loads, and the end
  std::vector<ShapeLoad> shape_loads = {};
  std::vector<double> loads = {};  // distinct values, as JointGraph::loads
  bool operator==(const ShapeTable&) const = default;

  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(offsets.size() - 1);
  }
  [[nodiscard]] std::span<const ShapeLoad> shape(std::uint32_t index) const {
    return std::span(shape_loads).subspan(offsets[index], offsets[index + 1] - offsets[index]);
  }
};

// Turns flows into shapes of the joint graph (joint_graph.hpp). A shape names the lowest link of
// each set of parallel links, its loads are relative to the most loaded link, and equal shapes of a
// group are stored once.
//
//    FlowShapes shapes(cluster, *parallel, false);
//    shapes.begin();                       // a group
//    ShapedPhase made = shapes.shaped(phase);
//    shapes.table().shape(0);              // the first shape of the first group
//    shapes.hold();                        // false: parallel links are loaded unequally
class FlowShapes {
 public:
  // `every_link`: shapes name every link. REQUIRES: both references outlive this.
  FlowShapes(const Cluster& cluster, const ParallelLinkIndex& parallel, bool every_link);

  // Starts the next group: the phases that follow belong to it.
  void begin();
  // Returns the phase with its flows as shapes. Shapes are numbered within the group.
  [[nodiscard]] ShapedPhase shaped(const Phase& phase);

  // The shapes of all groups, in the order in which they came.
  [[nodiscard]] const ShapeTable& table() const { return table_; }

  // Whether all flows so far load parallel links equally.
  [[nodiscard]] bool hold() const { return hold_; }

 private:
  // The load of a flow on a set of parallel links.
  struct ParallelLoad {
    double bytes = 0.0;  // on each link
    std::uint32_t links = 0;
  };

  [[nodiscard]] std::uint32_t shape_of(const MultiLinkFlow& flow, double payload);
  [[nodiscard]] std::vector<ShapeLoad> loads_of(std::span<const LinkLoad> loads, double payload);
  [[nodiscard]] bool meet(LinkId lowest, const LinkLoad& load);
  [[nodiscard]] std::uint32_t load_index(double load);

  const Cluster& cluster_;
  const ParallelLinkIndex& parallel_;
  bool every_link_ = false;
  bool hold_ = true;
  ShapeTable table_;
  std::unordered_map<LinkId, ParallelLoad> met_;  // loads of the present flow, by lowest link
  std::uint32_t first_ = 0;                       // first shape of the present group
  // Shapes of the present group, by hash.
  std::unordered_multimap<std::uint64_t, std::uint32_t> shapes_here_;
  std::unordered_map<std::uint64_t, std::uint32_t> load_indices_;
  // The last result of load_index(): a flow often has equal loads on successive links.
  std::optional<std::pair<std::uint64_t, std::uint32_t>> last_load_;
};

}  // namespace trainyard
