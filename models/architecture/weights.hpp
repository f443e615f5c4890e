// The weight matrices of one layer: the one list that parameters, FLOPs, shards, gradients and the
// inputs that products keep are counted from. Each kind of block lists its own matrices
// (models/layers/layer_block.hpp). Below it stands how many parameters one rank holds under tensor
// and pipeline parallelism.
//
//   for (const Weight& weight : layer_weights(a, layer_kind(a, 0)))
//     flops_per_token += matrix_flops(weight);
//   layer_shard(a, layer_kind(a, 0), {.tensor = 8}).sharded;      // Llama-3 70B: 106 954 752
//   layer_shard(a, layer_kind(a, 0), {.tensor = 8}).replicated;   // 16 384: the two norms
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"

namespace trainyard {

// How tensor parallelism divides a matrix (Shoeybi et al. 1909.08053 section 3): its outputs
// (Column), its inputs (Row), or not at all. Experts are divided among expert-parallel ranks first,
// and then over their own tensor group.
enum class Split : std::uint8_t { Column, Row, None };

enum class WeightPart : std::uint8_t { Attention, Router, FeedForward };

struct Weight {
  std::string_view name = {};  // "query", "key_value", "projection", "up", "down", "router" ...
  WeightPart part = WeightPart::FeedForward;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  Split split = Split::None;
  std::int64_t units = 1;  // the divided side falls apart into so many equal parts (heads, columns)
  bool bias = false;       // one number an output
  std::int64_t copies = 1;  // experts
  std::int64_t active = 1;  // of them, those that one token meets
  bool joined = false;      // one product with the matrix before it, of the same input
  std::int64_t parts = 1;   // equal tensors along the outputs that a framework keeps it as
  std::int64_t vector = 0;  // numbers trained beside it: the gain of a norm, a router's bias
  // Modules whose recomputation runs the product again, and how much of it runs again where the
  // outputs of every second product are kept.
  std::array<bool RecomputeModules::*, 2> modules = {};
  double second_gemm = 0.0;
  // The GEMM that a rank multiplies it in ("qkv"), and the adapters that may stand on its parts.
  std::string_view gemm = {};
  std::array<bool AdapterTargets::*, 2> adapters = {};
  [[nodiscard]] bool expert() const { return copies > 1; }
  [[nodiscard]] std::int64_t parameters() const { return inputs * outputs + (bias ? outputs : 0); }
};

// In the order of the forward pass.
[[nodiscard]] std::vector<Weight> layer_weights(const Architecture& architecture, LayerKind kind);

// Gains and shifts of the layer's norms: the two of every layer, those of latents, of heads, and
// the router's bias. No tensor rank has less than all of them.
[[nodiscard]] std::int64_t layer_vectors(const Architecture& architecture, LayerKind kind);
// Forward FLOPs of one token: 2 * inputs * outputs for each copy of the matrix that it meets.
[[nodiscard]] double matrix_flops(const Weight& weight);

// Parameters on one of `tensor` ranks, in whole units of the divided side. REQUIRES: tensor divides
// the units, if the matrix is divided.
[[nodiscard]] std::int64_t split_parameters(const Weight& weight, std::int64_t tensor);

// ---- shards

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
  std::int64_t tensor = 1;         // t
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
[[nodiscard]] LayerShard layer_shard(const Architecture& architecture, LayerKind kind,
                                     const LayerShardQuery& query = {});

}  // namespace trainyard
