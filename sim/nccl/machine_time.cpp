// The formulas of the machine model. n ranks on N nodes, g = n/N; S bytes; c channels; times in
// microseconds, rates in GB/s = 1000 bytes/us.
//
// Ring: every block takes s hops (2(n-1) for all_reduce; n-1 for all_gather, reduce_scatter,
// broadcast and reduce). x of them cross nodes: 2N or N, because a block travels around the ring
// (none for N = 1).
//
//    LL      launch + (s-x) ll_step + x (ll + L)              + V / min(1/(1/(c r) + 1/R), network)
//    LL128   launch + (s-x+3) ll128_step + x (ll128 + L)      + V / min(ll128_share B, network)
//    Simple  launch + (s-x+3) simple_step + x (simple + L)    + V / min(ring_share b, network)
//                                                             + S/n / (own_share B)
//
// V = s S/n is the number of bytes that each GPU sends (S for broadcast and reduce). B is the
// NVLink rate of a GPU, r the rate of one channel with LL, R = ll_share B that of all channels, L
// the latency of the network. 3 is the number of steps that fill and drain the buffers. The network
// carries V at the rate of the NICs that c channels reach; with LL or LL128 it carries 2 or 16/15
// times as much. The bus rate b is the one that NCCL assumes. It is larger where NVLink carries
// more than NCCL assumes, but at most what NVLink carries.
//
// Messages of a ring: the proxy of a NIC needs a time for each message, so the transfer takes at
// least (s m - posted) proxy - latency. m is the messages per block. NCCL posts 8 buffers
// (NCCL_STEPS; 4 with Simple, whose messages take two). With verbs, `proxy` is one turn of the
// proxy, which passes on a message of each channel. Where a message meets its receiver first
// (libfabric's rendezvous on Slingshot, sockets), it is max(1, c / NICs) rendezvous. A message of
// at most rendezvous_bytes on the wire has to wait only if it is early for its receiver. A ring
// goes as fast as the slowest of its N nodes, so the share of such messages is 1 - (1 -
// late_share)^N.
//
//    Tree    launch + 2(g-1) step + d (message + L) + 2(g-1) k/rate + d (fill k/network + meets)
//            + max(2(S-k) / rate, (S-k) / network for N = 2 and 2(S-k) / network beyond)
//
// d = 2 ceil(log2 N) is the number of hops up and down NCCL's binary tree. k is a chunk of every
// channel: a chunk arrives as a whole before a node passes it on, and the channels share the NICs.
// So the first chunks delay every hop, which grows with the number of nodes. The others follow at
// the full rate. `meets` is the rendezvous of a message with LL or LL128. The Simple rate of a tree
// is ring_share times the smaller of the rate of its channels and that of NVLink.
//
//    NVLS    launch + nvls + rounds * nvls_round_steps * simple_step + S / (nvls_share B),
//            rounds = S / (c * 8 * chunk)
//    NVLSTree  launch + nvls + d (simple + L) + d fill k/network + the longer of (1 + share) times
//            the rest of NVLS and of (S-k) (N = 2) or 2(S-k) / network
//
// chunk = 128 KiB; it is 64, 32 or 16 KiB if there are fewer than 64, 8 or 2 rounds of the previous
// size (NVIDIA/nccl src/enqueue.cc). H100 x 8: 16 channels, 8 heads: 1 GiB takes 64 rounds of 16
// MiB. For NVLSTree it is 512 KiB, and 256, 128, 64 or 32 KiB if there are no more than 32, 16, 4
// or 1 rounds: k = 8 MiB for 64 MiB on H100, 21.6 us on eight NICs of 48.5 GB/s at every hop.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/nccl/machine.hpp"
#include "sim/nccl/tuning.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kBytesPerUs = 1000.0;  // bytes/us at 1 GB/s
constexpr double kFillSteps = 3.0;
constexpr double kRoundHeads = 8.0;  // 4 to 72 GPUs take as long as 8
constexpr double kKibi = 1024.0;
constexpr double kExchangeLlBytes = 16.0 * kKibi;  // NCCL_P2P_LL_THRESHOLD
constexpr int kExchangeLlInAll = 2029;  // since 2.29 the threshold is for all channels together
// NVIDIA/nccl src/enqueue.cc, src/device/prims_simple.h: number of buffers of a channel, smallest
// slice of Simple, and the bytes of a block that a channel has in transit (Simple, LL, LL128).
constexpr double kSteps = 8.0;
constexpr double kSliceLeast = 32.0 * kKibi;
constexpr double kSimpleChunk = 2048.0 * kKibi;
constexpr double kTreeChunk = 512.0 * kKibi;
constexpr double kLlChunk = 32.0 * kKibi;
constexpr double kLl128Chunk = 512.0 * kKibi;

