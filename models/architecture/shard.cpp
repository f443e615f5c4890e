#include "models/architecture/shard.hpp"

#include <algorithm>

#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// From latents every query head gets keys and values of its own.
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

LayerShard layer_shard(const Architecture& architecture, std::int64_t tensor,
                       const LayerShardQuery& query) {
  LayerShard shard;
  shard.replicated = layer_vectors(architecture, query.kind);
  for (const Weight& weight : layer_weights(architecture, query.kind)) {
    if (weight.expert()) {
      TY_CHECK(weight.copies % query.expert == 0, weight.copies, query.expert);
      const std::int64_t bias =
          weight.bias && weight.split == Split::Row ? weight.outputs : std::int64_t{0};
      shard.experts +=
          weight.copies / query.expert * (split_parameters(weight, query.expert_tensor) + bias);
      continue;
    }
    shard.sharded += split_parameters(weight, tensor);
    if (weight.split == Split::None) shard.replicated += weight.parameters();
    if (weight.split == Split::Row && weight.bias) shard.replicated += weight.outputs;
  }
  return shard;
}

StageShard stage_shard(const Architecture& architecture, const StageShardQuery& query) {
  const Architecture& a = architecture;
  TY_CHECK(query.vocab % query.tensor == 0, query.vocab, query.tensor);
  const std::int64_t vocabulary_rows = query.vocab / query.tensor * a.hidden;
  StageShard stage;
  const auto add_layers = [&](std::int64_t layers, LayerKind kind) {
    if (layers == 0) return;
    const LayerShard layer =
        layer_shard(a, query.tensor,
                    {.kind = kind, .expert = query.expert, .expert_tensor = query.expert_tensor});
    stage.layers_sharded += layers * layer.sharded;
    stage.layers_replicated += layers * layer.replicated;
    stage.experts += layers * layer.experts;
  };
  add_layers(query.part.layers, LayerKind::Dense);
  add_layers(query.part.moe_layers, LayerKind::Moe);
  if (query.part.first) {
    stage.embedding = vocabulary_rows;
    stage.positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  }
  if (query.part.last) {
    stage.final_norm = a.norm_width();
    const bool shares_the_embedding = a.tied_embeddings && query.part.first;
    stage.head = shares_the_embedding ? 0 : vocabulary_rows;
  }
  return stage;
}

}  // namespace trainyard
