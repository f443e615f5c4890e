// NCCL's tuning model (ncclTopoTuneModel). It determines for every method whether it is available,
// its rate and its latency, and selects the fastest one. The sections of this file follow this
// order.
#include "sim/nccl/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/base/error.hpp"

namespace trainyard::nccl {

namespace {

bool is_gather(CollectiveOp op) {
  return op == CollectiveOp::AllGather || op == CollectiveOp::ReduceScatter;
}

constexpr double kGatherRanksMost = 32.0;  // per node, for NVLS operations other than all_reduce

// Across nodes, NVLS needs switches in the network that reduce (CollNet).
bool nvls_offered(const Communicator& communicator, CollectiveOp op) {
  if (!communicator.graphs.nvls || !communicator.options.nvls) return false;
  if (communicator.graphs.nvls->channels < 2) return false;
  if (communicator.nodes > 1 && !communicator.options.collnet) return false;
  if (op == CollectiveOp::AllReduce) return true;
  return is_gather(op) && communicator.constants.rules.nvls_gathers &&
         communicator.ranks_per_node() <= kGatherRanksMost;
}

// The algorithms that NCCL has for an operation on this hardware. Rings serve every operation that
// NCCL tunes; PAT needs one rank per node.
bool algorithm_offered(const Communicator& communicator, CollectiveOp op, Algorithm algorithm) {
  const bool all_reduce = op == CollectiveOp::AllReduce;
  const bool switches_reduce = communicator.options.collnet && communicator.nodes > 1;
  switch (algorithm) {
    case Algorithm::Ring:
      return op != CollectiveOp::AllToAll && op != CollectiveOp::SendRecv;
    case Algorithm::Tree:
      return all_reduce;
    case Algorithm::CollNetChain:
      return all_reduce && switches_reduce;
    case Algorithm::CollNetDirect:
      return (all_reduce || is_gather(op)) && switches_reduce && communicator.graphs.nvls;
    case Algorithm::Nvls:
      return nvls_offered(communicator, op);
    case Algorithm::NvlsTree:
      return all_reduce && communicator.nodes > 1 && communicator.options.nvls &&
             communicator.graphs.nvls && communicator.graphs.nvls->channels >= 2;
    case Algorithm::Pat:
      return is_gather(op) && communicator.constants.rules.pat &&
             communicator.nodes == communicator.ranks && communicator.node.sm >= 60;
  }
  return false;  // not reached: every algorithm has a case
}

// LL128 needs 128-byte stores that arrive as a whole, which holds over NVLink and nearby NICs, and
// between GPUs of different generations from Hopper on.
bool ll128_by_default(const Communicator& communicator, Algorithm algorithm) {
  const ChannelGraph& graph =
      algorithm == Algorithm::Tree ? communicator.graphs.tree : communicator.graphs.ring;
  const PathType farthest = communicator.node.sm >= 90 ? PathType::NicByPeer : PathType::Switches;
  return graph.type_inter <= farthest && graph.type_intra <= PathType::NvLinkByPeer &&
         (communicator.node.sm >= 90 || !communicator.unlike_sm) && communicator.node.sm >= 70 &&
         communicator.node.sm <= communicator.constants.rules.ll128_newest_sm;
}

// Availability by the operation, the hardware, the release and the options.
bool is_offered(const Communicator& communicator, CollectiveOp op, const Method& method) {
  const auto row = static_cast<std::size_t>(op);
  const auto algorithm = static_cast<std::size_t>(method.algorithm);
  if (!communicator.options.algorithms[row][algorithm]) return false;
  if (!algorithm_offered(communicator, op, method.algorithm)) return false;
  const bool simple = method.protocol == Protocol::Simple;
  // Only rings and trees have kernels for LL and LL128.
  if (method.algorithm != Algorithm::Ring && method.algorithm != Algorithm::Tree && !simple)
    return false;
  switch (communicator.options.protocols[row][static_cast<std::size_t>(method.protocol)]) {
    case Allowed::No:
      return false;
    case Allowed::Yes:
      return true;
    case Allowed::ByDefault:
      return method.protocol != Protocol::LL128 || ll128_by_default(communicator, method.algorithm);
  }
  return false;
}

// Rates, GB/s.

constexpr double kTreeShare = 0.92;
constexpr double kRingLl128Share = 0.92;
constexpr double kTreeLlShare = 3.8;  // a tree with LL reaches 1/3.8 of the rate
constexpr double kSimpleTreeShare = 0.85;
constexpr double kPatShare = 0.75;
constexpr double kFiveSixths = 5.0 / 6.0;

// Properties of the communicator that select entries of the rate tables.
struct Facts {
  const Communicator& communicator;
  std::size_t generation;
  std::size_t column;  // 0: one node, 1: two, 2: more
  double nodes;
  double local;  // ranks per node

