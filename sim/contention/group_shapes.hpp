// What all groups put on links, as shapes of the joint graph (joint_graph.hpp): of those that make
// the same calls in places alike (alike_places.hpp) one is asked for, and the others have its
// shapes on their own links.
//
// Who does the same is found first, so that what all have is laid out at once and then written by
// two threads. Meanwhile a group of most of a large cluster's GPUs, which has no like, is asked
// for: that takes as long as all else.
//
//   GroupShapes shapes({cluster, workload, transport, calls, &places, false}, joint);
//   if (!shapes.write([] {})) ...;   // parallel links are loaded unequally
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/contention/alike_places.hpp"
#include "sim/contention/chain_shapes.hpp"
#include "sim/contention/group_calls.hpp"
#include "sim/contention/joint_graph.hpp"

namespace trainyard {

class GroupShapes {
 public:
  struct Given {
    const Cluster& cluster;
    const Workload& workload;
    const Transport& transport;
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
  // What matters of a list of calls to where a group can stand.
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
