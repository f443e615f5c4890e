// Who is a head of SHARP, and by which switches the heads' parts are added or copied.
//
//   const SharpPlan plan = sharp_plan(place, InNode::Direct);
//   plan.heads[1];                     // roles, one a node: their second NICs
//   plan.role_of(plan.trees[1].root);  // of the root switch among the parties
#pragma once

#include <map>
#include <vector>

#include "sim/collectives/algorithms/reduction_tree.hpp"
#include "sim/collectives/algorithms/sharp.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

struct SharpPlan {
  Placement placement;
  std::vector<std::uint32_t> head_index;          // position within the node of each head
  std::vector<std::uint32_t> head_of;             // the head of each position, by its NIC
  std::vector<std::vector<std::uint32_t>> heads;  // [head][node]
  std::vector<ReductionTree> trees;               // by head
  std::vector<DeviceId> parties;                  // NVSwitches node by node, then switches
  std::map<DeviceId, std::uint32_t> roles;        // of the parties

  [[nodiscard]] std::uint32_t role_of(DeviceId device) const { return roles.at(device); }
};

// The members of a node that are heads: the first at each NIC, by position within the node. The
// same on every node, or nothing.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> sharp_heads(const GroupPlace& place,
                                                                    const Placement& placement);

// REQUIRES: sharp_refusal() has none.
[[nodiscard]] SharpPlan sharp_plan(const GroupPlace& place, InNode in_node);

// In how many chunks a head's part goes through the node's switch, the fabric and the switch again:
// by the members that take part in each. One with a direct exchange in the node.
[[nodiscard]] std::uint32_t sharp_chunks_most(const SharpPlan& plan, InNode in_node);

// The messages of an all_reduce, with sharp_chunks_most() pieces a head; of a reduce_scatter or an
// all_gather, with a piece a rank. REQUIRES: InNode::Direct but for all_reduce.
struct SharpCall {
  CollectiveOp op = CollectiveOp::AllReduce;
  InNode in_node = InNode::Direct;
  Bytes bytes = {};
  bool whole = false;  // in one chunk: what is sent, not when
};
[[nodiscard]] std::vector<Message> sharp_messages(const SharpPlan& plan, const SharpCall& call);

}  // namespace trainyard
