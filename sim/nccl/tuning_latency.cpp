// Latencies of the tuning model, microseconds.
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/nccl/tuning_parts.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kFanOut = 0.4;  // a head's further GPUs, one after the other
constexpr double kPatPerRank = 2.8;
constexpr double kPatNetwork = 3.5;  // PAT's steps overlap: the 3.5th part of the network's latency

struct Steps {
  double base = 0.0;
  double intra = 0.0;
  double inter = 0.0;
  double local = 1.0;   // ranks of a node
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
  // Simple flushes what the NIC wrote into the GPU: once more the network's latency.
  steps.inter += graph.net_latency_us * (method.protocol == Protocol::Simple ? 2.0 : 1.0);
  steps.local = std::floor(local);
  steps.levels = static_cast<double>(std::bit_width(communicator.nodes)) - 1.0;
  return steps;
}

// A proxy on the CPU posts every network message.
double post_overhead(const Communicator& communicator, Protocol protocol) {
  if (communicator.nodes == 1) return 0.0;
  const double once = communicator.node.cpu == CpuVendor::Amd ? 2.0 : 1.0;
  return protocol == Protocol::Simple ? 3.0 * once : once;
}

// Chunks flow from the root on; where channels differ NCCL charges every rank.
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
  double crossing = 0.0;
  if (communicator.nodes > 1) crossing = all_reduce ? 2.0 * (nodes - 1.0) : nodes - 1.0;
  if (communicator.nodes > 1 && all_reduce && communicator.constants.rules.inter_steps_per_node)
    crossing = 2.0 * nodes;
  const double intra = std::max(steps.intra, post_overhead(communicator, method.protocol));
  return steps.base + (ring_steps(op, communicator.ranks) - crossing) * intra +
         crossing * steps.inter;
}

}  // namespace

double latency_us(const Communicator& communicator, CollectiveOp op, const Method& method) {
  const Steps steps = steps_of(communicator, method);
  const bool alone = communicator.nodes == 1;
  const double peers = steps.local - 1.0;
  switch (method.algorithm) {
    case Algorithm::Ring:
      return ring_latency_us(communicator, op, method, steps);
    case Algorithm::Tree:
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

}  // namespace trainyard::nccl
