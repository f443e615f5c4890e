// Who is a head of SHARP, and by which switches the heads' parts are added.
//
//   const SharpPlan plan = sharp_plan(place, InNode::Direct);
//   plan.heads[1];                     // roles, one a node: their second NICs
//   plan.role_of(plan.trees[1].root);  // of the root switch among the parties
#pragma once

#include <map>
#include <vector>

#include "models/collectives/placement.hpp"
#include "models/collectives/reduction_tree.hpp"
#include "models/collectives/sharp.hpp"

namespace trainyard {

struct SharpPlan {
  Placement placement;
  std::vector<std::uint32_t> head_index;          // position within the node of each head
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

// The messages of an all_reduce, `head_index.size()` pieces.
[[nodiscard]] std::vector<Message> sharp_messages(const SharpPlan& plan, InNode in_node,
                                                  std::uint32_t ranks, Bytes bytes);

}  // namespace trainyard
