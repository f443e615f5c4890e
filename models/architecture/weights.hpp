// The weight matrices of one layer. Parameters, FLOPs, shards, gradients and stored GEMM inputs are
// all counted from this one list. Each kind of block lists its own matrices
// (models/layers/layer_block.hpp). The second part counts the parameters that one rank holds under
// tensor and expert parallelism.
//
//    const Architecture a = load_architecture("llama3-70b");
//    const std::vector<Weight> weights = layer_weights(a, layer_kind(a, 0));
//    matrix_flops(weights.front());   // 134 217 728 = 2 * 8192 * 8192: the queries of one token
//    layer_shard(a, layer_kind(a, 0), {.tensor = 8}).sharded;      // 106 954 752
//    layer_shard(a, layer_kind(a, 0), {.tensor = 8}).replicated;   // 16 384: the two norms
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"

namespace trainyard {

// How tensor parallelism divides a matrix (Shoeybi et al. 1909.08053 section 3): by its outputs
// (Column), by its inputs (Row), or not at all. Experts are divided among expert-parallel ranks
// first, and then over their own tensor group.
enum class Split : std::uint8_t { Column, Row, None };

enum class WeightPart : std::uint8_t { Attention, Router, FeedForward };

struct Weight {
  std::string_view name = {};  // "query", "key_value", "projection", "up", "down", "router" ...
  WeightPart part = WeightPart::FeedForward;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  Split split = Split::None;
  std::int64_t units = 1;   // number of equal parts of the divided dimension (heads, columns)
  bool bias = false;        // one number per output
  std::int64_t copies = 1;  // number of experts
  std::int64_t active = 1;  // of the copies, those that one token uses
  bool joined = false;      // one GEMM together with the matrix before it, which has the same input
  // Number of equal tensors along the outputs in which a framework stores it.
  std::int64_t parts = 1;
  // Trained numbers that belong to it: the gain of a norm, a router's bias.
  std::int64_t vector = 0;
  // Modules whose recomputation repeats the GEMM, and the share of the GEMM that is repeated where
  // the outputs of every second GEMM are stored.
  std::array<bool RecomputeModules::*, 2> modules = {};
  double second_gemm = 0.0;
  // The GEMM that computes this matrix on a rank ("qkv"), and the adapters that its parts may have.
  std::string_view gemm = {};
  std::array<bool AdapterTargets::*, 2> adapters = {};
  [[nodiscard]] bool expert() const { return copies > 1; }
  [[nodiscard]] std::int64_t parameters() const { return inputs * outputs + (bias ? outputs : 0); }
};

// The matrices in the order of the forward pass.
[[nodiscard]] std::vector<Weight> layer_weights(const Architecture& architecture, LayerKind kind);

// Number of gains and biases of the layer's norms (two in every layer, and those of latents and
// heads), and of the router's bias. Every tensor rank holds all of them.
[[nodiscard]] std::int64_t layer_vectors(const Architecture& architecture, LayerKind kind);
// Forward FLOPs of one token: 2 * inputs * outputs for each copy of the matrix that it uses.
[[nodiscard]] double matrix_flops(const Weight& weight);

// Parameters on one of `tensor` ranks, in whole units of the divided dimension. REQUIRES: tensor
// divides the units, if the matrix is divided.
[[nodiscard]] std::int64_t split_parameters(const Weight& weight, std::int64_t tensor);

// ---- shards

// Parameters of one layer on one of t tensor ranks. Column- and row-parallel matrices and column
// biases are divided. Norms, row biases, routers and the down-projections of latent attention are
// on every rank. Experts are divided over e expert-parallel ranks, and each over its own tensor
// group.
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

// Number of key-value heads that one tensor rank attends with: kv_heads/t, and one where t exceeds
// kv_heads. In that case several ranks attend with the same head. The columns of the QKV matrix
// stay divided among all t ranks, so each head is split; the outputs are gathered over the tensor
// group, and every rank takes its queries and its head from them. Backward, their gradients are
// reduced and scattered in the same way (Megatron-LM core/transformer/attention.py,
// get_query_key_value_tensors).
[[nodiscard]] std::int64_t kv_heads_per_rank(const Architecture& architecture, std::int64_t tensor);
// Width of the keys (or of the values) of these heads: kv_heads_per_rank * head_dim.
[[nodiscard]] std::int64_t kv_width_per_rank(const Architecture& architecture, std::int64_t tensor);
// Width of keys and values together in the attention of one rank.
[[nodiscard]] std::int64_t key_value_width_per_rank(const Architecture& architecture,
                                                    std::int64_t tensor);
// True if several tensor ranks attend with the same key-value head.
[[nodiscard]] bool replicates_kv_heads(const Architecture& architecture, std::int64_t tensor);

// REQUIRES: t divides heads, ffn and the columns of keys and values, one of kv_heads and t divides
// the other, e divides the experts.
[[nodiscard]] LayerShard layer_shard(const Architecture& architecture, LayerKind kind,
                                     const LayerShardQuery& query = {});

}  // namespace trainyard