double us(double bytes, double rate) { return bytes / (kBytesPerUs * rate); }

// Major and minor number as one number: 2.29 -> 2029.
int release_number(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return 0;
  return 1000 * std::atoi(text.c_str()) + std::atoi(text.c_str() + dot + 1);
}

// The real rate of a GPU's NVLink to all its peers, relative to that of the fitted machines. PCIe
// replaces it where there is no NVLink.
double link_share(const MachineModel& gpu, const Communicator& communicator) {
  const NodeView& node = communicator.node;
  if (node.gpus.size() < 2) return 1.0;
  if (node.scale_up == NodeView::ScaleUp::None) return std::min(1.0, node.pcie / gpu.link_rate);
  return usable_nvlink_rate(node) / gpu.link_rate;
}

double link_rate(const Machine& machine, const Communicator& communicator) {
  return machine.gpu.link_rate * link_share(machine.gpu, communicator);
}

double nics_of(const Machine& machine) {
  return std::max(1.0, static_cast<double>(machine.network.nics));
}

// The rate of the NICs. On a board with a full mesh, GPUs and NICs are on ports of the CPU, and
// PCIe carries less from port to port than from a port to memory. Grace has NVLink to its GPU.
double nic_rate(const Machine& machine, const Communicator& communicator) {
  const NodeView& node = communicator.node;
  const bool through_cpu =
      node.scale_up == NodeView::ScaleUp::FullMesh && node.cpu != CpuVendor::Arm;
  if (!through_cpu) return machine.network.rate;
  return std::min(machine.network.rate,
                  nics_of(machine) * machine.messages.host_bridge_share * node.pcie);
}

// The rate of the NICs that `channels` channels reach.
double network_rate(const Machine& machine, const Communicator& communicator, double channels) {
  if (communicator.nodes == 1) return std::numeric_limits<double>::infinity();
  return nic_rate(machine, communicator) * std::min(1.0, channels / nics_of(machine));
}

// The rate at which these NICs carry the user's bytes. The buffers of LL are in the host's memory;
// networks whose messages meet their receiver copy them.
double user_rate(const Machine& machine, const Communicator& communicator, double channels,
                 Protocol protocol) {
  const double rate = network_rate(machine, communicator, channels);
  if (protocol != Protocol::LL || !machine.network.rendezvous_us)
    return rate * wire_efficiency(protocol);
  const double copies = machine.messages.ll_rate * std::min(channels, nics_of(machine));
  return std::min(rate * wire_efficiency(protocol), copies);
}

double step_us(const Machine& machine, Protocol protocol) {
  if (protocol == Protocol::LL) return machine.gpu.ll_step_us;
  return protocol == Protocol::LL128 ? machine.protocols.ll128_step_us : machine.gpu.simple_step_us;
}

double message_us(const Machine& machine, Protocol protocol) {
  const MessageModel& messages = machine.messages;
  const double once = protocol == Protocol::LL      ? messages.ll_us
                      : protocol == Protocol::LL128 ? messages.ll128_us
                                                    : messages.simple_us;
  return once + machine.network.latency_us;
}

// The rate at which a GPU sends to the next one over NVLink, in GB/s of user bytes.
double inside_rate(const Machine& machine, const Communicator& communicator, const Choice& choice,
                   double bus) {
  const ProtocolModel& protocols = machine.protocols;
  const double link = link_rate(machine, communicator);
  if (choice.method.protocol == Protocol::LL)
    return 1.0 / (1.0 / (choice.launch.channels * machine.gpu.channel_rate) +
                  1.0 / (protocols.ll_share * link));
  if (choice.method.protocol == Protocol::LL128)
    return protocols.ll128_share * link * communicator.channel_share;
  return std::min(bus * std::max(1.0, communicator.node.nvlink_share), link) * protocols.ring_share;
}

