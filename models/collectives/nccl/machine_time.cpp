// The formulas of the machine model. n ranks on N nodes, g = n/N; S bytes; c channels; microseconds
// and GB/s = 1000 bytes/us.
//
// Ring, s hops of every block (2(n-1) all_reduce; n-1 all_gather, reduce_scatter, broadcast and
// reduce), of which x cross nodes: a block has to go round, so 2N or N do (none for N = 1).
//
//   LL      launch + (s-x) ll_step + x (ll + L)              + V / min(1/(1/(c r) + 1/R), network)
//   LL128   launch + (s-x+3) ll128_step + x (ll128 + L)      + V / min(ll128_rate, network)
//   Simple  launch + (s-x+3) simple_step + x (simple + L)    + V / min(e * bus rate, network)
//                                                            + S/n / own_rate
//
// V = s S/n is what each GPU sends (S for broadcast and reduce, which flow through), r and R the
// rates of one channel and of all under LL, L the latency of the network, 3 the steps that fill and
// drain the buffers. The network carries V at the rate of the NICs that c channels reach, and 2 or
// 16/15 times as much under LL or LL128.
//
//   Tree    launch + 2(g-1) step + 2 log2(N) (message + L) + t + pipeline * sqrt(t * 2 log2(N)
//           (message + L)),   t = max(2S / rate, S / network for N = 2 and 2S / network beyond)
//
// The root is what a chain of chunks costs over the best size of chunk; a tree's Simple rate is e
// times its channels' or all of NVLink, whichever is less.
//
//   NVLS    launch + nvls + rounds * round + S / nvls_rate,  rounds = S / (c * 8 * chunk)
//   NVLSTree  NVLS + 2 log2(N) (simple + L), and with m and h the greater and the lesser of the
//           time above and of S (N = 2) or 2S / network: m + share h + nvls_pipeline sqrt(h * 2
//           log2(N) (simple + L)) for what moves
//
// chunk = 128 KiB, or 64, 32, 16 below 64, 8, 2 rounds of it (NVIDIA/nccl src/enqueue.cc). H100 x
// 8: 16 channels, 8 heads: 1 GiB goes in 64 rounds of 16 MiB.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "models/collectives/nccl/machine.hpp"
#include "models/collectives/nccl/tuning_parts.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kBytesPerUs = 1000.0;  // of 1 GB/s
constexpr double kFillSteps = 3.0;
constexpr double kRoundHeads = 8.0;  // 4 to 72 GPUs take as long as 8
constexpr double kKibi = 1024.0;
constexpr double kExchangeLlBytes = 16.0 * kKibi;  // NCCL_P2P_LL_THRESHOLD

double us(double bytes, double rate) { return bytes / (kBytesPerUs * rate); }

// Major and minor as one number, 2.29 -> 2029.
int release_number(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return 0;
  return 1000 * std::atoi(text.c_str()) + std::atoi(text.c_str() + dot + 1);
}

MachineRelease release_of(const MachineModel& gpu, const Communicator& communicator) {
  MachineRelease found;
  for (const MachineRelease& release : gpu.releases)
    if (release_number(communicator.constants.version) >= release_number(release.from))
      found = release;
  return found;
}

// NVLink of a GPU to all its peers, as part of what the fitted machines have.
double link_share(const MachineModel& gpu, const Communicator& communicator) {
  const NodeView& node = communicator.node;
  if (node.gpus.size() < 2 || node.scale_up == NodeView::ScaleUp::None) return 1.0;
  const bool mesh = node.scale_up == NodeView::ScaleUp::FullMesh;
  const double peers = mesh ? static_cast<double>(node.gpus.size()) - 1.0 : 1.0;
  return std::min(1.0, node.nvlink * peers / gpu.link_rate);
}

// The NICs that so many channels reach.
double network_rate(const Machine& machine, const Communicator& communicator, double channels) {
  if (communicator.nodes == 1) return std::numeric_limits<double>::infinity();
  const double nics = std::max(1.0, static_cast<double>(machine.network.nics));
  return machine.network.rate * std::min(1.0, channels / nics);
}

