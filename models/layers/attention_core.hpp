// The core of an attention block: fused (flash), as the separate GEMMs and softmax of older
// software, or distributed over several ranks that share a sequence.
#pragma once

#include <cstdint>

#include "models/layers/layer_block.hpp"
#include "models/layers/layer_tools.hpp"

namespace trainyard {

class AttentionCore : BlockWriter {
 public:
  explicit AttentionCore(LayerTools& tools) : BlockWriter(tools) {}

  void forward();
  void backward();

 private:
  [[nodiscard]] Attention flash(bool backward) const;
  // Sequences times heads of this rank, which is the number of score matrices.
  [[nodiscard]] std::int64_t score_matrices() const;
  [[nodiscard]] MemoryBound softmax(bool backward) const;
  [[nodiscard]] Gemm head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
};

// ---- formulas of the heads, for every kind of attention with such a core

// The projection matrix after the heads, which is divided among them.
[[nodiscard]] Weight projection_weight(const Architecture& architecture);
// FLOPs of one token: 2*s*(q + o) for the full square, its causal half, or the part inside a
// window.
[[nodiscard]] double core_flops(const Architecture& architecture, std::int64_t layer,
                                const TokenQuery& query);
// Bytes that one rank stores. core_bytes: for the core itself. head_bytes: for the heads, which are
// queries, the core's output, and keys and values of `kv_width` columns over all tensor ranks.
[[nodiscard]] std::int64_t core_bytes(const Architecture& architecture,
                                      const ActivationQuery& query);
[[nodiscard]] std::int64_t head_bytes(const Architecture& architecture,
                                      const ActivationQuery& query, std::int64_t kv_width);
// The part of head_bytes that only the projection reads: its input, unless it shares one tensor
// with the core's backward.
[[nodiscard]] std::int64_t projection_input_bytes(const Architecture& architecture,
                                                  const ActivationQuery& query);
// Width of the keys and values that one rank stores, per position of its own part of the sequence.
// Where fewer heads than ranks are traded, each rank has a copy of one head at all positions.
[[nodiscard]] std::int64_t stored_key_value_width(const Architecture& architecture,
                                                  const ActivationQuery& query);
// Elements in the gradients of outputs, queries, keys and values, and in those of all heads before
// they are reduced and scattered.
[[nodiscard]] std::int64_t head_gradients(const BlockBackward& backward);

// Key-value heads of one rank after a trade among `heads` ranks: each gets an equal share, or one
// head that several ranks have. REQUIRES: one of the two numbers divides the other.
[[nodiscard]] std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads);

}  // namespace trainyard
