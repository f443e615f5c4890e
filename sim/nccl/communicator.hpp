// A communicator as NCCL sets it up: its size, the graphs that a search finds on its node, and how
// many channels it runs.
//
// The search (graph_search.cpp) asks how many channels of what rate fit into a node, for rings,
// trees and NVLS. It tries rates from high to low (data/topology.json). At each it places channels
// one by one, and each takes the rate from every directed wire on its way. The best product of
// channels and rate wins, then fewer hops; once no more is to be won, fast channels are split in
// two and the rate is raised as far as it fits. H100 x 8 over NVSwitch (370.8 GB/s): it fits
// 6 x 60, not 7 x 60, and 360 GB/s is as good as it gets; split: 12 channels of 30. With eight 400
// Gb/s NICs: 7 x 48 fits, 8 x 45 is better. Source: NVIDIA/nccl v2.30.7, src/graph/search.cc;
// tests/sim/nccl/graph_test.cpp.
//
//   Graphs graphs = search_graphs(switched_node({.gpus = 8}));   // ring: 12 x 30/30
//   Communicator comm = make_communicator({.node = switched_node({}), .ranks = 8}, Options{});
//   comm.channels;       // 24 on H100 x 8
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/nccl/constants.hpp"
#include "sim/nccl/node_view.hpp"
#include "sim/nccl/options.hpp"

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

struct CommunicatorShape {
  NodeView node = {};
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  // Nodes with more NICs; every graph is the least of all nodes'.
  std::vector<NodeView> others = {};
  bool operator==(const CommunicatorShape&) const = default;
};

struct Communicator {
  NodeView node = {};
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  Options options = {};
  TuningConstants constants = {};
  Graphs graphs = {};
  std::uint32_t channels = 0;       // for rings and trees; each runs on one SM
  std::uint32_t nvls_channels = 0;  // 0: no NVLS
  // The share of the channels NCCL would take that NCCL_MAX_NCHANNELS leaves: rates shrink with it.
  double channel_share = 1.0;
  double nvls_channel_share = 1.0;
  std::uint32_t p2p_channels = 0;  // in all
  std::uint32_t p2p_channels_per_peer = 0;

  [[nodiscard]] double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// REQUIRES: the node has NICs exactly where there are several nodes; ranks >= 2.
[[nodiscard]] Communicator make_communicator(const CommunicatorShape& shape,
                                             const Options& options);

// A call runs on so many channels and threads: fewer channels, then fewer threads, while each
// thread would have less than 8 bytes (LL, times the ranks for rings; LL128), 64 (Simple) or 512
// (CollNet) of the buffer; and no more than one for each 32 KiB of traffic. NVLS always takes all
// of its channels.
struct LaunchShape {
  std::uint32_t channels = 0;
  std::uint32_t threads = 0;  // the ones of a channel that move data
};
[[nodiscard]] LaunchShape launch_shape(const Communicator& communicator, CollectiveOp op,
                                       Algorithm algorithm, Protocol protocol, double bytes);

}  // namespace trainyard::nccl
