// A communicator as NCCL sets it up: its size, its graphs, and how many channels it runs.
//
//   Communicator comm = make_communicator({.node = switched_node({}), .ranks = 8}, Options{});
//   comm.channels;       // 24 on H100 x 8
#pragma once

#include <cstdint>

#include "sim/nccl/constants.hpp"
#include "sim/nccl/graph_search.hpp"
#include "sim/nccl/options.hpp"

namespace trainyard::nccl {

struct CommunicatorShape {
  NodeView node = {};
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  // Nodes with more NICs; every graph is the least of all nodes'.
  std::vector<NodeView> others = {};
};

struct Communicator {
  NodeView node = {};
  std::uint32_t ranks = 8;
  std::uint32_t nodes = 1;
  Options options = {};
  TuningConstants constants = {};
  Graphs graphs = {};
  std::uint32_t channels = 0;       // of rings and trees; each runs on one SM
  std::uint32_t nvls_channels = 0;  // 0: no NVLS
  // What NCCL_MAX_NCHANNELS leaves of the channels NCCL would take: their rates shrink with them.
  double channel_share = 1.0;
  double nvls_channel_share = 1.0;
  std::uint32_t p2p_channels = 0;  // in all
  std::uint32_t p2p_channels_per_peer = 0;

  [[nodiscard]] double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// REQUIRES: the node has NICs exactly where there are several nodes; ranks >= 2.
[[nodiscard]] Communicator make_communicator(const CommunicatorShape& shape,
                                             const Options& options);

// What a call runs on: fewer channels, then fewer threads, while each thread would have less than 8
// bytes (LL, times the ranks for rings; LL128), 64 (Simple) or 512 (CollNet) of the buffer; and no
// more than one for each 32 KiB of traffic. NVLS always takes all of its channels.
struct LaunchShape {
  std::uint32_t channels = 0;
  std::uint32_t threads = 0;  // of one channel, those that move data
};
[[nodiscard]] LaunchShape launch_shape(const Communicator& communicator, CollectiveOp op,
                                       Algorithm algorithm, Protocol protocol, double bytes);

}  // namespace trainyard::nccl