// By protocol.
double step_us(const MachineModel& gpu, Protocol protocol) {
  if (protocol == Protocol::LL) return gpu.ll_step_us;
  return protocol == Protocol::LL128 ? gpu.ll128_step_us : gpu.simple_step_us;
}

double message_us(const Machine& machine, Protocol protocol) {
  const MessageModel& messages = machine.messages;
  const double once = protocol == Protocol::LL      ? messages.ll_us
                      : protocol == Protocol::LL128 ? messages.ll128_us
                                                    : messages.simple_us;
  return once + machine.network.latency_us;
}

// What a GPU sends to the next one over NVLink, GB/s of user bytes.
double inside_rate(const MachineModel& gpu, const Communicator& communicator, const Choice& choice,
                   double bus) {
  const double share = link_share(gpu, communicator);
  const double channels = choice.launch.channels;
  if (choice.method.protocol == Protocol::LL)
    return 1.0 / (1.0 / (channels * gpu.ll_channel_rate) + 1.0 / (gpu.ll_rate * share));
  if (choice.method.protocol == Protocol::LL128) return gpu.ll128_rate * share;
  return bus * gpu.ring_efficiency;
}

// What a ring sends, where the slowest hop sets the pace.
double hop_rate(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bus) {
  return std::min(inside_rate(machine.gpu, communicator, choice, bus),
                  network_rate(machine, communicator, choice.launch.channels) *
                      wire_efficiency(choice.method.protocol));
}

struct Parts {
  double latency_us = 0.0;
  double transfer_us = 0.0;
};

Parts ring_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const MachineModel& gpu = machine.gpu;
  const Protocol protocol = choice.method.protocol;
  const bool rooted = choice.op == CollectiveOp::Broadcast || choice.op == CollectiveOp::Reduce;
  const double ranks = communicator.ranks;
  const double hops = rooted ? ranks - 1.0 : ring_steps(choice.op, communicator.ranks);
  const double rounds = choice.op == CollectiveOp::AllReduce ? 2.0 : 1.0;
  const double crossings =
      communicator.nodes == 1 ? 0.0 : std::min(hops, rounds * communicator.nodes);
  const double volume = rooted ? bytes : bytes * hops / ranks;
  const double bus = bus_rate(communicator, choice.op, choice.method);
  const double fill = protocol == Protocol::LL ? 0.0 : kFillSteps;
  Parts parts;
  parts.latency_us = gpu.launch_us + (hops - crossings + fill) * step_us(gpu, protocol) +
                     crossings * message_us(machine, protocol);
  if (protocol == Protocol::LL128) parts.latency_us += release_of(gpu, communicator).ll128_extra_us;
  parts.transfer_us = us(volume, hop_rate(machine, communicator, choice, bus));
  if (protocol == Protocol::Simple && !rooted) parts.transfer_us += us(bytes / ranks, gpu.own_rate);
  return parts;
}

double levels_of(const Communicator& communicator) {
  return static_cast<double>(std::bit_width(communicator.nodes)) - 1.0;
}

// What a tree over the nodes sends from a node.
double tree_network_us(const Machine& machine, const Communicator& communicator, double channels,
                       Protocol protocol, double bytes) {
  if (communicator.nodes == 1) return 0.0;
  const double rate = network_rate(machine, communicator, channels) * wire_efficiency(protocol);
  return us(communicator.nodes == 2 ? bytes : 2.0 * bytes, rate);
}