// The rate of a ring, which is that of its slowest hop.
double hop_rate(const Machine& machine, const Communicator& communicator, const Choice& choice) {
  const bool simple = choice.method.protocol == Protocol::Simple;
  const double bus = simple ? bus_rate(communicator, choice.op, choice.method) : 0.0;
  return std::min(inside_rate(machine, communicator, choice, bus),
                  user_rate(machine, communicator, choice.launch.channels, choice.method.protocol));
}

// The time in which the proxy of a NIC passes on one message of each of its channels. With verbs it
// posts them in one turn. On other networks, each message meets its receiver before the next one.
double proxy_us(const Machine& machine, double channels) {
  const Network& network = machine.network;
  if (!network.rendezvous_us) return machine.messages.turn_us;
  return std::max(1.0, channels / nics_of(machine)) * *network.rendezvous_us;
}

// The least time of a ring's messages between nodes. `bytes` is the data of one hop on all channels
// together.
double ring_messages_us(const Machine& machine, const Communicator& communicator,
                        const Choice& choice, double hops, double bytes) {
  const double channels = choice.launch.channels;
  const double block = bytes / channels;
  const bool simple = choice.method.protocol == Protocol::Simple;
  const double chunk = simple                                      ? kSimpleChunk
                       : choice.method.protocol == Protocol::LL128 ? kLl128Chunk
                                                                   : kLlChunk;
  // A Simple chunk is cut into two slices of at least 32 KiB where it is large enough. Each slice
  // is a message.
  double messages = std::max(1.0, block / chunk);
  if (simple) messages *= std::clamp(std::floor(block / kSliceLeast), 1.0, 2.0);
  const double wire = block / messages / wire_efficiency(choice.method.protocol);
  const double posted = simple ? kSteps / 2.0 : kSteps;
  const double late =
      wire > machine.network.rendezvous_bytes
          ? 1.0
          : 1.0 - std::pow(1.0 - std::min(1.0, machine.messages.late_share), communicator.nodes);
  return std::max(0.0, hops * messages - posted) * late * proxy_us(machine, channels);
}

struct Parts {
  double latency_us = 0.0;
  double transfer_us = 0.0;
};

Parts ring_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const Protocol protocol = choice.method.protocol;
  const bool rooted = choice.op == CollectiveOp::Broadcast || choice.op == CollectiveOp::Reduce;
  const double ranks = communicator.ranks;
  const double hops = rooted ? ranks - 1.0 : ring_steps(choice.op, communicator.ranks);
  const double rounds = choice.op == CollectiveOp::AllReduce ? 2.0 : 1.0;
  const double crossings =
      communicator.nodes == 1 ? 0.0 : std::min(hops, rounds * communicator.nodes);
  const double volume = rooted ? bytes : bytes * hops / ranks;
  const double fill = protocol == Protocol::LL ? 0.0 : kFillSteps;
  Parts parts;
  parts.latency_us = machine.gpu.launch_us +
                     (hops - crossings + fill) * step_us(machine, protocol) +
                     crossings * message_us(machine, protocol);
  parts.transfer_us = us(volume, hop_rate(machine, communicator, choice));
  if (protocol == Protocol::Simple && !rooted)
    parts.transfer_us +=
        us(bytes / ranks, machine.protocols.own_share * link_rate(machine, communicator));
  // The messages take their time from the end of the launch on. The latency already covers a part
  // of it, so the transfer is extended only by the rest.
  if (!rooted && communicator.nodes > 1)
    parts.transfer_us =
        std::max(parts.transfer_us,
                 machine.gpu.launch_us - parts.latency_us +
                     ring_messages_us(machine, communicator, choice, hops, bytes / ranks));
  return parts;
}

// The depth of NCCL's binary tree over the nodes (ncclGetBtree in src/graph/trees.cc).
double levels_of(const Communicator& communicator) {
  return static_cast<double>(std::bit_width(communicator.nodes - 1));
}

// The time in which the NICs of a node carry its traffic in a tree over the nodes.
double tree_network_us(const Machine& machine, const Communicator& communicator, double channels,
                       Protocol protocol, double bytes) {
  if (communicator.nodes == 1) return 0.0;
  const double rate = user_rate(machine, communicator, channels, protocol);
  return us(communicator.nodes == 2 ? bytes : 2.0 * bytes, rate);
}

