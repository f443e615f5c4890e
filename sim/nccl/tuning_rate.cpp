// Rates of the tuning model, GB/s.
#include <algorithm>
#include <limits>

#include "sim/nccl/tuning_parts.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kTreeShare = 0.92;
constexpr double kRingLl128Share = 0.92;
constexpr double kTreeLlShare = 3.8;  // a tree of LL reaches the 3.8th part
constexpr double kSimpleTreeShare = 0.85;
constexpr double kPatShare = 0.75;
constexpr double kFiveSixths = 5.0 / 6.0;

struct Facts {
  const Communicator& communicator;
  std::size_t generation;
  std::size_t column;  // one node, two, more
  double nodes;
  double local;  // ranks of a node

  explicit Facts(const Communicator& of)
      : communicator(of),
        generation(static_cast<std::size_t>(generation_of(of.node.sm))),
        column(std::min(of.nodes, 3U) - 1),
        nodes(of.nodes),
        local(of.ranks_per_node()) {}
  double cap(const RateTable& table) const { return table[generation][column]; }
};

bool is_gather(CollectiveOp op) {
  return op == CollectiveOp::AllGather || op == CollectiveOp::ReduceScatter;
}

double graph_rate(const Facts& facts, const ChannelGraph& graph) {
  return facts.communicator.nodes <= 2 ? graph.intra : graph.inter;
}

// The graph's channels, or as many of them as NCCL_MAX_NCHANNELS leaves.
double ring_channels(const Facts& facts, const ChannelGraph& graph) {
  return graph.channels * facts.communicator.channel_share;
}

// What LL reaches depends on the GPU within a node and on the CPU across (the same table, its first
// two rows).
double ll_rate(const Facts& facts) {
  const bool amd = facts.communicator.node.cpu == CpuVendor::Amd;
  const std::size_t row = facts.column == 0 ? facts.generation : (amd ? 1U : 0U);
  return facts.communicator.constants.ll_rate[row][facts.column];
}

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
    const double share = facts.column == 0 ? 7.0 / 9.0 : 120.0 / 128.0;
    rate = std::min(rate * share, channels * facts.cap(constants.tree_ll128_cap));
  }
  return graph.simple_tree ? rate * kSimpleTreeShare : rate;
}

double pat_rate(const Facts& facts) {
  const ChannelGraph& graph = facts.communicator.graphs.tree;
  return ring_channels(facts, graph) * graph_rate(facts, graph) * kPatShare;
}

// From 2.28 on: all_reduce goes both ways at once, a gather does not send a rank its own part.
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

// Before: the graph's rate as it is; the ratio that follows is 5/6.
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

// The switches of the network reduce. Works at full speed only where every GPU has a NIC.
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

double rate_ratio(const Communicator& communicator, CollectiveOp op, Algorithm algorithm) {
  const double of_ring = communicator.ranks / ring_steps(op, communicator.ranks);
  if (algorithm == Algorithm::Ring) return of_ring;
  const NvlsRate rule = communicator.constants.rules.nvls_rate;
  const bool nvls = algorithm == Algorithm::Nvls || algorithm == Algorithm::NvlsTree;
  if (is_gather(op)) return nvls && rule == NvlsRate::FiveSixths ? kFiveSixths : 1.0;
  if (!nvls) return 0.5;
  if (rule == NvlsRate::Efficiency) return of_ring;
  const double nodes = communicator.nodes;
  const bool tree_by_nodes = rule == NvlsRate::Graph && algorithm == Algorithm::NvlsTree;
  return tree_by_nodes ? 0.7 * nodes / (2.0 * (nodes - 1.0)) : kFiveSixths;
}

}  // namespace trainyard::nccl
