// Which calls of which groups surely run at different times, because a rank is a member of both.
//
// The rank makes the two calls one after the other, by the order of its streams and dependencies
// (call_order.hpp). An operation ends for all members at once, so what one member keeps apart is
// apart for all.
//
//   Apartness apartness(workload, joint, order);
//   if (apartness.apart(tensor_group, data_group)) ...;
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/fold/joint_graph.hpp"
#include "sim/workload/call_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Remembers what it was asked: one for each thread.
class Apartness {
 public:
  Apartness(const Workload& workload, const JointGraph& joint, CallOrder& order);

  // Of a group with itself: its calls follow one another.
  [[nodiscard]] bool apart(GroupId a, GroupId b);

 private:
  enum class Itself : std::uint8_t { Unknown, Apart, Together };

  [[nodiscard]] bool of_itself(GroupId group);
  [[nodiscard]] bool is_pair(GroupId group) const;
  [[nodiscard]] bool kept_apart(GroupId a, GroupId b);
  [[nodiscard]] bool found_apart(GroupId a, GroupId b);
  [[nodiscard]] const Membership* membership(RankId rank, GroupId group) const;
  [[nodiscard]] bool keeps_apart(RankId rank, std::uint16_t a, std::uint16_t b);
  [[nodiscard]] bool are_ordered(std::uint32_t program, const std::vector<std::uint32_t>& slots,
                                 std::uint16_t a, std::uint16_t b);

  struct Kept {
    const std::vector<std::uint32_t>* slots = nullptr;
    std::uint32_t program = 0;
    std::uint16_t a = 0;
    std::uint16_t b = 0;
    bool apart = false;
  };

  const Workload& workload_;
  const JointGraph& joint_;
  CallOrder& order_;
  std::vector<std::size_t> first_;  // by rank, in JointGraph::memberships
  std::vector<Itself> of_itself_;   // by group
  std::vector<Kept> kept_ = std::vector<Kept>(4096);
  std::unordered_map<std::uint64_t, bool> known_;
  // The pair last asked for: the links of a node are looked at in a row.
  std::pair<GroupId, GroupId> last_pair_ = {kNone, kNone};
  bool last_apart_ = false;
};

}  // namespace trainyard
