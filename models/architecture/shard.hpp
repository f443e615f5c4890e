// How many parameters one rank holds under tensor and pipeline parallelism.
//
//   Architecture a = load_architecture("llama3-70b");
//   layer_shard(a, 8).sharded;      // 106 954 752
//   layer_shard(a, 8).replicated;   // 16 384: the two norms
#pragma once

#include <cstdint>

#include "models/architecture/architecture.hpp"

namespace trainyard {

// One layer on one of t tensor ranks. Column- and row-parallel matrices and column biases are
// divided; norms, row biases, routers and the down-projections of latent attention stand on every
// rank. Experts are divided over e expert-parallel ranks, and each over their own tensor group.
struct LayerShard {
  std::int64_t sharded = 0;
  std::int64_t replicated = 0;
  std::int64_t experts = 0;
  [[nodiscard]] std::int64_t total() const { return sharded + replicated + experts; }
};

struct LayerShardQuery {
  LayerKind kind = LayerKind::Dense;
  std::int64_t expert = 1;         // e
  std::int64_t expert_tensor = 1;  // tensor ranks of one expert
};

// Key-value heads that one tensor rank attends with: kv_heads/t, and one where t exceeds kv_heads.
// Several ranks then have the same head: the columns of the QKV matrix stay divided among all t
// ranks, each head is cut, and what the product makes of them is gathered over the tensor group,
// from which every rank takes its queries and its head. Backward their gradients are reduced and
// scattered likewise (Megatron-LM core/transformer/attention.py, get_query_key_value_tensors).
[[nodiscard]] std::int64_t kv_heads_per_rank(const Architecture& architecture, std::int64_t tensor);
// Their width, of keys or of values: kv_heads_per_rank * head_dim.
[[nodiscard]] std::int64_t kv_width_per_rank(const Architecture& architecture, std::int64_t tensor);
// Width of keys and values together, as a rank's attention works on them.
[[nodiscard]] std::int64_t key_value_width_per_rank(const Architecture& architecture,
                                                    std::int64_t tensor);
// Whether several tensor ranks have the same key-value head.
[[nodiscard]] bool replicates_kv_heads(const Architecture& architecture, std::int64_t tensor);

// REQUIRES: t divides heads, ffn and the columns of keys and values, one of kv_heads and t divides
// the other, e divides the experts.
[[nodiscard]] LayerShard layer_shard(const Architecture& architecture, std::int64_t tensor,
                                     const LayerShardQuery& query = {});

// Which part of the model a pipeline rank holds.
struct StagePart {
  std::int64_t layers = 0;      // dense ones
  bool first = false;           // holds the embedding and learned positions
  bool last = false;            // holds the final norm and the head
  std::int64_t moe_layers = 0;  // those with experts
};

// Parameters of one rank of a stage, by what they are.
struct StageShard {
  std::int64_t layers_sharded = 0;
  std::int64_t layers_replicated = 0;
  std::int64_t experts = 0;    // reduced over the replicas of the experts alone
  std::int64_t embedding = 0;  // V*h/t
  std::int64_t positions = 0;  // not divided by t
  std::int64_t final_norm = 0;
  std::int64_t head =
      0;  // V*h/t; when tied, a copy on the last stage, none when it is the first too
  [[nodiscard]] std::int64_t total() const {
    return layers_sharded + layers_replicated + experts + embedding + positions + final_norm + head;
  }
  // Held alike by every tensor rank; with sequence parallelism their gradients are reduced over
  // them.
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
[[nodiscard]] StageShard stage_shard(const Architecture& architecture,
                                     const StageShardQuery& query);

}  // namespace trainyard