// The bytes of a chunk of one channel of a tree (src/enqueue.cc). With LL128, chunks get smaller
// until the pipeline is full.
double tree_chunk(const Communicator& communicator, Protocol protocol, double bytes) {
  if (protocol != Protocol::LL128) return protocol == Protocol::LL ? kLlChunk : kTreeChunk;
  const double local = std::floor(communicator.ranks_per_node());
  const double depth = (1.0 + levels_of(communicator) + 0.1 * local) / local;
  double chunk = kLl128Chunk;
  while (chunk > 128.0 * kKibi && bytes < 64.0 * depth * chunk) chunk /= 2.0;
  while (chunk > 32.0 * kKibi && bytes < 16.0 * depth * chunk) chunk /= 2.0;
  return chunk;
}

// A chunk arrives as a whole before the next node passes it on, and all channels share the NICs. So
// `first` bytes, a chunk of each channel, delay every hop of a tree by the time that they take on
// the wire. A message of more than rendezvous_bytes meets its receiver first.
double tree_hop_us(const Machine& machine, const Communicator& communicator, const Choice& choice,
                   double first) {
  const Network& network = machine.network;
  const Protocol protocol = choice.method.protocol;
  const double channels = choice.launch.channels;
  const double message = first / channels / wire_efficiency(protocol);
  const bool meets = protocol != Protocol::Simple && message > network.rendezvous_bytes;
  return machine.messages.tree_fill *
             us(first, user_rate(machine, communicator, channels, protocol)) +
         (meets ? network.rendezvous_us.value_or(0.0) : 0.0);
}

Parts tree_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const Protocol protocol = choice.method.protocol;
  const double local = std::floor(communicator.ranks_per_node());
  const double channels = choice.launch.channels;
  const double hops = 2.0 * levels_of(communicator);
  const double bus = channels * communicator.graphs.tree.intra;
  const double rate = inside_rate(machine, communicator, choice, bus);
  const double first =
      channels * std::min(tree_chunk(communicator, protocol, bytes / channels), bytes / channels);
  const double inside_us = local < 2.0 ? 0.0 : us(2.0 * (bytes - first), rate);
  const double network_us =
      tree_network_us(machine, communicator, channels, protocol, bytes - first);
  const double fill =
      2.0 * (local - 1.0) * us(first, rate) +
      (communicator.nodes == 1 ? 0.0 : hops * tree_hop_us(machine, communicator, choice, first));
  return {.latency_us = machine.gpu.launch_us + 2.0 * (local - 1.0) * step_us(machine, protocol) +
                        hops * message_us(machine, protocol),
          .transfer_us = fill + std::max(inside_us, network_us)};
}

double nvls_chunk(double bytes, double pieces) {
  double chunk = 128.0 * kKibi;
  for (const auto& [rounds, smaller] : {std::pair{64.0, 64.0}, {8.0, 32.0}, {2.0, 16.0}})
    if (bytes < rounds * pieces * chunk) chunk = std::min(chunk, smaller * kKibi);
  return chunk;
}

// The chunk of NVLSTree: the largest of which there are enough rounds.
double nvls_tree_chunk(double bytes, double pieces) {
  double chunk = 512.0 * kKibi;
  for (const auto& [rounds, smaller] :
       {std::pair{32.0, 256.0}, {16.0, 128.0}, {4.0, 64.0}, {1.0, 32.0}})
    if (bytes <= rounds * pieces * chunk) chunk = std::min(chunk, smaller * kKibi);
  return chunk;
}

Parts nvls_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const ProtocolModel& protocols = machine.protocols;
  const double round_us = protocols.nvls_round_steps * machine.gpu.simple_step_us;
  const double rate =
      protocols.nvls_share * link_rate(machine, communicator) * communicator.nvls_channel_share;
  const double pieces = choice.launch.channels * kRoundHeads;
  const double rounds = std::max(1.0, bytes / (pieces * nvls_chunk(bytes, pieces)));
  Parts parts{.latency_us = machine.gpu.launch_us + protocols.nvls_us,
              .transfer_us = rounds * round_us + us(bytes, rate)};
  if (communicator.nodes == 1) return parts;
  const double hops = 2.0 * std::max(1.0, levels_of(communicator));
  const double first = std::min(bytes, pieces * nvls_tree_chunk(bytes, pieces));
  const double network_us = tree_network_us(machine, communicator, choice.launch.channels,
                                            Protocol::Simple, bytes - first);
  parts.latency_us += hops * message_us(machine, Protocol::Simple);
  parts.transfer_us =
      std::max((1.0 + machine.messages.nvls_tree_share) * parts.transfer_us, network_us) +
      hops * tree_hop_us(machine, communicator, choice, first);
  return parts;
}

