// How all groups load links, as shapes of the joint graph (joint_graph.hpp). Of the groups that
// make the same calls in isomorphic placements (group_placements.hpp), the communication model is
// queried for the phases of one; the others have its shapes on their own links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/cluster/communication_model.hpp"
#include "sim/contention/flow_shapes.hpp"
#include "sim/contention/group_placements.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

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
//    GroupAnswers answers(cluster, workload, communication, {calls, parallel}, traffic);
//    answers.query_all(*placed);
//    if (answers.hold()) lay_out(cluster, workload, placed, *answers.shapes());
class GroupAnswers {
 public:
  // `traffic` receives the phases of all groups. Without places, shapes name every link. REQUIRES:
  // all arguments outlive this.
  GroupAnswers(const Cluster& cluster, const Workload& workload,
               const CommunicationModel& communication, const PlacementInputs& ground,
               GroupTraffic& traffic);

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

 private:
  void query(std::uint32_t pattern);
  [[nodiscard]] std::vector<GroupCall> phases_of(GroupId group);

  const Workload& workload_;
  const CommunicationModel& communication_;
  const GroupCalls& calls_;
  FlowShapes flows_;
  std::optional<std::pair<GroupId, std::vector<GroupCall>>> ahead_;
  std::vector<GroupShapes::Pattern> patterns_;
  GroupTraffic& traffic_;
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
