// A communicator as NCCL creates it: its size, the graphs that the search finds on its node, and
// its numbers of channels.
//
// The search (graph_search.cpp) determines how many channels of which rate fit into a node, for
// rings, trees and NVLS. It tries rates from high to low (data/topology.json). At each rate it adds
// channels one by one; a channel takes its rate from every directed wire on its path. The graph
// with the largest channels * rate wins; among equals, the one with fewer hops. When no better
// graph is possible, the search splits fast channels in two and raises the rate as far as it fits.
// H100 x 8 over NVSwitch (370.8 GB/s): 6 x 60 fits, 7 x 60 does not, and 360 GB/s is the best;
// after the split: 12 channels of 30. With eight 400 Gb/s NICs: 7 x 48 fits, 8 x 45 is better.
// Source: NVIDIA/nccl v2.30.7, src/graph/search.cc; tests/sim/nccl/graph_test.cpp.
//
//    Graphs graphs = search_graphs(switched_node({.gpus = 8}));   // ring: 12 x 30/30
//    Communicator comm = make_communicator({.node = switched_node({}), .ranks = 8}, Options{});
//    comm.channels;       // 24 on H100 x 8
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
  double intra = 0.0;  // GB/s of one channel between GPUs
  double inter = 0.0;  // GB/s of one channel to the NIC; without a network, equal to intra or more
  PathType type_intra = PathType::NvLink;
  PathType type_inter = PathType::Same;
  bool simple_tree = false;   // parent and children connect to one GPU, not to two
  bool same_channels = true;  // all channels visit the GPUs in the same order
  double net_latency_us = 0.0;
};

struct Graphs {
  ChannelGraph ring;
  ChannelGraph tree;
  std::optional<ChannelGraph> nvls;  // needs an NVSwitch and SM90 or newer
};

// Searches the graphs of a node. Differences from NCCL: GPUs are tried in rotation, starting with
// the GPU next to the NIC, and not in every order as NCCL does within its time limit. Behind a
// switch, orders differ only in the first and the last GPU. Meshes of up to six GPUs try every
// order, larger ones a set of cycles that share no wire. Rings return to the NIC that they left
// (NCCL_CROSS_NIC=0), as the published graphs of nodes with eight NICs do. A type of path is tried
// only after nearer ones did not give a better graph. REQUIRES: at least one GPU; with a single
// GPU, at least one NIC.
[[nodiscard]] Graphs search_graphs(const NodeView& node);

struct CommunicatorShape {
  NodeView node = {};
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  // Other kinds of nodes, whose NICs are as fast or faster. Every graph is the minimum over all
  // kinds, and so are the compute capability and the rates by which calls are tuned and timed.
  std::vector<NodeView> others = {};
  // The least compute capability of all ranks; nothing: that of these nodes.
  std::optional<std::uint32_t> least_sm = {};
  bool operator==(const CommunicatorShape&) const = default;
};

// One channel of send and recv moves this many GB/s between nodes: NCCL counts so by default
// (NCCL_P2P_PER_CHANNEL_NET_BW, src/graph/paths.cc of 2.29). A cluster of H100 measured 12.6 with 2
// GPUs of each node and 15.2 with 8 (h100_n10), one of GH200 18.3 (NVIDIA/nccl issue 1272).
inline constexpr double kNetRatePerChannel_GBps = 14.0;

struct Communicator {
  NodeView node = {};      // the least of all nodes
  bool unlike_sm = false;  // the ranks have several compute capabilities
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  Options options = {};
  TuningConstants constants = {};
  Graphs graphs = {};
  std::uint32_t channels = 0;       // for rings and trees; each channel runs on one SM
  std::uint32_t nvls_channels = 0;  // 0: no NVLS
  // The fraction of NCCL's channels that NCCL_MAX_NCHANNELS leaves. Rates shrink in proportion.
  double channel_share = 1.0;
  double nvls_channel_share = 1.0;
  std::uint32_t p2p_channels = 0;  // total over all peers
  std::uint32_t p2p_channels_per_peer = 0;

  [[nodiscard]] double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// REQUIRES: the node has NICs if and only if there are several nodes; ranks >= 2.
[[nodiscard]] Communicator make_communicator(const CommunicatorShape& shape,
                                             const Options& options);

// The channels and threads of one call. NCCL reduces first the channels, then the threads, as long
// as each thread would have less of the buffer than a minimum: 8 bytes (LL128; LL, where rings
// multiply it by the number of ranks), 64 (Simple) or 512 (CollNet). It uses at most one channel
// for each 32 KiB of traffic. NVLS always uses all its channels.
struct LaunchShape {
  std::uint32_t channels = 0;
  std::uint32_t threads = 0;  // threads of one channel that move data
};
[[nodiscard]] LaunchShape launch_shape(const Communicator& communicator, CollectiveOp op,
                                       Algorithm algorithm, Protocol protocol, double bytes);

}  // namespace trainyard::nccl
