// The registry: a table of all collective algorithms, and the functions that find one by name.
#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/collectives/algorithms/nvls.hpp"
#include "sim/collectives/algorithms/pat.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/collectives/custom/custom_algorithm.hpp"

namespace trainyard {

const CollectiveAlgorithm& ring_all_reduce();
const CollectiveAlgorithm& bidirectional_ring_all_reduce();
const CollectiveAlgorithm& hierarchical_all_reduce();
const CollectiveAlgorithm& multi_level_all_reduce();
const CollectiveAlgorithm& recursive_doubling_all_reduce();
const CollectiveAlgorithm& halving_doubling_all_reduce();
const CollectiveAlgorithm& one_shot_all_reduce();
const CollectiveAlgorithm& two_shot_all_reduce();
const CollectiveAlgorithm& tree_all_reduce();
const CollectiveAlgorithm& parameter_server_all_reduce();
const CollectiveAlgorithm& sharp_all_reduce();
const CollectiveAlgorithm& nvls_sharp_all_reduce();
const CollectiveAlgorithm& sharp_all_gather();
const CollectiveAlgorithm& sharp_reduce_scatter();
const CollectiveAlgorithm& ring_all_gather();
const CollectiveAlgorithm& direct_all_gather();
const CollectiveAlgorithm& hierarchical_all_gather();
const CollectiveAlgorithm& multi_level_all_gather();
const CollectiveAlgorithm& ring_reduce_scatter();
const CollectiveAlgorithm& direct_reduce_scatter();
const CollectiveAlgorithm& hierarchical_reduce_scatter();
const CollectiveAlgorithm& multi_level_reduce_scatter();
const CollectiveAlgorithm& chain_broadcast();
const CollectiveAlgorithm& tree_broadcast();
const CollectiveAlgorithm& chain_reduce();
const CollectiveAlgorithm& tree_reduce();
const CollectiveAlgorithm& pairwise_all_to_all();
const CollectiveAlgorithm& direct_all_to_all();
const CollectiveAlgorithm& hierarchical_all_to_all();
const CollectiveAlgorithm& node_limited_all_to_all();
const CollectiveAlgorithm& hybrid_ep_all_to_all();
const CollectiveAlgorithm& send_recv_direct();
const CollectiveAlgorithm& send_recv_step();

std::span<const CollectiveAlgorithm* const> collective_algorithms() {
  static const std::array algorithms{
      &ring_all_reduce(),
      &bidirectional_ring_all_reduce(),
      &hierarchical_all_reduce(),
      &multi_level_all_reduce(),
      &recursive_doubling_all_reduce(),
      &halving_doubling_all_reduce(),
      &one_shot_all_reduce(),
      &two_shot_all_reduce(),
      &tree_all_reduce(),
      &parameter_server_all_reduce(),
      &nccl::nvls_all_reduce(),
      &nccl::nvls_tree_all_reduce(),
      &sharp_all_reduce(),
      &nvls_sharp_all_reduce(),
      &ring_all_gather(),
      &direct_all_gather(),
      &hierarchical_all_gather(),
      &multi_level_all_gather(),
      &nccl::pat_all_gather(),
      &nccl::nvls_all_gather(),
      &sharp_all_gather(),
      &ring_reduce_scatter(),
      &direct_reduce_scatter(),
      &hierarchical_reduce_scatter(),
      &multi_level_reduce_scatter(),
      &nccl::pat_reduce_scatter(),
      &nccl::nvls_reduce_scatter(),
      &sharp_reduce_scatter(),
      &chain_broadcast(),
      &tree_broadcast(),
      &chain_reduce(),
      &tree_reduce(),
      &pairwise_all_to_all(),
      &direct_all_to_all(),
      &hierarchical_all_to_all(),
      &node_limited_all_to_all(),
      &hybrid_ep_all_to_all(),
      &send_recv_direct(),
      &send_recv_step(),
  };
  return algorithms;
}

namespace {

const CollectiveAlgorithm* find_row(CollectiveOp op, std::string_view name) {
  for (const CollectiveAlgorithm* algorithm : collective_algorithms())
    if (algorithm->op() == op && algorithm->name() == name) return algorithm;
  return nullptr;
}

// Creates an algorithm with an argument on its first use and caches it until the program ends. The
// mutex makes this safe for several threads.
const CollectiveAlgorithm* find_with_argument(CollectiveOp op, std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return nullptr;
  const CollectiveAlgorithm* row = find_row(op, name.substr(0, colon));
  if (row == nullptr) return nullptr;
  static std::mutex mutex;
  static std::map<std::pair<CollectiveOp, std::string>, std::unique_ptr<CollectiveAlgorithm>> known;
  const std::scoped_lock lock(mutex);
  const std::pair key{op, std::string(name)};
  const auto entry = known.find(key);
  if (entry != known.end()) return entry->second.get();
  return (known[key] = row->with_argument(name.substr(colon + 1))).get();
}

const CollectiveAlgorithm* find_in_file(CollectiveOp op, const std::string& path) {
  const CollectiveAlgorithm& algorithm = algorithm_of_file(path);
  if (algorithm.op() == op) return &algorithm;
  throw InputError(
      {path, "",
       fmt::format("is an algorithm for {}, not for {}", to_string(algorithm.op()), to_string(op)),
       fmt::format("choose it for {}", to_string(algorithm.op()))});
}

}  // namespace

const CollectiveAlgorithm* find_algorithm(CollectiveOp op, std::string_view name) {
  if (names_algorithm_file(name)) return find_in_file(op, std::string(name));
  if (const CollectiveAlgorithm* row = find_row(op, name)) return row;
  return find_with_argument(op, name);
}

}  // namespace trainyard
