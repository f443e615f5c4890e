#include "models/architecture/weights.hpp"

#include <algorithm>

#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

std::vector<Weight> layer_weights(const Architecture& a, LayerKind kind) {
  std::vector<Weight> weights = block_of(kind, LayerHalf::Attention).weights(a);
  for (Weight& weight : weights) weight.part = WeightPart::Attention;
  const std::vector<Weight> more = block_of(kind, LayerHalf::FeedForward).weights(a);
  weights.insert(weights.end(), more.begin(), more.end());
  return weights;
}

double matrix_flops(const Weight& weight) {
  return 2.0 * static_cast<double>(weight.active) * static_cast<double>(weight.inputs) *
         static_cast<double>(weight.outputs);
}

std::int64_t layer_vectors(const Architecture& a, LayerKind kind) {
  std::int64_t numbers = a.norms() * a.norm_width();
  for (const Weight& weight : layer_weights(a, kind)) numbers += weight.vector;
  return numbers;
}

std::int64_t split_parameters(const Weight& weight, std::int64_t tensor) {
  TY_CHECK(tensor > 0 && (weight.split == Split::None || weight.units % tensor == 0), tensor,
           weight.units, weight.name);
  const std::int64_t units = weight.units / tensor;
  switch (weight.split) {
    case Split::Column: {
      const std::int64_t outputs = weight.outputs / weight.units * units;
      return weight.inputs * outputs + (weight.bias ? outputs : 0);
    }
    case Split::Row:  // each rank adds the bias once, after the all_reduce
      return weight.inputs / weight.units * units * weight.outputs;
    case Split::None:
      return 0;
  }
  return 0;
}

// ---- shards

namespace {

// In latent attention every query head has separate keys and values.
std::int64_t key_heads(const Architecture& a) { return a.latent() ? a.heads : a.kv_heads; }

}  // namespace

std::int64_t kv_heads_per_rank(const Architecture& architecture, std::int64_t tensor) {
  return std::max<std::int64_t>(1, key_heads(architecture) / tensor);
}

std::int64_t key_value_width_per_rank(const Architecture& architecture, std::int64_t tensor) {
  const std::int64_t value =
      architecture.latent() ? architecture.value_head() : architecture.head_dim;
  return kv_heads_per_rank(architecture, tensor) * (architecture.head_dim + value);
}

std::int64_t kv_width_per_rank(const Architecture& architecture, std::int64_t tensor) {
  return kv_heads_per_rank(architecture, tensor) * architecture.head_dim;
}

bool replicates_kv_heads(const Architecture& architecture, std::int64_t tensor) {
  return tensor > key_heads(architecture);
}

LayerShard layer_shard(const Architecture& architecture, LayerKind kind,
                       const LayerShardQuery& query) {
  LayerShard shard;
  shard.replicated = layer_vectors(architecture, kind);
  for (const Weight& weight : layer_weights(architecture, kind)) {
    if (weight.expert()) {
      TY_CHECK(weight.copies % query.expert == 0, weight.copies, query.expert);
      const std::int64_t bias =
          weight.bias && weight.split == Split::Row ? weight.outputs : std::int64_t{0};
      shard.experts +=
          weight.copies / query.expert * (split_parameters(weight, query.expert_tensor) + bias);
      continue;
    }
    shard.sharded += split_parameters(weight, query.tensor);
    if (weight.split == Split::None) shard.replicated += weight.parameters();
    if (weight.split == Split::Row && weight.bias) shard.replicated += weight.outputs;
  }
  return shard;
}

}  // namespace trainyard
