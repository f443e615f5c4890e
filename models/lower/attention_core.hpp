// The core of an attention block: fused (flash), as the separate products and softmax of older
// stacks, or among several ranks that share a sequence.
#pragma once

#include <cstdint>

#include "models/lower/layer_tools.hpp"

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

// Key-value heads of one rank after a trade among `heads` ranks: each gets a share, or one that
// several have. REQUIRES: one of both numbers divides the other.
[[nodiscard]] std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads);

}  // namespace trainyard
