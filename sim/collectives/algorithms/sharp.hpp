// SHARP: the fabric's switches add. Each node has one head per NIC; every head's part of the buffer
// goes up a tree of switches, which add what arrives, and comes down again.
//
// With h heads per node a NIC sends S/h and receives S/h, where a ring sends 2 (N-1)/N S/h
// (NVIDIA/nccl src/graph/tuning.cc, CollNet). "sharp" adds and gathers inside the node by direct
// exchange as CollNetDirect does, "nvls_sharp" by the NVSwitch:
//
//   sharp        2 (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//   nvls_sharp   2 a_i + a_e + max((h+1)/h S/B_i, S/(h B_e))
//
// reduce_scatter and all_gather are half an all_reduce in the node and one direction of the trees:
// every head sends its S/h up, where the switches add, and gets back what its node's ranks own; or
// sends those up, and the switches copy (multicast) to all other nodes.
//
//   reduce_scatter  (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//   all_gather      (g-1) (a_i + S/(h B_i)) + a_e + (N-1)/N S/(h B_e)
//
// g ranks on each node, h = g of them heads; a the step latencies, B the rates of NVLink (i) and
// NIC (e). 4 nodes of 8, S = 2^30, B_i = 370.8 and B_e = 48.5 GB/s without latency: sharp
// 14 x 361.97 us + 2 767.38 us = 7 834.93 us, nvls_sharp 3 257.71 us
// (tests/sim/collectives/sharp_test.cpp). a_e is that of the farthest two heads (hop_latency).
//
//   const std::vector<MultiLinkFlow> flows = sharp_flows(place, InNode::Direct, 1e9);
//   const SharpPlan plan = sharp_plan(place, InNode::Direct);
//   plan.heads[1];                     // group ranks, one a node: their second NICs
//   plan.group_rank_of(plan.trees[1].root);  // the group rank of the root switch
#pragma once

#include <map>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

enum class InNode : std::uint8_t { Direct, NvSwitch };

// Why the fabric cannot do it for this group, with what to do, or nothing.
[[nodiscard]] std::optional<std::string> sharp_refusal(const GroupPlace& place, InNode in_node);

// All that an all_reduce puts on links. REQUIRES: no refusal.
[[nodiscard]] std::vector<MultiLinkFlow> sharp_flows(const GroupPlace& place, InNode in_node,
                                                     double bytes);

// The tree of switches by which a fabric reduces: leaves add what their NICs send, the switches
// above add what the leaves send, the root sends the sum back down.
//
//   const ReductionTree tree = reduction_tree(place, {0, 8, 16, 24}, 0);   // rail 0 of four nodes
//   tree.parent.at(tree.leaf[2]);           // the switch above the one where group rank 16 enters
struct ReductionTree {
  std::vector<DeviceId> leaf;           // by group rank given, the switch its NIC sends to
  std::map<DeviceId, DeviceId> parent;  // by switch of the tree, without the root
  DeviceId root = 0;

  // Is number `at` of the group ranks given at this switch or below it?
  [[nodiscard]] bool holds(DeviceId device, std::size_t at) const;
  // Every switch, each before its parent.
  [[nodiscard]] std::vector<DeviceId> upwards() const;
};

// The tree that joins the members of `group ranks`. The root is the switch from which the farthest
// leaf is nearest; where several are, number `turn` of them in turn, so that the trees of several
// rails spread over the spines. Nothing where the fabric has no switches that join them (NICs
// cabled to each other, planes that do not meet). REQUIRES: the group ranks stand on two nodes or
// more.
[[nodiscard]] std::optional<ReductionTree> reduction_tree(
    const GroupPlace& place, const std::vector<std::uint32_t>& group_ranks, std::uint32_t turn);

// Who is a head, and by which switches the heads' parts are added or copied.
struct SharpPlan {
  Placement placement;
  std::vector<std::uint32_t> head_index;          // position within the node of each head
  std::vector<std::uint32_t> head_of;             // the head of each position, by its NIC
  std::vector<std::vector<std::uint32_t>> heads;  // [head][node]
  std::vector<ReductionTree> trees;               // by head
  std::vector<DeviceId> switches;  // NVSwitches node by node, then those of the fabric
  std::map<DeviceId, std::uint32_t> group_ranks;  // by switch

  [[nodiscard]] std::uint32_t group_rank_of(DeviceId device) const {
    return group_ranks.at(device);
  }
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
