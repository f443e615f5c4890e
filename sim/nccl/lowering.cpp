// Converts NCCL's choice to phases (lower() of nccl_model.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/algorithms/double_tree.hpp"
#include "sim/collectives/algorithms/nvls.hpp"
#include "sim/collectives/algorithms/pat.hpp"
#include "sim/collectives/algorithms/ring.hpp"
#include "sim/collectives/algorithms/sharp.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kTreeChannelBytes = 32.0 * 1024.0;  // "tree" uses fewer channels for fewer bytes
constexpr double kFewBytes = 64.0;  // one rail carries them in nanoseconds, as NCCL's one channel

bool is_rooted(CollectiveOp op) {
  return op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce;
}

// All flows of a registered algorithm.
std::vector<MultiLinkFlow> registered(const PlacedGroup& placed, CollectiveOp op,
                                      std::string_view name, double bytes) {
  const CollectiveAlgorithm* algorithm = find_algorithm(op, name);
  TY_CHECK(algorithm != nullptr, name);
  return all_flows(algorithm->phases(placed, Bytes{bytes}));
}

// Flows of a broadcast or reduce: each ring carries its share of the whole buffer over every hop
// except the one that closes the ring, starting at the root (broadcast) or ending there (reduce).
std::vector<MultiLinkFlow> rooted_flows(const PlacedGroup& placed, CollectiveOp op, double bytes) {
  const std::vector<Ring> rings = rings_of(placed);
  LoadSum loads(placed.cluster);
  std::vector<MultiLinkFlow> flows;
  for (Ring ring : rings) {
    std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0U), ring.end());
    const std::size_t skipped = op == CollectiveOp::Broadcast ? ring.size() - 1 : 0;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      if (i == skipped) continue;
      loads.add(hop_route(placed, ring[i], ring[(i + 1) % ring.size()]),
                bytes / static_cast<double>(rings.size()));
    }
    loads.take_into(flows);
  }
  return flows;
}

// Flows of a reducing pass, a gathering pass, or both.
std::vector<MultiLinkFlow> passing_flows(const PlacedGroup& placed, CollectiveOp op, double bytes) {
  LoadSum loads(placed.cluster);
  return ring_flows(placed, rings_of(placed), bytes, op == CollectiveOp::AllReduce ? 2 : 1, loads);
}

// double_tree_flows() uses fewer channels for a small buffer. To use every rail, compute the flows
// of a buffer that is large enough and scale them down.
std::vector<MultiLinkFlow> tree_flows(const PlacedGroup& placed, double bytes) {
  const std::size_t rails = bytes <= kFewBytes ? 1 : rails_of(placed, placement_of(placed)).size();
  const double enough = std::max(bytes, kTreeChannelBytes * static_cast<double>(rails));
  std::vector<MultiLinkFlow> flows = double_tree_flows(placed, Bytes{enough});
  scale(flows, bytes / enough);
  return flows;
}

// Flows over switches that reduce. In a gather or scatter each NIC carries (N-1)/N of its share in
// one direction with or without such switches, which is the load of the hierarchical algorithm.
std::vector<MultiLinkFlow> reduced_flows(const PlacedGroup& placed, CollectiveOp op, InNode in_node,
                                         double bytes) {
  if (op != CollectiveOp::AllReduce) return registered(placed, op, "hierarchical", bytes);
  return sharp_flows(placed, in_node, bytes);
}

std::vector<MultiLinkFlow> flows_of(const PlacedGroup& placed, const Choice& choice, double bytes) {
  switch (choice.method.algorithm) {
    case Algorithm::Ring:
      return is_rooted(choice.op) ? rooted_flows(placed, choice.op, bytes)
                                  : passing_flows(placed, choice.op, bytes);
    case Algorithm::Tree:
      return tree_flows(placed, bytes);
    case Algorithm::Nvls:
      if (!nvls_refusal(placed)) return nvls_flows(placed, choice.op, bytes);
      if (sharp_refusal(placed, InNode::NvSwitch)) break;
      return reduced_flows(placed, choice.op, InNode::NvSwitch, bytes);
    case Algorithm::NvlsTree:
      if (nvls_tree_refusal(placed)) break;
      return nvls_tree_flows(placed, bytes);
    case Algorithm::Pat:
      return pat_flows(placed, choice.op, bytes);
    case Algorithm::CollNetDirect:
    case Algorithm::CollNetChain:
      if (sharp_refusal(placed, InNode::Direct)) break;
      return reduced_flows(placed, choice.op, InNode::Direct, bytes);
  }
  throw RunError(
      fmt::format("{} of {} by {} cannot be simulated on this group (exclude it: "
                  "NCCL_ALGO=^{})",
                  to_string(choice.op), describe(placed.gpus), to_string(choice.method.algorithm),
                  to_string(choice.method.algorithm)));
}

}  // namespace

std::vector<Phase> lower(const PlacedGroup& placed, const Choice& choice, double bytes) {
  std::vector<Phase> phases(1);
  Phase& phase = phases.front();
  phase.latency = Seconds{choice.prediction.latency_us * 1e-6};
  if (bytes <= 0.0) return phases;
  phase.flows = flows_of(placed, choice, bytes);
  // The links carry the overhead of the protocol as well. The cap below gives each flow the
  // predicted time on an idle fabric.
  scale(phase.flows, 1.0 / wire_efficiency(choice.method.protocol));
  const double transfer_s = choice.prediction.transfer_us(bytes) * 1e-6;
  for (MultiLinkFlow& flow : phase.flows) flow.rate_cap_bytes_per_s = payload(flow) / transfer_s;
  return phases;
}

std::optional<std::string> stepwise_algorithm(const Choice& choice, bool crosses_nodes) {
  const bool sums = choice.op == CollectiveOp::AllReduce;
  switch (choice.method.algorithm) {
    case Algorithm::Ring:
      return is_rooted(choice.op) ? "chain" : "ring";
    case Algorithm::Tree:
      return "tree";
    case Algorithm::Pat:
      return "pat";
    case Algorithm::CollNetDirect:
    case Algorithm::CollNetChain:
      return sums ? "sharp" : "hierarchical";
    case Algorithm::Nvls:
      if (!crosses_nodes) return "nvls";
      return sums ? "nvls_sharp" : "hierarchical";
    case Algorithm::NvlsTree:
      return "nvls_tree";
  }
  return {};
}

}  // namespace trainyard::nccl
