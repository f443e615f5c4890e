// Which algorithms and protocols NCCL offers (availability in ncclTopoTuneModel).
#include "sim/nccl/tuning_parts.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kGatherRanksMost = 32.0;  // of a node, for NVLS other than all_reduce

bool is_gather(CollectiveOp op) {
  return op == CollectiveOp::AllGather || op == CollectiveOp::ReduceScatter;
}

bool nvls_offered(const Communicator& communicator, CollectiveOp op) {
  if (!communicator.graphs.nvls || !communicator.options.nvls) return false;
  if (communicator.graphs.nvls->channels < 2) return false;
  if (communicator.nodes > 1 && !communicator.options.collnet) return false;
  if (op == CollectiveOp::AllReduce) return true;
  return is_gather(op) && communicator.constants.rules.nvls_gathers &&
         communicator.ranks_per_node() <= kGatherRanksMost;
}

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
  return false;
}

// LL128 relies on 128-byte stores that arrive whole, which holds over NVLink and nearby NICs.
bool ll128_by_default(const Communicator& communicator, Algorithm algorithm) {
  const ChannelGraph& graph =
      algorithm == Algorithm::Tree ? communicator.graphs.tree : communicator.graphs.ring;
  const PathType farthest = communicator.node.sm >= 90 ? PathType::NicByPeer : PathType::Switches;
  return graph.type_inter <= farthest && graph.type_intra <= PathType::NvLinkByPeer &&
         communicator.node.sm >= 70 &&
         communicator.node.sm <= communicator.constants.rules.ll128_newest_sm;
}

}  // namespace

bool is_offered(const Communicator& communicator, CollectiveOp op, const Method& method) {
  const auto row = static_cast<std::size_t>(op);
  const auto algorithm = static_cast<std::size_t>(method.algorithm);
  if (!communicator.options.algorithms[row][algorithm]) return false;
  if (!algorithm_offered(communicator, op, method.algorithm)) return false;
  const bool simple = method.protocol == Protocol::Simple;
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

}  // namespace trainyard::nccl
