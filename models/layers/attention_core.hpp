// The core of an attention block: fused (flash), as the separate products and softmax of older
// stacks, or among several ranks that share a sequence.
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
  // Sequences times heads of this rank: matrices of scores.
  [[nodiscard]] std::int64_t score_matrices() const;
  [[nodiscard]] MemoryBound softmax(bool backward) const;
  [[nodiscard]] Gemm head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
};

// ---- what follows from the shape of heads alone, for every kind of attention with such a core

// The matrix behind the heads, which is divided among them.
[[nodiscard]] Weight projection_weight(const Architecture& architecture);
// 2*s*(q + o) FLOPs a token of the full square, its causal half, or what a window leaves of it.
[[nodiscard]] double core_flops(const Architecture& architecture, std::int64_t layer,
                                const TokenQuery& query);
// Bytes that one rank keeps: of the core itself, and of the heads, which are queries, the core's
// output, and keys and values of `kv_width` columns over all tensor ranks.
[[nodiscard]] std::int64_t core_bytes(const Architecture& architecture,
                                      const ActivationQuery& query);
[[nodiscard]] std::int64_t head_bytes(const Architecture& architecture,
                                      const ActivationQuery& query, std::int64_t kv_width);
// Gradients of outputs, queries, keys and values, and of all heads before they are reduced and
// scattered.
[[nodiscard]] std::int64_t head_gradients(const BlockBackward& backward);

// Key-value heads of one rank after a trade among `heads` ranks: each gets a share, or one that
// several have. REQUIRES: one of both numbers divides the other.
[[nodiscard]] std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads);

}  // namespace trainyard
