// What a pipeline rank holds through the step: weights that it trains and weights that it does not.
#include <algorithm>
#include <cmath>

#include "models/architecture/shard.hpp"
#include "models/architecture/weights.hpp"
#include "models/frozen.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/stage.hpp"

namespace trainyard {

ChunkLayers StageLowering::layers_of(const Chunk& chunk) {
  return {.first_layer = chunk.first_layer,
          .layers = chunk.layers,
          .has_embedding = chunk.has_embedding,
          .has_head = chunk.has_head};
}

ChunkWeights StageLowering::weights_of(const Chunk& chunk) const {
  ChunkWeights weights = chunk_weights(plan_, layers_of(chunk));
  weights.number = chunk.place.chunk;
  weights.rank = stage_;
  weights.stage = chunk.stage;
  return weights;
}

StageParameters StageLowering::stage_parameters() const {
  const EndParameters ends = end_parameters(plan_);
  StageParameters parameters;
  for (const ChunkWeights& weights : weights_) {
    parameters.total += weights.parameters();
    parameters.experts += weights.expert_parameters();
  }
  for (const Chunk& chunk : chunks_) {
    for (std::int64_t i = 0; i < chunk.layers + chunk.further; ++i) {
      if (!trains_layer(plan_, chunk.first_layer + i)) continue;
      const LayerKind kind = plan_.architecture.kind_of(chunk.first_layer + i);
      ++(kind == LayerKind::Moe ? parameters.moe_layers : parameters.layers);
    }
  }
  if (plan_.training.lora_rank > 0) {
    parameters.replicated = replicated_adapters();
    return parameters;
  }
  for (const Chunk& chunk : chunks_) {
    for (std::int64_t i = 0; i < chunk.layers + chunk.further; ++i) {
      if (!trains_layer(plan_, chunk.first_layer + i)) continue;
      const LayerKind kind = plan_.architecture.kind_of(chunk.first_layer + i);
      parameters.replicated +=
          layer_shard(plan_.architecture, shape_.tensor, {.kind = kind}).replicated;
    }
    parameters.replicated += 3 * chunk.further * plan_.architecture.norm_width();
    if (chunk.has_embedding && trains_embedding(plan_)) parameters.replicated += ends.positions;
    if (chunk.has_head && trains_head(plan_)) parameters.replicated += ends.final_norm;
    if (shares_embedding(plan_) && trains_embedding(plan_) &&
        (chunk.has_embedding || chunk.has_head))
      parameters.shared_embedding = ends.embedding;
  }
  return parameters;
}

// The factors of adapters that stand on every tensor rank.
std::int64_t StageLowering::replicated_adapters() const {
  std::int64_t sum = 0;
  for (const Adapter& adapter : layer_adapters(plan_.architecture, plan_.training, shape_.tensor)) {
    const bool row = adapter.target == "projection" || adapter.target == "down";
    for (const Chunk& chunk : chunks_)
      for (std::int64_t i = 0; i < chunk.layers; ++i)
        if (trains_layer(plan_, chunk.first_layer + i))
          sum += adapter.rank * (row ? adapter.outputs : adapter.inputs);
  }
  return sum;
}

// What is not trained: beside adapters the layers' matrices as they are kept and the rest in the
// training precision; without adapters all as what is trained. Sharded where weights are. Of
// matrices in four bits one at a time is written out for its product.
void StageLowering::hold_frozen() {
  const Parallelism& p = plan_.parallelism;
  const bool adapted = plan_.training.lora_rank > 0;
  const double each = adapted ? static_cast<double>(shape_.element)
                              : state_bytes_per_parameter(state_recipe(plan_, 1)).weights;
  double dense = 0.0;
  double experts = 0.0;
  for (const ChunkWeights& weights : weights_) {
    for (const WeightUnit& unit : weights.units) {
      for (const Tensor& tensor : unit.frozen)
        dense += frozen_element_bytes(plan_, unit, tensor, each) *
                 static_cast<double>(tensor.elements());
      for (const Tensor& tensor : unit.frozen_experts)
        experts += each * static_cast<double>(tensor.elements());
    }
  }
  if (p.zero_stage == 3) {
    dense /= static_cast<double>(optimizer_shards(p));
    experts /= static_cast<double>(expert_shards(p));
  }
  build_.hold(Category::Weights, std::llround(dense + experts));
  if (!adapted || !dequantises(plan_.training)) return;
  std::int64_t largest = 0;
  for (const Weight& weight : layer_weights(plan_.architecture, LayerKind::Dense))
    largest = std::max(largest, split_parameters(weight, shape_.tensor));
  build_.hold(Category::Workspace, largest * shape_.element);
}

// Weights that stand on the host and are fetched for every use: those of the layers.
void StageLowering::hold_fetched() {
  if (!plan_.offload.weights) return;
  std::int64_t parameters = 0;
  for (const ChunkWeights& weights : weights_)
    for (const WeightUnit& unit : weights.units)
      if (unit.is_layer()) parameters += weights.parameters(unit);
  const std::int64_t bytes = parameters * shape_.element;
  build_.hold(Category::Weights, -bytes);
  build_.hold(Category::Host, bytes);
}

void StageLowering::hold_memory() {
  hold_frozen();
  hold_fetched();
  build_.hold(Category::Framework, plan_.framework.context_bytes + plan_.framework.workspace_bytes);
  std::vector<LayerKind> kinds;
  if (parameters_.layers > 0) kinds.push_back(LayerKind::Dense);
  if (parameters_.moe_layers > 0) kinds.push_back(LayerKind::Moe);
  const std::int64_t placeholders = layer_placeholders(plan_, kinds);
  if (placeholders > 0) build_.hold(Category::Workspace, placeholders);
}

}  // namespace trainyard
