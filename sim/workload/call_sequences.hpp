// Which operations of which member meet in a group, for ranks that are not folded: the i-th call of
// each member is one call of the group.
//
//   CallSequences sequences(workload);
//   for (OpIndex op : sequences.operations(group, group_rank)) meet(op);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/workload/program_calls.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// "operation 3 \"grads\" of program 0 \"stage 0\"", for messages.
[[nodiscard]] std::string describe(const Workload& workload, std::uint32_t program, OpIndex op);

// REQUIRES: programs, groups and slot bindings hold no index out of range, and slots in use are
// bound.
class CallSequences {
 public:
  explicit CallSequences(const Workload& workload);

  // The operations of a member's program that call the group, in issue order.
  [[nodiscard]] const std::vector<OpIndex>& operations(GroupId group, std::size_t member) const {
    return sequences_[of_member_[group][member]].operations;
  }
  // Whether two members make equal calls in equal order.
  [[nodiscard]] bool alike(GroupId group, std::size_t a, std::size_t b) const {
    return sequences_[of_member_[group][a]].content == sequences_[of_member_[group][b]].content;
  }
  [[nodiscard]] bool same_call(RankId a, OpIndex of_a, RankId b, OpIndex of_b) const;

 private:
  struct Sequence {
    std::vector<OpIndex> operations;
    std::uint32_t content = 0;  // equal for equal calls, whatever the program
  };
  using Content = std::vector<std::pair<bool, std::uint32_t>>;

  [[nodiscard]] std::pair<bool, std::uint32_t> meaning(std::uint32_t program, OpIndex op) const;
  [[nodiscard]] std::uint32_t sequence_of(std::uint32_t program, const ProgramCalls& calls,
                                          const std::vector<std::uint16_t>& slots);

  const Workload& workload_;
  std::vector<std::uint32_t> equal_call_;  // lowest call equal to each
  std::vector<Sequence> sequences_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint16_t>>, std::uint32_t> known_;
  std::map<Content, std::uint32_t> contents_;
  std::vector<std::vector<std::uint32_t>> of_member_;  // [group][member]
};

}  // namespace trainyard
