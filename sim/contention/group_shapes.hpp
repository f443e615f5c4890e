// How all groups load links, as shapes of the joint graph (joint_graph.hpp). Of the groups that
// make the same calls in isomorphic placements (alike_places.hpp) one is asked for its phases, and
// the others have its shapes on their own links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cluster/communication_model.hpp"
#include "sim/contention/alike_places.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Which calls the members of each group make together, and through which of their slots ranks make
// any. Many groups make the same calls, so lists of calls have numbers.
//
//   const GroupCalls calls(workload, analysis);
//   calls.list(calls.of_group(group));   // {0, 2}: indices into Workload::calls
class GroupCalls {
 public:
  // `analysis`: of the workload.
  GroupCalls(const Workload& workload, const ProgramAnalysis& analysis);

  // The number of the group's list. Groups with equal calls have equal numbers.
  [[nodiscard]] std::uint32_t of_group(GroupId group) const { return of_group_[group]; }
  // The calls of a list, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& list(std::uint32_t number) const {
    return *lists_[number];
  }
  // Whether the program calls through the slot.
  [[nodiscard]] bool uses(std::uint32_t program, std::size_t slot) const {
    return of_slot_[program].size() > slot && of_slot_[program][slot] != kNoCalls;
  }
  // How many slots ranks call through, over all ranks.
  [[nodiscard]] std::size_t bound_slots() const { return bound_slots_; }

 private:
  static constexpr std::uint32_t kNoCalls = 0;  // the number of the empty list

  [[nodiscard]] std::uint32_t number(std::vector<std::uint32_t> calls);
  // The number of the calls that are in one of two lists.
  [[nodiscard]] std::uint32_t either(std::uint32_t a, std::uint32_t b);

  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
  std::vector<const std::vector<std::uint32_t>*> lists_;  // keys of numbers_
  std::vector<std::vector<std::uint32_t>> of_slot_;       // [program][slot]
  std::vector<std::uint32_t> of_group_;
  std::size_t bound_slots_ = 0;
};

// How chains load links, as shapes of the joint graph (joint_graph.hpp): of parallel links the
// lowest, each load relative to the most loaded link, and of a group's chains those that are alike
// once.
//
//   ChainShapes shapes(cluster, joint, false);   // joint knows parallel links
//   shapes.begin();                       // a group
//   ShapedPhase made = shapes.shaped(phase);
//   shapes.shape(0);                      // of the first group the first
//   if (!shapes.hold()) ...;              // parallel links are loaded unequally
class ChainShapes {
 public:
  // Reads of the joint graph which links are parallel. With `every_link` they are told one by one.
  // REQUIRES: both outlive it.
  ChainShapes(const Cluster& cluster, const JointGraph& joint, bool every_link);

  // The phases that follow are of another group.
  void begin();
  // Chains have their shapes by number among those of the group.
  [[nodiscard]] ShapedPhase shaped(const Phase& phase);

  // The shapes of all groups, in the order in which they came; each sorted by link.
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(offsets_.size() - 1);
  }
  [[nodiscard]] std::span<const ShapeLoad> shape(std::uint32_t index) const {
    return std::span(shape_loads_).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
  }
  // The distinct loads that JointGraph::loads will hold.
  [[nodiscard]] const std::vector<double>& loads() const { return loads_; }

  // Whether all chains so far load parallel links alike.
  [[nodiscard]] bool hold() const { return hold_; }

 private:
  // The load of a chain on parallel links.
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

// How all groups load links, as shapes of the joint graph (joint_graph.hpp): of those that make
// the same calls in places alike (alike_places.hpp) one is asked for, and the others have its
// shapes on their own links.
//
// Who does the same is found first, so that what all have is laid out at once and then written by
// two threads. Meanwhile a group of most of a large cluster's GPUs, which has no like, is asked
// for: that takes as long as all else.
//
//   GroupShapes shapes({cluster, workload, communication, calls, &places, false}, joint);
//   if (!shapes.write([] {})) ...;   // parallel links are loaded unequally
class GroupShapes {
 public:
  struct Given {
    const Cluster& cluster;
    const Workload& workload;
    const CommunicationModel& communication;
    const GroupCalls& calls;
    AlikePlaces* places = nullptr;  // nullptr: every group is asked for, and told link by link
  };
  // Reads of the joint graph which links are parallel. REQUIRES: all that is given outlives it.
  GroupShapes(const Given& given, JointGraph& joint);

  // Writes the joint graph's traffic, shapes and loads; false where a chain loads parallel
  // links unequally. `meanwhile` is called once. REQUIRES: it asks for no routes.
  [[nodiscard]] bool write(const std::function<void()>& meanwhile);

 private:
  // A load on a link of a place.
  struct PlacedLoad {
    AlikePlaces::Spot spot;
    std::uint32_t load = 0;  // index into JointGraph::loads
  };
  // Groups that do the same in places alike.
  struct Pattern {
    GroupId first = 0;         // the one that is asked for
    std::uint32_t groups = 1;  // how many there are
    std::uint32_t begin = 0;   // its shapes in shapes_
    std::uint32_t end = 0;
    bool holds = true;  // whether all its links are of its place
    std::vector<PlacedLoad> loads =
        {};  // of its shapes, one behind the other, where there are others
  };
  struct Asked {
    std::uint32_t begin = 0;  // shapes in shapes_
    std::uint32_t end = 0;
    std::vector<GroupCall> calls = {};
  };
  // The kinds of calls of a list, which decide where a group can stand.
  struct CallKinds {
    bool known = false;
    bool names_switches = false;
    bool only_messages = true;
  };

  [[nodiscard]] std::optional<GroupId> group_without_like() const;
  [[nodiscard]] std::vector<std::uint32_t> gpus_of(GroupId group) const;
  void find_patterns(std::optional<GroupId> without_like);
  void find_ways();
  void place(GroupId group, std::uint32_t place);
  void place_alone(GroupId group);
  [[nodiscard]] const CallKinds& kinds_of(std::uint32_t list);
  [[nodiscard]] Asked asked_for(GroupId group);
  void take(std::uint32_t pattern, Asked asked);
  void ask_for_patterns(std::optional<GroupId> asked);
  void tell(Pattern& pattern);
  [[nodiscard]] bool is_in_shapes(const RouteHop& hop) const;
  void lay_out();
  [[nodiscard]] std::vector<GroupId> filled();
  [[nodiscard]] bool fill(GroupId group);

  const Given given_;
  JointGraph& joint_;
  ChainShapes shapes_;  // of those that are asked for
  std::vector<Pattern> patterns_;
  std::vector<std::uint32_t> pattern_of_;                        // by group
  std::unordered_map<std::uint64_t, std::uint32_t> pattern_at_;  // by list of calls and place
  std::vector<CallKinds> call_kinds_;   // by number of a list of calls, as they are asked for
  std::vector<GroupId> messages_;       // that no tree joins
  std::vector<std::uint32_t> bases_;    // of the places of groups (AlikePlaces::base)
  std::vector<std::uint32_t> base_of_;  // by group, where its own begins
};

}  // namespace trainyard
