#include "tools/studies/goodput/layer_move.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "models/architecture/memory.hpp"
#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/options.hpp"
#include "models/rank_groups.hpp"
#include "sim/base/check.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard {

namespace {

// Bytes that a rank holds between two steps of so many parameters, whose optimizer state is divided
// among `shards`. Adapters have an optimizer, but frozen weights have none.
double held_bytes(const TrainingPlan& plan, std::int64_t parameters, std::int64_t shards) {
  StateRecipe recipe = state_recipe(plan);
  recipe.shards = shards;
  const StateBytes state = state_bytes(recipe, parameters);
  return plan.training.lora_rank > 0 ? state.weights : state.total() - state.gradients;
}

// Experts are apart: their optimizer state is divided among other ranks than that of the rest.
double layer_bytes(const TrainingPlan& plan, std::int64_t layer) {
  const Parallelism& p = plan.parallelism;
  const LayerShard shard = layer_shard(
      plan.architecture, layer_kind(plan.architecture, layer),
      {.tensor = p.tensor, .expert = p.expert, .expert_tensor = p.expert_tensor_size()});
  return held_bytes(plan, shard.sharded + shard.replicated, optimizer_shards(p)) +
         held_bytes(plan, shard.experts, expert_shards(p));
}

// The stage of each layer.
std::vector<std::int64_t> stages_of_layers(std::span<const std::int64_t> layers_of_stages) {
  std::vector<std::int64_t> stages;
  for (std::size_t stage = 0; stage < layers_of_stages.size(); ++stage)
    stages.insert(stages.end(), static_cast<std::size_t>(layers_of_stages[stage]),
                  static_cast<std::int64_t>(stage));
  return stages;
}

// Bytes that a rank of one stage sends to its peers in another, by both stages.
std::map<std::pair<std::int64_t, std::int64_t>, double> bytes_between_stages(
    const TrainingPlan& plan, std::span<const std::int64_t> before,
    std::span<const std::int64_t> after) {
  const std::vector<std::int64_t> from = stages_of_layers(before);
  const std::vector<std::int64_t> to = stages_of_layers(after);
  TY_CHECK(from.size() == to.size(), from.size(), to.size());
  std::map<std::pair<std::int64_t, std::int64_t>, double> bytes;
  for (std::size_t layer = 0; layer < from.size(); ++layer)
    if (from[layer] != to[layer])
      bytes[{from[layer], to[layer]}] +=
          layer_bytes(plan_of_stage(plan, from[layer]), static_cast<std::int64_t>(layer));
  return bytes;
}

}  // namespace

double layer_move_s(const TrainingPlan& plan, const Cluster& cluster,
                    std::span<const std::int64_t> before, std::span<const std::int64_t> after) {
  const Parallelism& p = plan.parallelism;
  const RankGrid grid(p);
  LoadSum loads(cluster);
  for (const auto& [stages, bytes] : bytes_between_stages(plan, before, after)) {
    for (RankId rank = 0; rank < static_cast<RankId>(grid.world()); ++rank) {
      const GridPosition at = grid.position(rank);
      if (at.pipeline != stages.first) continue;
      StagePeers peers = grid.peers(at, stages.second);
      for (std::int64_t i = 0; i < peers.count; ++i, ++peers.first.tensor) {
        const std::uint32_t to = gpu_of_rank(p, grid.rank(peers.first));
        loads.add(cluster.router().route(gpu_of_rank(p, rank), to),
                  bytes / static_cast<double>(peers.count));
      }
    }
  }
  double slowest_s = 0.0;
  for (const LinkLoad& load : loads.take().loads)
    slowest_s = std::max(slowest_s, load.bytes / cluster.link(load.link).capacity.value());
  return slowest_s;
}

}  // namespace trainyard
