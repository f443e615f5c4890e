// NCCL's graph search: how many channels of what rate fit into a node, for rings, trees and NVLS.
//
// Rates are tried from high to low (data/topology.json). At each, channels are placed one by one;
// each takes the rate from every directed wire on its way. The best product of channels and rate
// wins, then fewer hops; once no more is to be won, fast channels are split in two and the rate is
// raised as far as it fits. H100 x 8 over NVSwitch (370.8 GB/s): 6 x 60 fits, 7 x 60 does not, and
// 360 GB/s is as good as it gets; split: 12 channels of 30. With eight 400 Gb/s NICs: 7 x 48 fits,
// 8 x 45 is better. Source: NVIDIA/nccl v2.30.7, src/graph/search.cc;
// tests/sim/nccl/graph_test.cpp.
//
//   Graphs graphs = search_graphs(switched_node({.gpus = 8}));   // ring: 12 x 30/30
#pragma once

#include <cstdint>
#include <optional>

#include "sim/nccl/node_view.hpp"

namespace trainyard::nccl {

struct ChannelGraph {
  std::uint32_t channels = 0;
  double intra = 0.0;  // GB/s of a channel between GPUs
  double inter = 0.0;  // and to the NIC; equal to intra or more where the node is alone
  PathType type_intra = PathType::NvLink;
  PathType type_inter = PathType::Same;
  bool simple_tree = false;   // parent and children at one GPU, instead of at two
  bool same_channels = true;  // all channels visit the GPUs in one order
  double net_latency_us = 0.0;
};

struct Graphs {
  ChannelGraph ring;
  ChannelGraph tree;
  std::optional<ChannelGraph> nvls;  // NVSwitch and SM90 or newer
};

// GPUs are tried in turn from the one beside the NIC on, not in every order as NCCL does within its
// time limit: behind a switch, orders differ only in which GPU is first and last. Meshes of up to
// six GPUs try every order, larger ones a set of cycles that share no wire. Rings come back to the
// NIC they left (NCCL_CROSS_NIC=0): the published graphs of eight-NIC nodes do. Each type of path
// is tried after nearer ones failed to give more. REQUIRES: at least one GPU; with one, at least
// one NIC.
[[nodiscard]] Graphs search_graphs(const NodeView& node);

}  // namespace trainyard::nccl
