#include "sim/nccl/communicator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kPcieGen3 = 12.0;  // GB/s; a ring at or below it gets half the threads

// Number of ring channels that NCCL creates. It duplicates every channel of the search; the second
// copy uses the second tree. Fast rings with few channels between nodes are duplicated once more
// (src/graph/connect.cc).
std::uint32_t ring_channels_wanted(const Communicator& made) {
  std::uint32_t channels = 2 * std::min(made.graphs.ring.channels, made.graphs.tree.channels);
  const bool again = made.node.sm >= 90 && made.nodes > 1 && made.graphs.ring.intra > 45.0;
  if (again && channels < 16) channels *= 2;
  return channels;
}

std::uint32_t nvls_channels_wanted(const Communicator& made) {
  if (!made.graphs.nvls || !made.options.nvls) return 0;
  return made.node.sm < 100 ? 16 : made.nodes > 1 ? 32 : 24;
}

// Applies the limits of the options. Additional channels find no free wires, so they do not raise
// the rate; fewer channels leave wires idle, so the rates shrink in proportion.
void bound_channels(Communicator& made) {
  const std::uint32_t most = made.options.channels_most.value_or(kChannelsMost);
  const std::uint32_t wanted = ring_channels_wanted(made);
  const std::uint32_t least = std::max(wanted, made.options.channels_least.value_or(1));
  made.channels = std::clamp(std::min(least, most), 1U, kChannelsMost);
  made.channel_share = std::min(1.0, static_cast<double>(made.channels) / std::max(wanted, 1U));
  const std::uint32_t nvls = nvls_channels_wanted(made);
  made.nvls_channels = std::min(nvls, most);
  if (nvls > 0) made.nvls_channel_share = static_cast<double>(made.nvls_channels) / nvls;
}

// The minimum of each number, and the more distant type of path.
ChannelGraph least_of(ChannelGraph graph, const ChannelGraph& other) {
  graph.channels = std::min(graph.channels, other.channels);
  graph.intra = std::min(graph.intra, other.intra);
  graph.inter = std::min(graph.inter, other.inter);
  graph.type_intra = std::max(graph.type_intra, other.type_intra);
  graph.type_inter = std::max(graph.type_inter, other.type_inter);
  graph.same_channels = graph.same_channels && other.same_channels;
  return graph;
}

// Every node searches its own graphs; then all nodes use the minimum of each number
// (initTransportsRank in src/init.cc).
Graphs graphs_of(const CommunicatorShape& shape) {
  Graphs graphs = search_graphs(shape.node);
  for (const NodeView& other : shape.others) {
    const Graphs found = search_graphs(other);
    graphs.ring = least_of(graphs.ring, found.ring);
    graphs.tree = least_of(graphs.tree, found.tree);
    graphs.nvls = graphs.nvls && found.nvls ? std::optional(least_of(*graphs.nvls, *found.nvls))
                                            : std::nullopt;
  }
  return graphs;
}

// The node by which calls are tuned and timed: a collective is as fast as its slowest node.
NodeView least_node(const CommunicatorShape& shape) {
  NodeView least = shape.node;
  least.sm = std::min(least.sm, shape.least_sm.value_or(least.sm));
  for (const NodeView& other : shape.others) {
    least.sm = std::min(least.sm, other.sm);
    least.pcie = std::min(least.pcie, other.pcie);
    if (usable_nvlink_rate(other) >= usable_nvlink_rate(least)) continue;
    least.scale_up = other.scale_up;
    least.nvlink = other.nvlink;
    least.nvlink_wire = other.nvlink_wire;
    least.nvlink_share = other.nvlink_share;
  }
  return least;
}

bool has_unlike_sm(const CommunicatorShape& shape) {
  const std::uint32_t first = shape.node.sm;
  return shape.least_sm.value_or(first) != first ||
         std::ranges::any_of(shape.others, [&](const NodeView& node) { return node.sm != first; });
}

// The channels of a peer on another node (ncclTopoGetNchannels() of NCCL).
std::uint32_t channels_of_remote_peer(const Communicator& made) {
  const NodeView& node = made.node;
  double rate = 0.0;
  for (const NodeNic& nic : node.nics) rate = std::max(rate, nic.rate);
  const auto nics =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, node.nics.size() / node.gpus.size()));
  if (made.constants.rules.remote_peer == PeerChannels::ByRate)
    return std::max(nics, static_cast<std::uint32_t>(std::ceil(rate / kNetRatePerChannel_GBps)));
  const bool many = 2 * made.ranks > 4 * made.p2p_channels;
  return std::max(nics, many ? 1U : 2U);
}

