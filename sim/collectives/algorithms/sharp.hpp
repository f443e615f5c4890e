// SHARP: the switches of the fabric add. Each node has one head per NIC. The part of the buffer of
// every head goes up a tree of switches, which add the arriving data, and comes down again.
//
// With h heads per node a NIC sends S/h and receives S/h, where a ring sends 2 (N-1)/N S/h
// (NVIDIA/nccl src/graph/tuning.cc, CollNet). Within a node, "sharp" adds and gathers by direct
// exchange as CollNetDirect does, and "nvls_sharp" by the NVSwitch:
//
//    sharp        2 (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//    nvls_sharp   2 a_i + a_e + max((h+1)/h S/B_i, S/(h B_e))
//
// reduce_scatter and all_gather are half an all_reduce in the node and one direction of the trees.
// In reduce_scatter every head sends its S/h up, the switches add, and the head receives the parts
// that the ranks of its node own. In all_gather it sends those parts up, and the switches copy
// (multicast) them to all other nodes.
//
//    reduce_scatter  (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//    all_gather      (g-1) (a_i + S/(h B_i)) + a_e + (N-1)/N S/(h B_e)
//
// g ranks on each node, h of them heads; a are the step latencies and B the rates of NVLink (i) and
// NIC (e). 4 nodes of 8 ranks, h = g, S = 2^30, B_i = 370.8 and B_e = 48.5 GB/s, without latency:
// sharp 14 x 361.97 us + 2 767.38 us = 7 834.93 us, nvls_sharp 3 257.71 us
// (tests/sim/collectives/sharp_test.cpp). a_e is the latency between the two heads that are
// farthest apart (hop_latency).
//
//    const std::vector<MultiLinkFlow> flows = sharp_flows(placed, InNode::Direct, 1e9);
//    const SharpPlan plan = sharp_plan(placed, InNode::Direct);
//    plan.heads[1];                           // group ranks, one per node: their second NICs
//    plan.group_rank_of(plan.trees[1].root);  // the group rank of the root switch
#pragma once

#include <map>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

enum class InNode : std::uint8_t { Direct, NvSwitch };

// The reason why SHARP cannot run on this group, with a remedy, or nothing.
[[nodiscard]] std::optional<std::string> sharp_refusal(const PlacedGroup& placed, InNode in_node);

// The loads of a whole all_reduce on links. REQUIRES: no refusal.
[[nodiscard]] std::vector<MultiLinkFlow> sharp_flows(const PlacedGroup& placed, InNode in_node,
                                                     double bytes);

// The tree of switches along which a fabric reduces: leaves add the data of their NICs, the
// switches above add the data of the leaves, and the root sends the sum back down.
//
//    const auto tree = reduction_tree(placed, {0, 8, 16, 24}, 0);   // rail 0 of four nodes
//    if (tree) tree->parent.at(tree->leaf[2]);   // the switch above the one where rank 16 enters
struct ReductionTree {
  std::vector<DeviceId> leaf;           // by index of the group ranks: the switch of its NIC
  std::map<DeviceId, DeviceId> parent;  // by switch of the tree, except for the root
  DeviceId root = 0;

  // True if group rank number `at` of those given enters at this switch or below it.
  [[nodiscard]] bool holds(DeviceId device, std::size_t at) const;
  // All switches of the tree, each before its parent.
  [[nodiscard]] std::vector<DeviceId> upwards() const;
};

// The tree that joins the members of `group_ranks`. The root is a switch with the least distance to
// its farthest leaf. If there are several, the result is number `turn` of them, modulo their
// number, so that the trees of several rails are spread over the spine switches. Returns nothing if
// no switches of the fabric join the members (NICs cabled to each other, planes that are not
// connected). REQUIRES: the group ranks are on two nodes or more.
[[nodiscard]] std::optional<ReductionTree> reduction_tree(
    const PlacedGroup& placed, const std::vector<std::uint32_t>& group_ranks, std::uint32_t turn);

// The heads of a group, and the switches that add or copy their parts.
struct SharpPlan {
  Placement placement;
  std::vector<std::uint32_t> head_index;          // by head, its index within the node
  std::vector<std::uint32_t> head_of;             // by index within the node, the head at its NIC
  std::vector<std::vector<std::uint32_t>> heads;  // group ranks, [head][node]
  std::vector<ReductionTree> trees;               // by head
  std::vector<DeviceId> switches;  // NVSwitches node by node, then the switches of the fabric
  std::map<DeviceId, std::uint32_t> group_ranks;  // by switch

  [[nodiscard]] std::uint32_t group_rank_of(DeviceId device) const {
    return group_ranks.at(device);
  }
};

// The members of a node that are heads, as indices within the node: the first member at each NIC.
// Returns nothing unless they are the same on every node.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> sharp_heads(const PlacedGroup& placed,
                                                                    const Placement& placement);

// REQUIRES: sharp_refusal() returns nothing.
[[nodiscard]] SharpPlan sharp_plan(const PlacedGroup& placed, InNode in_node);

// The number of chunks in which the part of a head passes the switch of the node, the fabric and
// the switch again. It bounds the number of messages. It is 1 with a direct exchange in the node.
[[nodiscard]] std::uint32_t sharp_chunks_most(const SharpPlan& plan, InNode in_node);

// A call for sharp_messages(). The messages of an all_reduce have sharp_chunks_most() pieces per
// head, those of a reduce_scatter or an all_gather one piece per rank. REQUIRES: InNode::Direct
// except for all_reduce.
struct SharpCall {
  CollectiveOp op = CollectiveOp::AllReduce;
  InNode in_node = InNode::Direct;
  Bytes bytes = {};
  bool whole = false;  // one chunk: for the volume of the messages, not their timing
};
[[nodiscard]] std::vector<Message> sharp_messages(const SharpPlan& plan, const SharpCall& call);

}  // namespace trainyard
