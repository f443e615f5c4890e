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
  const Architecture& a = plan_.architecture;
  std::int64_t sum = 0;
  for (const Chunk& chunk : chunks_) {
    for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i) {
      if (!trains_layer(plan_, i)) continue;
      for (const Adapter& adapter :
           layer_adapters(a, plan_.training, shape_.tensor, a.kind_of(i))) {
        const bool row = adapter.target == "projection" || adapter.target == "down";
        sum += adapter.rank * (row ? adapter.outputs : adapter.inputs);
      }
    }
  }
  return sum;
}

// What is not trained: beside adapters the layers' matrices as they are kept and the rest in the
// training precision; without adapters all as what is trained. Sharded where weights are.
StageLowering::WeightBytes StageLowering::frozen_weights() const {
  const Parallelism& p = plan_.parallelism;
  const double each = plan_.training.lora_rank > 0
                          ? static_cast<double>(shape_.element)
                          : state_bytes_per_parameter(state_recipe(plan_, 1)).weights;
  WeightBytes bytes;
  for (const ChunkWeights& weights : weights_) {
    for (const WeightUnit& unit : weights.units) {
      for (const Tensor& tensor : unit.frozen)
        bytes.dense += frozen_element_bytes(plan_, unit, tensor, each) *
                       static_cast<double>(tensor.elements());
      for (const Tensor& tensor : unit.frozen_experts)
        bytes.experts += frozen_element_bytes(plan_, unit, tensor, each) *
                         static_cast<double>(tensor.elements());
    }
  }
  if (p.zero_stage < 3) return bytes;
  return {.dense = bytes.dense / static_cast<double>(optimizer_shards(p)),
          .experts = bytes.experts / static_cast<double>(expert_shards(p))};
}

// Of matrices in four bits one at a time is written out for its product.
void StageLowering::hold_frozen() {
  const WeightBytes bytes = frozen_weights();
  build_.hold(Category::Weights, std::llround(bytes.dense + bytes.experts));
  if (plan_.training.lora_rank == 0 || !dequantises(plan_.training)) return;
  std::int64_t largest = 0;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
    if (kind == LayerKind::Moe && !plan_.architecture.has_experts()) continue;
    for (const Weight& weight : layer_weights(plan_.architecture, kind)) {
      const Parallelism& p = plan_.parallelism;
      const std::int64_t own = weight.copies / (weight.expert() ? p.expert : 1);
      const std::int64_t ranks = weight.expert() ? p.expert_tensor_size() : shape_.tensor;
      largest = std::max(largest, own * split_parameters(weight, ranks));
    }
  }
  build_.hold(Category::Workspace, largest * shape_.element);
}

// Of the shards of weights that are gathered; what one rank has whole is not.
double StageLowering::sharded_weights() const {
  const Parallelism& p = plan_.parallelism;
  const WeightBytes frozen = frozen_weights();
  const auto trained = [this](std::int64_t parameters, std::int64_t shards) {
    return state_bytes(state_recipe(plan_, shards), parameters).weights;
  };
  double bytes = 0.0;
  if (optimizer_shards(p) > 1)
    bytes += trained(parameters_.total, optimizer_shards(p)) + frozen.dense;
  if (expert_shards(p) > 1)
    bytes += trained(parameters_.experts, expert_shards(p)) + frozen.experts;
  return bytes;
}

// Weights that stand on the host: those of the layers, fetched whole for every use, or with ZeRO 3
// all shards.
void StageLowering::hold_fetched() {
  if (!plan_.offload.weights) return;
  std::int64_t bytes = 0;
  if (plan_.parallelism.zero_stage == 3) {
    bytes = static_cast<std::int64_t>(sharded_weights());
  } else {
    for (const ChunkWeights& weights : weights_)
      for (const WeightUnit& unit : weights.units)
        if (unit.is_layer()) bytes += unit_bytes(plan_, weights, unit);
  }
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
