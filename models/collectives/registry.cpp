// The table of collective algorithms, and what follows from a name in it.
#include <array>

#include "models/collectives/collective.hpp"

namespace trainyard {

const CollectiveAlgorithm& ring_all_reduce();
const CollectiveAlgorithm& hierarchical_all_reduce();
const CollectiveAlgorithm& recursive_doubling_all_reduce();
const CollectiveAlgorithm& halving_doubling_all_reduce();
const CollectiveAlgorithm& one_shot_all_reduce();
const CollectiveAlgorithm& two_shot_all_reduce();
const CollectiveAlgorithm& tree_all_reduce();
const CollectiveAlgorithm& ring_all_gather();
const CollectiveAlgorithm& ring_reduce_scatter();
const CollectiveAlgorithm& chain_broadcast();
const CollectiveAlgorithm& chain_reduce();
const CollectiveAlgorithm& pairwise_all_to_all();
const CollectiveAlgorithm& direct_all_to_all();
const CollectiveAlgorithm& send_recv_direct();
const CollectiveAlgorithm& send_recv_step();

std::span<const CollectiveAlgorithm* const> collective_algorithms() {
  static const std::array algorithms{
      &ring_all_reduce(),
      &hierarchical_all_reduce(),
      &recursive_doubling_all_reduce(),
      &halving_doubling_all_reduce(),
      &one_shot_all_reduce(),
      &two_shot_all_reduce(),
      &tree_all_reduce(),
      &ring_all_gather(),
      &ring_reduce_scatter(),
      &chain_broadcast(),
      &chain_reduce(),
      &pairwise_all_to_all(),
      &direct_all_to_all(),
      &send_recv_direct(),
      &send_recv_step(),
  };
  return algorithms;
}

const CollectiveAlgorithm* find_algorithm(CollectiveOp op, std::string_view name) {
  for (const CollectiveAlgorithm* algorithm : collective_algorithms())
    if (algorithm->op() == op && algorithm->name() == name) return algorithm;
  return nullptr;
}

std::uint32_t CollectiveAlgorithm::pieces(const GroupPlace& place) const {
  return static_cast<std::uint32_t>(place.gpus.size());
}

std::vector<DeviceId> CollectiveAlgorithm::parties(const GroupPlace& /*place*/) const { return {}; }

}  // namespace trainyard
