// The calls that each member of a group makes, for workloads that are not folded. The i-th calls of
// all members are one call of the group.
//
//    CallSequences sequences(workload);
//    for (OpIndex op : sequences.operations(group, group_rank)) use(op);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/workload/program_calls.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Returns "operation 3 \"grads\" of program 0 \"stage 0\"", for messages.
[[nodiscard]] std::string describe(const Workload& workload, std::uint32_t program, OpIndex op);

// REQUIRES: programs, groups and slot bindings have no index out of range, and all slots in use are
// bound.
class CallSequences {
 public:
  explicit CallSequences(const Workload& workload);

  // Returns the operations of a member's program that call the group, in issue order.
  [[nodiscard]] const std::vector<OpIndex>& operations(GroupId group, std::size_t member) const {
    return sequences_[of_member_[group][member]].operations;
  }
  // True if two members make equal calls in the same order.
  [[nodiscard]] bool equal_sequences(GroupId group, std::size_t a, std::size_t b) const {
    return sequences_[of_member_[group][a]].content == sequences_[of_member_[group][b]].content;
  }
  [[nodiscard]] bool same_call(RankId a, OpIndex of_a, RankId b, OpIndex of_b) const;

 private:
  struct Sequence {
    std::vector<OpIndex> operations;
    std::uint32_t content = 0;  // equal for equal sequences of calls of different programs
  };
  using Content = std::vector<std::pair<bool, std::uint32_t>>;

  [[nodiscard]] std::pair<bool, std::uint32_t> meaning(std::uint32_t program, OpIndex op) const;
  [[nodiscard]] std::uint32_t sequence_of(std::uint32_t program, const ProgramCalls& calls,
                                          const std::vector<std::uint16_t>& slots);

  const Workload& workload_;
  std::vector<std::uint32_t> equal_call_;  // by call: the lowest equal call
  std::vector<Sequence> sequences_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint16_t>>, std::uint32_t> known_;
  std::map<Content, std::uint32_t> contents_;
  std::vector<std::vector<std::uint32_t>> of_member_;  // [group][member]
};

}  // namespace trainyard
