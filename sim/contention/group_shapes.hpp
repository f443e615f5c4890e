// How all groups load links, as shapes of the joint graph (joint_graph.hpp). Of the groups that
// make the same calls in isomorphic placements (group_placements.hpp), the communication model is
// queried for the phases of one; the others have its shapes on their own links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cluster/communication_model.hpp"
#include "sim/contention/group_placements.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/workload/workload.hpp"

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

// The shapes of every pattern of groups. They determine how all groups load links.
struct GroupShapes {
  struct Pattern {
    GroupId first = 0;         // the group that was queried
    std::uint32_t groups = 1;  // number of groups that have its shapes
    std::uint32_t begin = 0;   // its shapes in the table
    std::uint32_t end = 0;
    bool operator==(const Pattern&) const = default;
  };
  std::vector<Pattern> patterns = {};
  std::vector<std::uint32_t> pattern_of = {};  // indexed by group
  ShapeTable table = {};
  bool operator==(const GroupShapes&) const = default;
};

// Queries the communication model for the phases of one group of each pattern.
//
//    GroupAnswers answers(cluster, workload, communication, {calls, parallel});
//    answers.query_all(*placed);
//    if (answers.hold()) lay_out(cluster, workload, placed, *answers.shapes());
class GroupAnswers {
 public:
  // Without places, shapes name every link. REQUIRES: all arguments outlive this.
  GroupAnswers(const Cluster& cluster, const Workload& workload,
               const CommunicationModel& communication, const PlacementInputs& ground);

  // Queries for a group that is isomorphic to no other, before placements are known.
  void query_ahead(GroupId group);
  // Queries for the first group of every other pattern. Throws RefusedCall for a call that the
  // model cannot carry.
  void query_all(const GroupPlacements& placed);
  // Queries for a group that does not load the same links as its pattern, and makes it a pattern by
  // itself.
  void query_alone(GroupId group);

  // Whether parallel links are loaded equally.
  [[nodiscard]] bool hold() const { return flows_.hold(); }
  [[nodiscard]] std::shared_ptr<const GroupShapes> shapes() const;
  // Returns the traffic of all groups.
  [[nodiscard]] GroupTraffic traffic() && { return std::move(traffic_); }

 private:
  struct Asked {
    std::uint32_t begin = 0;  // shapes in the table
    std::uint32_t end = 0;
    std::vector<GroupCall> calls = {};
  };
  [[nodiscard]] Asked asked_for(GroupId group);
  void take(std::uint32_t pattern, Asked asked);

  const Workload& workload_;
  const CommunicationModel& communication_;
  const GroupCalls& calls_;
  FlowShapes flows_;
  std::optional<std::pair<GroupId, Asked>> ahead_;
  std::vector<GroupShapes::Pattern> patterns_;
  GroupTraffic traffic_;
};

// A joint graph, or the groups that prevent one.
struct GraphLayout {
  std::shared_ptr<const JointGraph> graph = {};
  std::vector<GroupId> mismatched = {};  // groups whose links do not match their pattern
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const GraphLayout& layout);

// Writes the loads of all groups: the groups of a pattern load the links of their own placements.
// Returns the groups that do not match instead, if there are any.
[[nodiscard]] GraphLayout lay_out(const Cluster& cluster, const Workload& workload,
                                  std::shared_ptr<const GroupPlacements> placed,
                                  const GroupShapes& shapes);

}  // namespace trainyard