// Number of channels per peer. A peer over NVLink uses two channels for each of its links; over
// PCIe two. All pairs use the minimum over their kinds.
std::uint32_t channels_per_peer(const Communicator& made) {
  const NodeView& node = made.node;
  std::uint32_t least = kChannelsMost;
  if (node.gpus.size() > 1) {
    const bool nvlink = node.scale_up != NodeView::ScaleUp::None && node.nvlink_wire > 0.0;
    const double wires = nvlink ? std::max(1.0, node.nvlink / node.nvlink_wire) : 1.0;
    least = std::min(least, static_cast<std::uint32_t>(2.0 * wires));
  }
  if (made.nodes > 1) least = std::min(least, channels_of_remote_peer(made));
  std::uint32_t channels = std::bit_ceil(std::max(least, 1U));
  // The peers of a batch share the channels, so that all of them fit at the same time.
  constexpr std::uint32_t kPeersOfBatch = 8;
  const std::uint32_t batches = (made.ranks + kPeersOfBatch - 1) / kPeersOfBatch;
  const bool halves = made.nodes > 1 && made.constants.rules.remote_peer == PeerChannels::ByRate;
  while (halves && channels > 1 && channels * batches > made.p2p_channels) channels /= 2;
  return std::min(channels, made.p2p_channels);
}

std::uint32_t threads_most(const Communicator& made, Algorithm algorithm, Protocol protocol) {
  if (algorithm != Algorithm::Ring && algorithm != Algorithm::Tree) return 640;
  if (protocol == Protocol::LL128) return 640;
  const ChannelGraph& ring = made.graphs.ring;
  const bool slow = algorithm == Algorithm::Ring && protocol == Protocol::Simple &&
                    ring.intra * ring.channels <= kPcieGen3;
  return slow ? 256 : 512;
}

double bytes_per_thread(const Communicator& made, Algorithm algorithm, Protocol protocol) {
  if (algorithm == Algorithm::CollNetChain || algorithm == Algorithm::CollNetDirect) return 512.0;
  if (protocol == Protocol::Simple) return 64.0;
  const bool shared = protocol == Protocol::LL && algorithm == Algorithm::Ring;
  return shared ? 8.0 * made.ranks : 8.0;
}

// The number of channels that NCCL plans for this traffic: at most one per bytes_per_channel_least.
std::uint32_t worth_planning(const Communicator& made, CollectiveOp op, double bytes,
                             std::uint32_t channels) {
  const double least = made.constants.rules.bytes_per_channel_least;
  if (least <= 0.0) return channels;
  const double traffic = op == CollectiveOp::AllReduce ? 2.0 * bytes : bytes;
  // The upper limit keeps the conversion to an integer defined for any buffer.
  const auto wanted = static_cast<std::uint32_t>(std::ceil(std::min(traffic / least, 1e6)));
  return std::clamp(wanted, 1U, channels);
}

}  // namespace

Communicator make_communicator(const CommunicatorShape& shape, const Options& options) {
  TY_CHECK(shape.ranks >= 2 && shape.nodes >= 1, shape.ranks, shape.nodes);
  TY_CHECK((shape.nodes > 1) == !shape.node.nics.empty(), shape.nodes, shape.node.nics.size());
  Communicator made{.node = least_node(shape),
                    .unlike_sm = has_unlike_sm(shape),
                    .ranks = shape.ranks,
                    .nodes = shape.nodes,
                    .options = options,
                    .constants = tuning_constants(options.version),
                    .graphs = graphs_of(shape)};
  bound_channels(made);
  made.p2p_channels = std::bit_ceil(made.channels);
  made.p2p_channels_per_peer = channels_per_peer(made);
  return made;
}

LaunchShape launch_shape(const Communicator& communicator, CollectiveOp op, Algorithm algorithm,
                         Protocol protocol, double bytes) {
  LaunchShape shape{.channels = communicator.channels,
                    .threads = threads_most(communicator, algorithm, protocol)};
  if (algorithm == Algorithm::Nvls || algorithm == Algorithm::NvlsTree)
    return {.channels = communicator.nvls_channels, .threads = shape.threads};
  const double least = bytes_per_thread(communicator, algorithm, protocol);
  // Example: 256 KiB by Ring/Simple with 24 channels of 512 threads. A channel needs 512 * 64 = 32
  // KiB, so 8 channels remain, with all their threads.
  while (shape.channels > 1 && bytes < shape.channels * shape.threads * least) --shape.channels;
  while (bytes < shape.channels * shape.threads * least && shape.threads % 128 == 0)
    shape.threads /= 2;
  shape.channels = worth_planning(communicator, op, bytes, shape.channels);
  return shape;
}

}  // namespace trainyard::nccl
