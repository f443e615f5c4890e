#include "models/lower/resident_memory.hpp"

#include <algorithm>
#include <cmath>

#include "models/adapters.hpp"
#include "models/architecture/shard.hpp"
#include "models/architecture/weights.hpp"
#include "models/frozen.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/ends.hpp"

namespace trainyard {

namespace {

// Parameters that stand on every tensor rank: of layers norms and the like, or beside adapters the
// factors that are not divided.
std::int64_t replicated_in_layer(const TrainingPlan& plan, LayerKind kind) {
  const std::int64_t tensor = plan.parallelism.tensor;
  if (plan.training.lora_rank == 0)
    return layer_shard(plan.architecture, tensor, {.kind = kind}).replicated;
  std::int64_t sum = 0;
  for (const Adapter& adapter : layer_adapters(plan.architecture, plan.training, tensor, kind)) {
    const bool row = adapter.target == "projection" || adapter.target == "down";
    sum += adapter.rank * (row ? adapter.outputs : adapter.inputs);
  }
  return sum;
}

// The same of the ends of the model that the chunk has.
std::int64_t replicated_in_ends(const TrainingPlan& plan, const StageChunk& chunk) {
  const EndParameters ends = end_parameters(plan);
  std::int64_t sum = 3 * chunk.further * plan.architecture.norm_width();
  if (chunk.has_embedding && trains_embedding(plan)) sum += ends.positions;
  if (chunk.has_head && trains_head(plan)) sum += ends.final_norm;
  return sum;
}

struct WeightBytes {
  double dense = 0.0;
  double experts = 0.0;
};

// What is not trained: beside adapters the layers' matrices as they are kept and the rest in the
// training precision; without adapters all as what is trained. Sharded where weights are.
WeightBytes frozen_weights(const TrainingPlan& plan, const std::vector<ChunkWeights>& chunks) {
  const Parallelism& p = plan.parallelism;
  const double each = plan.training.lora_rank > 0
                          ? element_bytes(plan.training.precision)
                          : state_bytes_per_parameter(state_recipe(plan, 1)).weights;
  WeightBytes bytes;
  for (const ChunkWeights& weights : chunks) {
    for (const WeightUnit& unit : weights.units) {
      for (const Tensor& tensor : unit.frozen)
        bytes.dense +=
            frozen_element_bytes(plan, unit, tensor, each) * static_cast<double>(tensor.elements());
      for (const Tensor& tensor : unit.frozen_experts)
        bytes.experts +=
            frozen_element_bytes(plan, unit, tensor, each) * static_cast<double>(tensor.elements());
    }
  }
  if (p.zero_stage < 3) return bytes;
  return {.dense = bytes.dense / static_cast<double>(optimizer_shards(p)),
          .experts = bytes.experts / static_cast<double>(expert_shards(p))};
}

// Of matrices in four bits one at a time is written out for its product: the largest.
std::int64_t largest_matrix(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  std::int64_t largest = 0;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
    if (kind == LayerKind::Moe && !plan.architecture.has_experts()) continue;
    for (const Weight& weight : layer_weights(plan.architecture, kind)) {
      const std::int64_t own = weight.copies / (weight.expert() ? p.expert : 1);
      const std::int64_t ranks = weight.expert() ? p.expert_tensor_size() : p.tensor;
      largest = std::max(largest, own * split_parameters(weight, ranks));
    }
  }
  return largest;
}

// Of the shards of weights that are gathered; what one rank has whole is not.
double sharded_weights(const TrainingPlan& plan, const WeightBytes& frozen,
                       const StageParameters& parameters) {
  const Parallelism& p = plan.parallelism;
  const auto trained = [&](std::int64_t count, std::int64_t shards) {
    return state_bytes(state_recipe(plan, shards), count).weights;
  };
  double bytes = 0.0;
  if (optimizer_shards(p) > 1)
    bytes += trained(parameters.total, optimizer_shards(p)) + frozen.dense;
  if (expert_shards(p) > 1) bytes += trained(parameters.experts, expert_shards(p)) + frozen.experts;
  return bytes;
}

// Weights that stand on the host: those of the layers, fetched whole for every use, or with ZeRO 3
// all shards.
std::int64_t weights_on_host(const TrainingPlan& plan, const std::vector<ChunkWeights>& chunks,
                             const WeightBytes& frozen, const StageParameters& parameters) {
  if (!plan.offload.weights) return 0;
  if (plan.parallelism.zero_stage == 3)
    return static_cast<std::int64_t>(sharded_weights(plan, frozen, parameters));
  std::int64_t bytes = 0;
  for (const ChunkWeights& weights : chunks)
    for (const WeightUnit& unit : weights.units)
      if (unit.is_layer()) bytes += unit_bytes(plan, weights, unit);
  return bytes;
}

}  // namespace

