// The parameters of one rank of a pipeline stage, and the number of a stage's activations that it
// keeps at the same time. Tests compare with these values, which are counted from the shape alone.
//
//    stage_shard(gpt, {.part = {.layers = 6, .first = true}, .tensor = 8, .vocab = 51'200})
//        .total();
#pragma once

#include <cstdint>

#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {

// The part of the model on a pipeline rank.
struct StagePart {
  std::int64_t layers = 0;      // dense layers
  bool first = false;           // holds the embedding and learned positions
  bool last = false;            // holds the final norm and the head
  std::int64_t moe_layers = 0;  // layers with experts
};

// Parameters of one rank of a stage, by kind.
struct StageShard {
  std::int64_t layers_sharded = 0;
  std::int64_t layers_replicated = 0;
  std::int64_t experts = 0;    // reduced only over the replicas of the experts
  std::int64_t embedding = 0;  // V*h/t
  std::int64_t positions = 0;  // not divided by t
  std::int64_t final_norm = 0;
  // V*h/t; if tied, a copy on the last stage, and none if it is the first stage too
  std::int64_t head = 0;
  [[nodiscard]] std::int64_t total() const {
    return layers_sharded + layers_replicated + experts + embedding + positions + final_norm + head;
  }
  // Parameters that every tensor rank holds. With sequence parallelism their gradients are reduced
  // over these ranks.
  [[nodiscard]] std::int64_t replicated() const {
    return layers_replicated + positions + final_norm;
  }
};

struct StageShardQuery {
  StagePart part;
  std::int64_t tensor = 1;
  std::int64_t vocab = 0;  // padded
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
};

inline StageShard stage_shard(const Architecture& architecture, const StageShardQuery& query) {
  const Architecture& a = architecture;
  TY_CHECK(query.vocab % query.tensor == 0, query.vocab, query.tensor);
  const std::int64_t vocabulary_rows = query.vocab / query.tensor * a.hidden;
  StageShard stage;
  const auto add_layers = [&](std::int64_t layers, LayerKind kind) {
    if (layers == 0) return;
    const LayerShard layer = layer_shard(
        a, kind,
        {.tensor = query.tensor, .expert = query.expert, .expert_tensor = query.expert_tensor});
    stage.layers_sharded += layers * layer.sharded;
    stage.layers_replicated += layers * layer.replicated;
    stage.experts += layers * layer.experts;
  };
  add_layers(query.part.layers, dense_layer(a));
  add_layers(query.part.moe_layers, moe_layer(a));
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

// The microbatches of the first stage's whole layers that 1F1B with v chunks keeps, divided by p:
// p(1 + (p-1)/(pv)) chunks, rounded as in the schedule (schedule.hpp counts exactly). v = 1 gives
// 1; p = 8, v = 3 gives 1.2917 (Korthikanti et al. 2205.05198 section 4.2.3).
inline double first_stage_factor(std::int64_t pipeline, std::int64_t chunks) {
  if (chunks == 1) return 1.0;
  return 1.0 + static_cast<double>(pipeline - 1) / static_cast<double>(pipeline * chunks);
}

}  // namespace trainyard