// Without bytes there is no rate, so all time is latency.
Prediction as_prediction(const Parts& parts, double bytes) {
  constexpr double kNever = 1e12;
  if (bytes <= 0.0 || parts.transfer_us <= 0.0)
    return {.latency_us = parts.latency_us + parts.transfer_us, .rate = kNever};
  return {.latency_us = parts.latency_us, .rate = bytes / (kBytesPerUs * parts.transfer_us)};
}

}  // namespace

Prediction machine_time(const Machine& machine, const Communicator& communicator,
                        const Choice& choice, double bytes) {
  switch (choice.method.algorithm) {
    case Algorithm::Ring:
      return as_prediction(ring_time(machine, communicator, choice, bytes), bytes);
    case Algorithm::Tree:
      return as_prediction(tree_time(machine, communicator, choice, bytes), bytes);
    case Algorithm::Nvls:
    case Algorithm::NvlsTree:
      return as_prediction(nvls_time(machine, communicator, choice, bytes), bytes);
    case Algorithm::Pat:
    case Algorithm::CollNetDirect:
    case Algorithm::CollNetChain:
      break;
  }
  return choice.prediction;
}

// Each rank sends blocks of m bytes to all its peers at the same time, over NVLink and over the NIC
// concurrently, and copies its own block:
//
//    launch + exchange_steps * simple_step (LL: exchange_ll) + (n-g) (message + L)
//    + max(m (g-1) / (exchange_share B), m (n-g) / NIC, m / (c 14 GB/s)) + m / copy_rate
//
// A peer on another node has c channels, and a message alone has the whole rate of its NIC.
// Where nodes have unequal numbers of ranks, g is that of the fullest node for what stays on it and
// that of the emptiest one for messages, and the busiest NICs decide.
Prediction exchange_time(const Machine& machine, const Communicator& communicator, CollectiveOp op,
                         double bytes) {
  const MachineModel& gpu = machine.gpu;
  const ProtocolModel& protocols = machine.protocols;
  const Network& network = machine.network;
  const bool all = op == CollectiveOp::AllToAll;
  const double ranks = communicator.ranks;
  const bool uneven = all && network.most_members > 0;
  const double local = uneven ? network.most_members : std::floor(communicator.ranks_per_node());
  const double block = all ? bytes / ranks : bytes;
  const double near = all ? local - 1.0 : communicator.nodes == 1 ? 1.0 : 0.0;
  const double of_node = uneven ? network.least_members : local;
  const double far = all ? ranks - of_node : communicator.nodes == 1 ? 0.0 : 1.0;
  const bool by_channel = release_number(communicator.constants.version) < kExchangeLlInAll;
  const double most = kExchangeLlBytes * (by_channel ? communicator.p2p_channels_per_peer : 1.0);
  const bool ll = block <= most;
  const double rate = (ll ? protocols.exchange_ll_share : protocols.exchange_share) *
                      link_rate(machine, communicator) * communicator.channel_share;
  double transfer = us(block * near, rate);
  Parts parts{.latency_us = gpu.launch_us + (ll ? protocols.exchange_ll_us
                                                : protocols.exchange_steps * gpu.simple_step_us)};
  if (far > 0.0) {
    const double share =
        all ? network.exchange_share.value_or(machine.messages.exchange_share) : 1.0;
    // All blocks that cross the NICs of a node, over the rate of these NICs.
    const double crossing = uneven ? network.blocks_of_nic * network.nics : far * local;
    transfer = std::max(transfer, us(block * crossing, network.rate * share));
    transfer =
        std::max(transfer, us(block, communicator.p2p_channels_per_peer * kNetRatePerChannel_GBps));
    const double fetch = block <= network.inject_bytes ? network.inject_us : 0.0;
    parts.latency_us += far * (machine.messages.exchange_us + network.latency_us + fetch);
  }
  parts.transfer_us = transfer + (all ? us(block, gpu.copy_rate) : 0.0);
  return as_prediction(parts, bytes);
}

}  // namespace trainyard::nccl