Parts tree_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const MachineModel& gpu = machine.gpu;
  const Protocol protocol = choice.method.protocol;
  const double local = std::floor(communicator.ranks_per_node());
  const double across = 2.0 * levels_of(communicator) * message_us(machine, protocol);
  const ChannelGraph& graph = communicator.graphs.tree;
  const double bus =
      std::min(gpu.link_rate * link_share(gpu, communicator), choice.launch.channels * graph.intra);
  const double inside_us =
      local < 2.0 ? 0.0 : us(2.0 * bytes, inside_rate(gpu, communicator, choice, bus));
  const double network_us =
      tree_network_us(machine, communicator, choice.launch.channels, protocol, bytes);
  const double transfer = std::max(inside_us, network_us);
  return {.latency_us = gpu.launch_us + 2.0 * (local - 1.0) * step_us(gpu, protocol) + across,
          .transfer_us = transfer + machine.messages.pipeline * std::sqrt(transfer * across)};
}

double nvls_chunk(double bytes, double pieces) {
  double chunk = 128.0 * kKibi;
  for (const auto& [rounds, smaller] : {std::pair{64.0, 64.0}, {8.0, 32.0}, {2.0, 16.0}})
    if (bytes < rounds * pieces * chunk) chunk = std::min(chunk, smaller * kKibi);
  return chunk;
}

Parts nvls_time(const Machine& machine, const Communicator& communicator, const Choice& choice,
                double bytes) {
  const MachineModel& gpu = machine.gpu;
  const double pieces = choice.launch.channels * kRoundHeads;
  const double rounds = std::max(1.0, bytes / (pieces * nvls_chunk(bytes, pieces)));
  Parts parts{.latency_us = gpu.launch_us + gpu.nvls_us,
              .transfer_us = rounds * gpu.nvls_round_us +
                             us(bytes, gpu.nvls_rate * link_share(gpu, communicator))};
  if (communicator.nodes == 1) return parts;
  const double across =
      2.0 * std::max(1.0, levels_of(communicator)) * message_us(machine, Protocol::Simple);
  const double network_us =
      tree_network_us(machine, communicator, choice.launch.channels, Protocol::Simple, bytes);
  parts.latency_us += across;
  const double hidden = std::min(parts.transfer_us, network_us);
  parts.transfer_us = std::max(parts.transfer_us, network_us) +
                      machine.messages.nvls_tree_share * hidden +
                      machine.messages.nvls_pipeline * std::sqrt(hidden * across);
  return parts;
}

// Without a byte to move nothing has a rate: all of it is latency.
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

// Each rank sends blocks of m bytes to its peers at once, those over NVLink beside those over the
// NIC, and copies its own:
//
//   launch + exchange + (n-g) (message + L) + max(m (g-1) / rate, m (n-g) / NIC)
//   + m / exchange_own_rate
Prediction exchange_time(const Machine& machine, const Communicator& communicator, CollectiveOp op,
                         double bytes) {
  const MachineModel& gpu = machine.gpu;
  const bool all = op == CollectiveOp::AllToAll;
  const double ranks = communicator.ranks;
  const double local = std::floor(communicator.ranks_per_node());
  const double block = all ? bytes / ranks : bytes;
  const double near = all ? local - 1.0 : communicator.nodes == 1 ? 1.0 : 0.0;
  const double far = all ? ranks - local : communicator.nodes == 1 ? 0.0 : 1.0;
  const bool by_channel = release_of(gpu, communicator).exchange_ll_by_channel;
  const double most = kExchangeLlBytes * (by_channel ? communicator.p2p_channels_per_peer : 1.0);
  const bool ll = block <= most;
  const double share = link_share(gpu, communicator);
  const double rate = (ll ? gpu.exchange_ll_rate : gpu.exchange_rate) * share;
  double transfer = us(block * near, rate);
  Parts parts{.latency_us = gpu.launch_us + (ll ? gpu.exchange_ll_us : gpu.exchange_us)};
  if (far > 0.0) {
    const double nic = machine.network.rate * machine.network.exchange_share / local;
    transfer = std::max(transfer, us(block * far, nic));
    parts.latency_us += far * (machine.messages.exchange_us + machine.network.latency_us);
  }
  parts.transfer_us = transfer + (all ? us(block, gpu.exchange_own_rate) : 0.0);
  return as_prediction(parts, bytes);
}

}  // namespace trainyard::nccl
