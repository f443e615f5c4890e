#include "models/architecture/shard.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

std::int64_t kv_heads_per_rank(const Architecture& architecture, std::int64_t tensor) {
  return std::max<std::int64_t>(1, architecture.kv_heads / tensor);
}

LayerShard layer_shard(const Architecture& architecture, std::int64_t tensor) {
  const Architecture& a = architecture;
  TY_CHECK(tensor > 0 && a.heads % tensor == 0 && a.ffn % tensor == 0, a.heads, a.ffn, tensor);
  const std::int64_t q = a.query_width() / tensor;
  const std::int64_t qkv = q + 2 * kv_heads_per_rank(a, tensor) * a.head_dim;
  const std::int64_t up = a.ffn_inputs() * a.ffn / tensor;
  const std::int64_t down = a.ffn / tensor;
  LayerShard shard;
  shard.sharded = a.hidden * (qkv + q + up + down);
  shard.replicated = 2 * a.norm_width();
  if (a.biases) {
    shard.sharded += qkv + up;         // of the column-parallel matrices
    shard.replicated += 2 * a.hidden;  // of the row-parallel ones, added after the reduction
  }
  return shard;
}

StageShard stage_shard(const Architecture& architecture, const StageShardQuery& query) {
  const Architecture& a = architecture;
  TY_CHECK(query.vocab % query.tensor == 0, query.vocab, query.tensor);
  const LayerShard layer = layer_shard(a, query.tensor);
  const std::int64_t vocabulary_rows = query.vocab / query.tensor * a.hidden;
  StageShard stage;
  stage.layers_sharded = query.part.layers * layer.sharded;
  stage.layers_replicated = query.part.layers * layer.replicated;
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
