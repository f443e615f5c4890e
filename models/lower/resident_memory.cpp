#include "models/lower/resident_memory.hpp"

#include <algorithm>
#include <cmath>

#include "models/architecture/weights.hpp"

namespace trainyard {

namespace {

// The factors of a layer's adapters that are not divided.
std::int64_t replicated_factors(const AdapterSet& adapters, LayerKind kind) {
  std::int64_t sum = 0;
  for (const Adapter& adapter : adapters.of(kind))
    sum += adapter.rank * (adapter.row_parallel ? adapter.outputs : adapter.inputs);
  return sum;
}

// Adds the trained parameters of a layer that every tensor rank holds: norms and similar vectors,
// or with adapters the factors that are not divided.
void add_replicated(const LoweringOptions& options, LayerKind kind, StageParameters& parameters) {
  const WeightDivision& division = options.weights.division;
  const AdapterSet& adapters = options.weights.adapters;
  if (adapters.any()) {
    const std::int64_t factors = replicated_factors(adapters, kind);
    parameters.replicated += factors;
    parameters.always_partial += factors;
    return;
  }
  parameters.replicated +=
      layer_shard(division.architecture, kind, {.tensor = division.tensor}).replicated;
  for (const Weight& weight : layer_weights(division.architecture, kind)) {
    if (weight.split == Split::Column) parameters.always_partial += weight.vector;
  }
}

// Such parameters of embedding, LM head and layers of multi-token prediction of a chunk. Each of
// the latter has three additional norms.
std::int64_t replicated_in_ends(const LoweringOptions& options, const StageChunk& chunk) {
  const WeightOptions& weights = options.weights;
  std::int64_t sum = 3 * chunk.mtp_layers * weights.division.architecture.norm_width();
  if (chunk.has_embedding && weights.trained.embedding) sum += weights.ends.positions;
  if (chunk.has_head && weights.trained.head) sum += weights.ends.final_norm;
  return sum;
}

struct WeightBytes {
  double dense = 0.0;
  double experts = 0.0;
};

// Bytes of frozen weights. With adapters, the matrices of layers have their own format and all
// other weights the training precision. Without adapters, frozen weights are stored as trained ones
// are. ZeRO 3 shards them like trained weights.
WeightBytes frozen_weights(const LoweringOptions& options,
                           const std::vector<ChunkWeights>& chunks) {
  const AdapterSet& adapters = options.weights.adapters;
  const GradientOptions& gradients = options.replicas.gradients;
  const double each = adapters.any() ? options.weights.element
                                     : state_bytes_per_parameter(gradients.optimizer.state).weights;
  WeightBytes bytes;
  for (const ChunkWeights& weights : chunks) {
    for (const WeightUnit& unit : weights.units) {
      for (const Tensor& tensor : unit.frozen)
        bytes.dense += frozen_element_bytes(adapters, unit, tensor, each) *
                       static_cast<double>(tensor.elements());
      for (const Tensor& tensor : unit.frozen_experts)
        bytes.experts += frozen_element_bytes(adapters, unit, tensor, each) *
                         static_cast<double>(tensor.elements());
    }
  }
  if (options.replicas.parallelism.zero_stage < 3) return bytes;
  return {.dense = bytes.dense / static_cast<double>(gradients.shards),
          .experts = bytes.experts / static_cast<double>(gradients.expert_shards)};
}

// Parameters of the largest matrix on a rank. Matrices that are stored in four bits are dequantised
// one at a time before their GEMM, so that the workspace has the size of the largest one.
std::int64_t largest_matrix(const WeightDivision& division) {
  const Architecture& a = division.architecture;
  std::int64_t largest = 0;
  for (const auto& [kind, layers] : layer_kinds(a)) {
    for (const Weight& weight : layer_weights(a, kind)) {
      const std::int64_t own = weight.copies / (weight.expert() ? division.expert : 1);
      const std::int64_t ranks = weight.expert() ? division.expert_tensor : division.tensor;
      largest = std::max(largest, own * split_parameters(weight, ranks));
    }
  }
  return largest;
}

// Bytes of the weights that are sharded and gathered. Weights that are whole on one rank do not
// count.
double sharded_weights(const GradientOptions& gradients, const WeightBytes& frozen,
                       const StageParameters& parameters) {
  const auto trained = [&](std::int64_t count, std::int64_t shards) {
    StateRecipe recipe = gradients.optimizer.state;
    recipe.shards = shards;
    return state_bytes(recipe, count).weights;
  };
  double bytes = 0.0;
  if (gradients.shards > 1) bytes += trained(parameters.total, gradients.shards) + frozen.dense;
  if (gradients.expert_shards > 1)
    bytes += trained(parameters.experts, gradients.expert_shards) + frozen.experts;
  return bytes;
}

// Bytes of weights in host memory: the weights of the layers, which are fetched whole for every
// use, or with ZeRO 3 all shards.
std::int64_t weights_on_host(const LoweringOptions& options,
                             const std::vector<ChunkWeights>& chunks, const WeightBytes& frozen,
                             const StageParameters& parameters) {
  if (!options.offload.settings.weights) return 0;
  if (!options.offload.fetches_weights)
    return static_cast<std::int64_t>(
        sharded_weights(options.replicas.gradients, frozen, parameters));
  std::int64_t bytes = 0;
  for (const ChunkWeights& weights : chunks)
    for (const WeightUnit& unit : weights.units)
      if (unit.is_layer()) bytes += unit_bytes(options.weights, weights, unit);
  return bytes;
}

// Number of parameters that a rank updates whose weights are in host memory.
std::int64_t updated_on_host(const LoweringOptions& options,
                             const std::vector<ChunkWeights>& chunks,
                             const StageParameters& parameters) {
  if (!options.offload.settings.weights) return 0;
  const GradientOptions& gradients = options.replicas.gradients;
  if (!options.offload.fetches_weights)
    return kept_parameters(gradients,
                           {.total = gradients.shards > 1 ? parameters.total : 0,
                            .experts = gradients.expert_shards > 1 ? parameters.experts : 0});
  std::int64_t count = 0;
  for (const ChunkWeights& weights : chunks)
    for (std::size_t unit = 0; unit < weights.units.size(); ++unit)
      if (weights.units[unit].is_layer()) count += weights.all_parameters(unit);
  return count;
}

}  // namespace

std::vector<ChunkWeights> stage_weights(const LoweringOptions& options, const StageLayout& layout) {
  std::vector<ChunkWeights> all;
  for (const StageChunk& chunk : layout.chunks()) {
    ChunkWeights weights = chunk_weights(options.weights, {.first_layer = chunk.first_layer,
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

StageParameters stage_parameters(const LoweringOptions& options, const StageLayout& layout,
                                 const std::vector<ChunkWeights>& weights) {
  StageParameters parameters;
  for (const ChunkWeights& chunk : weights) {
    parameters.total += chunk.parameters();
    parameters.experts += chunk.expert_parameters();
  }
  parameters.on_host = updated_on_host(options, weights, parameters);
  const TrainedWeights& trained = options.weights.trained;
  for (const StageChunk& chunk : layout.chunks()) {
    for (std::int64_t i = 0; i < chunk.layers + chunk.mtp_layers; ++i) {
      const std::int32_t layer = chunk.in_model(i);
      if (!trained.layer(layer)) continue;
      const LayerKind kind = layer_kind(options.layer.architecture, layer);
      count_kind(parameters.layers, kind);
      add_replicated(options, kind, parameters);
    }
    if (options.weights.adapters.any()) continue;
    parameters.replicated += replicated_in_ends(options, chunk);
    if (options.weights.shares_embedding && trained.embedding &&
        (chunk.has_embedding || chunk.has_head))
      parameters.shared_embedding = options.weights.ends.embedding;
  }
  return parameters;
}

void hold_framework(const LoweringOptions& options, std::span<const PlacedParts> layers,
                    ProgramBuilder& build) {
  build.memory().hold(Category::Framework, options.framework_bytes);
  const std::int64_t placeholders = layer_placeholders(options.memory, layers);
  if (placeholders > 0) build.memory().hold(Category::Workspace, placeholders);
}

void hold_stage_memory(const LoweringOptions& options, const std::vector<ChunkWeights>& weights,
                       const StageParameters& parameters, ProgramBuilder& build) {
  const WeightBytes frozen = frozen_weights(options, weights);
  build.memory().hold(Category::Weights, std::llround(frozen.dense + frozen.experts));
  const AdapterSet& adapters = options.weights.adapters;
  if (adapters.any() && adapters.dequantises)
    build.memory().hold(Category::Workspace,
                        largest_matrix(options.weights.division) * options.shape.element);
  const std::int64_t on_host = weights_on_host(options, weights, frozen, parameters);
  build.memory().hold(Category::Weights, -on_host);
  build.memory().hold(Category::Host, on_host);
  std::vector<PlacedParts> kinds;
  for (const auto& [kind, layers] : parameters.layers) kinds.push_back({.kind = kind});
  hold_framework(options, kinds, build);
}

}  // namespace trainyard