std::vector<ChunkWeights> stage_weights(const TrainingPlan& plan, const StageLayout& layout) {
  std::vector<ChunkWeights> all;
  for (const StageChunk& chunk : layout.chunks()) {
    ChunkWeights weights = chunk_weights(plan, {.first_layer = chunk.first_layer,
                                                .layers = chunk.layers,
                                                .has_embedding = chunk.has_embedding,
                                                .has_head = chunk.has_head});
    weights.number = chunk.place.chunk;
    weights.rank = chunk.place.rank;
    weights.stage = chunk.stage;
    all.push_back(std::move(weights));
  }
  return all;
}

StageParameters stage_parameters(const TrainingPlan& plan, const StageLayout& layout,
                                 const std::vector<ChunkWeights>& weights) {
  StageParameters parameters;
  for (const ChunkWeights& chunk : weights) {
    parameters.total += chunk.parameters();
    parameters.experts += chunk.expert_parameters();
  }
  const bool adapted = plan.training.lora_rank > 0;
  for (const StageChunk& chunk : layout.chunks()) {
    for (std::int64_t i = 0; i < chunk.layers + chunk.further; ++i) {
      const std::int32_t layer = chunk.in_model(i);
      if (!trains_layer(plan, layer)) continue;
      const LayerKind kind = plan.architecture.kind_of(layer);
      ++(kind == LayerKind::Moe ? parameters.moe_layers : parameters.layers);
      parameters.replicated += replicated_in_layer(plan, kind);
    }
    if (adapted) continue;
    parameters.replicated += replicated_in_ends(plan, chunk);
    if (shares_embedding(plan) && trains_embedding(plan) && (chunk.has_embedding || chunk.has_head))
      parameters.shared_embedding = end_parameters(plan).embedding;
  }
  return parameters;
}

void hold_framework(const TrainingPlan& plan, std::span<const PlacedParts> layers,
                    ProgramBuilder& build) {
  build.hold(Category::Framework, plan.framework.context_bytes + plan.framework.workspace_bytes);
  const std::int64_t placeholders = layer_placeholders(plan, layers);
  if (placeholders > 0) build.hold(Category::Workspace, placeholders);
}

void hold_stage_memory(const TrainingPlan& plan, const std::vector<ChunkWeights>& weights,
                       const StageParameters& parameters, ProgramBuilder& build) {
  const WeightBytes frozen = frozen_weights(plan, weights);
  build.hold(Category::Weights, std::llround(frozen.dense + frozen.experts));
  if (plan.training.lora_rank > 0 && dequantises(plan.training))
    build.hold(
        Category::Workspace,
        largest_matrix(plan) * static_cast<std::int64_t>(element_bytes(plan.training.precision)));
  const std::int64_t on_host = weights_on_host(plan, weights, frozen, parameters);
  build.hold(Category::Weights, -on_host);
  build.hold(Category::Host, on_host);
  std::vector<PlacedParts> kinds;
  if (parameters.layers > 0) kinds.push_back({.kind = LayerKind::Dense});
  if (parameters.moe_layers > 0) kinds.push_back({.kind = LayerKind::Moe});
  hold_framework(plan, kinds, build);
}

}  // namespace trainyard