  explicit Facts(const Communicator& of)
      : communicator(of),
        generation(static_cast<std::size_t>(generation_of(of.node.sm))),
        column(std::min(of.nodes, 3U) - 1),
        nodes(of.nodes),
        local(of.ranks_per_node()) {}
  double cap(const RateTable& table) const { return table[generation][column]; }
};

// Up to two nodes NCCL counts the rate between GPUs, beyond that the rate to the NIC.
double graph_rate(const Facts& facts, const ChannelGraph& graph) {
  return facts.communicator.nodes <= 2 ? graph.intra : graph.inter;
}

// Channels of the graph, reduced to the fraction that NCCL_MAX_NCHANNELS leaves.
double ring_channels(const Facts& facts, const ChannelGraph& graph) {
  return graph.channels * facts.communicator.channel_share;
}

// The rate of LL. It depends on the GPU within a node and on the CPU across nodes (NCCL uses the
// first two rows of the same table for the CPUs).
double ll_rate(const Facts& facts) {
  const bool amd = facts.communicator.node.cpu == CpuVendor::Amd;
  const std::size_t row = facts.column == 0 ? facts.generation : (amd ? 1U : 0U);
  return facts.communicator.constants.ll_rate[row][facts.column];
}

// The rate of all channels with Simple. LL and LL128 reach a share of it, up to the limits in the
// release's tables.
double ring_rate(const Facts& facts, CollectiveOp op, Protocol protocol) {
  const ChannelGraph& graph = facts.communicator.graphs.ring;
  const TuningConstants& constants = facts.communicator.constants;
  const double channels = ring_channels(facts, graph);
  const double plain = channels * graph_rate(facts, graph);
  if (protocol == Protocol::LL) {
    const bool reduces = op == CollectiveOp::AllReduce || op == CollectiveOp::Reduce;
    const bool gather_one_node = facts.column == 0 && !reduces;
    const double share = gather_one_node ? constants.rules.ring_ll_share_gather_one_node
                                         : constants.rules.ring_ll_share;
    return std::min(ll_rate(facts), plain * share);
  }
  if (protocol == Protocol::Simple) return plain;
  const double share =
      facts.local < 2.0 ? constants.rules.ring_ll128_share_one_rank_per_node : kRingLl128Share;
  return std::min(plain * share, channels * facts.cap(constants.ring_ll128_cap));
}

double tree_rate(const Facts& facts, Protocol protocol) {
  const ChannelGraph& graph = facts.communicator.graphs.tree;
  const TuningConstants& constants = facts.communicator.constants;
  const double channels = ring_channels(facts, graph);
  double rate =
      channels * std::min(graph_rate(facts, graph) * kTreeShare, facts.cap(constants.tree_cap));
  if (protocol == Protocol::LL) rate = std::min(rate / kTreeLlShare, ll_rate(facts));
  if (protocol == Protocol::LL128) {
    // LL128 carries 120 bytes of data per 128 bytes, but NCCL counts 7/9 within a node.
    const double share = facts.column == 0 ? 7.0 / 9.0 : 120.0 / 128.0;
    rate = std::min(rate * share, channels * facts.cap(constants.tree_ll128_cap));
  }
  return graph.simple_tree ? rate * kSimpleTreeShare : rate;
}

double pat_rate(const Facts& facts) {
  const ChannelGraph& graph = facts.communicator.graphs.tree;
  return ring_channels(facts, graph) * graph_rate(facts, graph) * kPatShare;
}

// The rule since 2.28: all_reduce uses both directions at the same time, and a gather does not send
// a rank its own part.
double nvls_rate_by_efficiency(const Facts& facts, CollectiveOp op, bool tree) {
  const ChannelGraph& graph = *facts.communicator.graphs.nvls;
  const TuningConstants& constants = facts.communicator.constants;
  const double heads = graph.channels;
  double intra = graph.intra * constants.nvls_efficiency[facts.generation] * (heads - 1.0) / heads;
  intra *= op == CollectiveOp::AllReduce ? 2.0 : (facts.local - 1.0) / facts.local;
  const double inter = graph.inter * (tree && facts.column < 2 ? 2.0 : 1.0);
  const double cap =
      tree ? facts.cap(constants.nvls_tree_cap) : std::numeric_limits<double>::infinity();
  return heads * std::min({intra, inter, cap});
}

// The rules before 2.28: the unscaled rate of the graph; rate_ratio() then multiplies by 5/6.
double nvls_rate_before(const Facts& facts, CollectiveOp op, bool tree) {
  const ChannelGraph& graph = *facts.communicator.graphs.nvls;
  const NvlsRate rule = facts.communicator.constants.rules.nvls_rate;
  if (rule == NvlsRate::Graph) return graph.channels * graph_rate(facts, graph);
  if (tree)
    return graph.channels *
           std::min(graph.intra, facts.column < 2 ? graph.inter : graph.inter / 2.0);
  if (rule == NvlsRate::FiveSixthsGatherLessOwn && is_gather(op))
    return graph.channels *
           std::min(graph.intra * (facts.local - 1.0) / facts.local, 0.9 * graph.inter);
  return graph.channels * std::min(graph.intra, graph.inter);
}

double nvls_rate(const Facts& facts, CollectiveOp op, bool tree) {
  const double rate = facts.communicator.constants.rules.nvls_rate == NvlsRate::Efficiency
                          ? nvls_rate_by_efficiency(facts, op, tree)
                          : nvls_rate_before(facts, op, tree);
  return rate * facts.communicator.nvls_channel_share;
}

// CollNetDirect: the switches of the network reduce. It has full speed only if every GPU has a NIC.
double collnet_direct_rate(const Facts& facts, CollectiveOp op) {
  const ChannelGraph& graph = *facts.communicator.graphs.nvls;
  if (is_gather(op)) return facts.local * std::min(graph.intra, 0.9 * graph.inter);
  const double gpus_per_head = facts.local / graph.channels;
  const double slowdown = gpus_per_head - (gpus_per_head - 1.0) / 2.0;
  const double rate = graph.channels * graph.intra / slowdown;
  return facts.communicator.node.sm >= 90 ? rate * 0.85 : rate;
}

}  // namespace

double ring_steps(CollectiveOp op, std::uint32_t ranks) {
  if (op == CollectiveOp::AllReduce) return 2.0 * (ranks - 1.0);
  return is_gather(op) ? ranks - 1.0 : ranks;
}

double bus_rate(const Communicator& communicator, CollectiveOp op, const Method& method) {
  const Facts facts(communicator);
  switch (method.algorithm) {
    case Algorithm::Ring:
      return ring_rate(facts, op, method.protocol);
    case Algorithm::Tree:
      return tree_rate(facts, method.protocol);
    case Algorithm::CollNetDirect:
      return collnet_direct_rate(facts, op);
    case Algorithm::CollNetChain:
      return ring_channels(facts, communicator.graphs.tree) * communicator.graphs.tree.intra;
    case Algorithm::Nvls:
      return nvls_rate(facts, op, false);
    case Algorithm::NvlsTree:
      return nvls_rate(facts, op, true);
    case Algorithm::Pat:
      return pat_rate(facts);
  }
  return 0.0;
}

namespace {

// Buffer bytes per byte on the bus: n / steps for rings and NVLS, 1/2 for trees.
double rate_ratio(const Communicator& communicator, CollectiveOp op, Algorithm algorithm) {
  const double of_ring = communicator.ranks / ring_steps(op, communicator.ranks);
  if (algorithm == Algorithm::Ring) return of_ring;
  const NvlsRate rule = communicator.constants.rules.nvls_rate;
  const bool nvls = algorithm == Algorithm::Nvls || algorithm == Algorithm::NvlsTree;
  // The rates of all_gather and reduce_scatter by other methods than rings are rates of the buffer
  // already. In an all_reduce by tree or CollNet each byte goes up and comes down, hence 1/2.
  if (is_gather(op)) return nvls && rule == NvlsRate::FiveSixths ? kFiveSixths : 1.0;
  if (!nvls) return 0.5;
  if (rule == NvlsRate::Efficiency) return of_ring;
  const double nodes = communicator.nodes;
  const bool tree_by_nodes = rule == NvlsRate::Graph && algorithm == Algorithm::NvlsTree;
  return tree_by_nodes ? 0.7 * nodes / (2.0 * (nodes - 1.0)) : kFiveSixths;
}

// Latencies, microseconds.

constexpr double kFanOut = 0.4;  // us for each other GPU of a head, one after the other
constexpr double kPatPerRank = 2.8;
constexpr double kPatNetwork = 3.5;  // PAT's steps overlap: 1/3.5 of the network latency remains

struct Steps {
  double base = 0.0;
  double intra = 0.0;
  double inter = 0.0;
  double local = 1.0;   // ranks per node
  double levels = 0.0;  // floor(log2 N)
};

const ChannelGraph& graph_of(const Communicator& communicator, Algorithm algorithm) {
  if (algorithm == Algorithm::Ring) return communicator.graphs.ring;
  const bool nvls = algorithm == Algorithm::Nvls || algorithm == Algorithm::NvlsTree ||
                    algorithm == Algorithm::CollNetDirect;
  return nvls && communicator.graphs.nvls ? *communicator.graphs.nvls : communicator.graphs.tree;
}

Wire intra_wire(const ChannelGraph& graph) {
  return graph.type_intra <= PathType::NvLink ? Wire::NvLink : Wire::Pcie;
}

double step(const Communicator& communicator, Wire wire, Algorithm algorithm, Protocol protocol) {
  return communicator.constants.step_latency_us[static_cast<std::size_t>(
      wire)][static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
}

// Base and step latencies of a method. With one rank per node, newer releases use Tree's network
// latency for every algorithm.
Steps steps_of(const Communicator& communicator, const Method& method) {
  const ChannelGraph& graph = graph_of(communicator, method.algorithm);
  const double local = communicator.ranks_per_node();
  const bool lone = local == 1.0 && communicator.constants.rules.lone_rank_takes_tree_latency;
  Steps steps;
  steps.base = communicator.constants.base_latency_us[static_cast<std::size_t>(method.algorithm)]
                                                     [static_cast<std::size_t>(method.protocol)];
  steps.intra = step(communicator, intra_wire(graph), method.algorithm, method.protocol);
  steps.inter =
      step(communicator, Wire::Network, lone ? Algorithm::Tree : method.algorithm, method.protocol);
  // Simple also flushes the NIC's write into GPU memory, which takes the network latency once more.
  steps.inter += graph.net_latency_us * (method.protocol == Protocol::Simple ? 2.0 : 1.0);
  steps.local = std::floor(local);
  steps.levels = static_cast<double>(std::bit_width(communicator.nodes)) - 1.0;
  return steps;
}

// A proxy thread on the CPU posts every network message.
double post_overhead(const Communicator& communicator, Protocol protocol) {
  if (communicator.nodes == 1) return 0.0;
  const double once = communicator.node.cpu == CpuVendor::Amd ? 2.0 : 1.0;
  return protocol == Protocol::Simple ? 3.0 * once : once;
}

// Chunks are pipelined from the root, so one step is visible. If the channels differ, NCCL counts a
// step for every rank.
double rooted_ring_latency(const Communicator& communicator, const Method& method, double base) {
  const Wire wire = communicator.nodes == 1 ? intra_wire(communicator.graphs.ring) : Wire::Network;
  if (communicator.graphs.ring.same_channels)
    return base + step(communicator, wire, Algorithm::Ring, method.protocol);
  const Algorithm like = method.protocol == Protocol::Simple ? Algorithm::Tree : Algorithm::Ring;
  return base + communicator.ranks * step(communicator, wire, like, method.protocol);
}

double ring_latency_us(const Communicator& communicator, CollectiveOp op, const Method& method,
                       const Steps& steps) {
  if (op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce)
    return rooted_ring_latency(communicator, method, steps.base);
  const double nodes = communicator.nodes;
  const bool all_reduce = op == CollectiveOp::AllReduce;
  // The steps over the network. A ring passes from node to node once per round, and all_reduce
  // makes two rounds.
  double crossing = 0.0;
  if (communicator.nodes > 1) crossing = all_reduce ? 2.0 * (nodes - 1.0) : nodes - 1.0;
  if (communicator.nodes > 1 && all_reduce && communicator.constants.rules.inter_steps_per_node)
    crossing = 2.0 * nodes;
  const double intra = std::max(steps.intra, post_overhead(communicator, method.protocol));
  return steps.base + (ring_steps(op, communicator.ranks) - crossing) * intra +
         crossing * steps.inter;
}

// The latency in microseconds, without any bytes.
double latency_us(const Communicator& communicator, CollectiveOp op, const Method& method) {
  const Steps steps = steps_of(communicator, method);
  const bool alone = communicator.nodes == 1;
  const double peers = steps.local - 1.0;
  switch (method.algorithm) {
    case Algorithm::Ring:
      return ring_latency_us(communicator, op, method, steps);
    case Algorithm::Tree:
      // Up and down: the ranks of a node form a chain, and the nodes form a binary tree.
      return steps.base + 2.0 * (peers * steps.intra + steps.levels * steps.inter);
    case Algorithm::CollNetDirect:
      return steps.base + 2.0 * (std::min(1.0, peers) * steps.intra + peers * kFanOut) +
             steps.inter;
    case Algorithm::CollNetChain:
      return steps.base + 2.0 * peers * steps.intra + steps.inter;
    case Algorithm::Nvls:
      return steps.base + steps.intra + (alone ? 0.0 : steps.inter);
    case Algorithm::NvlsTree: {
      const bool by_nodes = communicator.constants.rules.nvls_tree_levels_are_nodes;
      const double levels = by_nodes ? communicator.nodes - 1.0 : steps.levels;
      return steps.base + steps.intra + 2.0 * levels * steps.inter;
    }
    case Algorithm::Pat:
      return steps.base + steps.levels * steps.inter / kPatNetwork +
             communicator.ranks * kPatPerRank;
  }
  return 0.0;
}

constexpr double kRingPlateau = 1.4;  // factor on the latency of a Simple ring between nodes
constexpr double kRingPlateauVolta = 1.9;
constexpr double kPlateauBytes = 64.0;  // bytes per channel and rank from which it applies
constexpr double kLongRing = 1024.0;    // NCCL's penalty for rings of 8-bit floats
constexpr std::uint32_t kLongRingRanks = 8;
constexpr std::size_t kTreeCorrections = 23;  // number of size classes with a tree correction

// floor(log2(bytes / 64)), at least 0.
std::size_t size_class(double bytes) {
  const auto blocks = static_cast<std::uint64_t>(std::max(bytes, 0.0)) >> 6;
  return blocks == 0 ? 0 : static_cast<std::size_t>(std::bit_width(blocks)) - 1;
}

// NCCL's factor on the rate of an all_reduce by tree, by size class. Trees with medium buffers are
// slower than the model.
double rate_correction(const Communicator& communicator, const TuningQuery& query,
                       const Method& method) {
  if (query.op != CollectiveOp::AllReduce) return 1.0;
  const auto& table =
      communicator.constants.tree_correction[static_cast<std::size_t>(method.protocol)];
  const std::size_t index = size_class(query.bytes);
  const bool tree = method.algorithm == Algorithm::Tree && index < kTreeCorrections;
  const bool nvls_tree = method.algorithm == Algorithm::NvlsTree &&
                         communicator.constants.rules.nvls_tree_corrected &&
                         communicator.node.sm >= 100 && communicator.node.cpu != CpuVendor::Arm;
  return (tree || nvls_tree) && index < table.size() ? table[index] : 1.0;
}

// NCCL's factor on the latency of a Simple ring between nodes, once every channel and rank has
// kPlateauBytes.
double latency_correction(const Communicator& communicator, const TuningQuery& query,
                          const Method& method) {
  const bool ring = method == Method{Algorithm::Ring, Protocol::Simple};
  if (!ring || communicator.nodes == 1 || query.op != CollectiveOp::AllReduce) return 1.0;
  const double share = std::floor(query.bytes / (communicator.channels * communicator.ranks));
  if (share < kPlateauBytes) return 1.0;
  return communicator.node.sm < 80 ? kRingPlateauVolta : kRingPlateau;
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::AllReduce || op == CollectiveOp::ReduceScatter ||
         op == CollectiveOp::Reduce;
}

// NVSwitches add no floats of eight bits (ncclNvlsSupported in NCCL's src/include/device.h).
bool adds_in_nvswitch(const Method& method, CollectiveOp op) {
  return reduces(op) &&
         (method.algorithm == Algorithm::Nvls || method.algorithm == Algorithm::NvlsTree);
}

}  // namespace

std::optional<Estimate> estimate(const Communicator& communicator, CollectiveOp op,
                                 const Method& method) {
  if (!is_offered(communicator, op, method)) return {};
  const double bus = bus_rate(communicator, op, method);
  if (bus <= 0.0) return {};
  return Estimate{.latency_us = latency_us(communicator, op, method),
                  .bus_rate = bus,
                  .algorithm_rate = bus * rate_ratio(communicator, op, method.algorithm)};
}

std::optional<Prediction> predict(const Communicator& communicator, const TuningQuery& query,
                                  const Method& method) {
  if (query.eight_bit_float && adds_in_nvswitch(method, query.op)) return {};
  const auto plain = estimate(communicator, query.op, method);
  if (!plain) return {};
  const bool rounds = query.eight_bit_float && reduces(query.op) &&
                      method.algorithm == Algorithm::Ring && communicator.ranks > kLongRingRanks;
  return Prediction{
      .latency_us = plain->latency_us * latency_correction(communicator, query, method),
      .rate = plain->algorithm_rate * rate_correction(communicator, query, method),
      .penalty = rounds ? kLongRing : 1.0};
}

Choice choose(const Communicator& communicator, const TuningQuery& query) {
  std::optional<Choice> best;
  double best_time = 0.0;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const Protocol protocol : kProtocols) {
      const Method method{algorithm, protocol};
      const auto prediction = predict(communicator, query, method);
      if (!prediction) continue;
      // The penalty steers NCCL's choice but is not part of the time.
      const double time = prediction->time_us(query.bytes) * prediction->penalty;
      if (best && time >= best_time) continue;
      best_time = time;
      best = Choice{.op = query.op, .method = method, .launch = {}, .prediction = *prediction};
    }
  }
  if (!best)
    throw RunError(
        fmt::format("NCCL {} has no algorithm left for {} on {} ranks of {} nodes: allow "
                    "more algorithms or protocols",
                    communicator.constants.version, to_string(query.op), communicator.ranks,
                    communicator.nodes));
  best->launch = launch_shape(communicator, query.op, best->method.algorithm, best->method.protocol,
                              query.bytes);
  return *best;
}

std::string to_text(const Choice& choice) {
  return fmt::format("{}/{}, {} channel{}", to_string(choice.method.algorithm),
                     to_string(choice.method.protocol), choice.launch.channels,
                     choice.launch.channels == 1 ? "" : "s");
}

}  // namespace trainyard::nccl
