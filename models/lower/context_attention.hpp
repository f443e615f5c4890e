// The attention core where several ranks share a sequence: which keys and values travel, when, and
// what is computed meanwhile.
//
// Ring (Liu et al. 2310.01889): step i sends the keys and values at hand to the next rank while it
// attends to them; partial results are joined by their log-sum-exp. Backward they go round the
// other way together with their gradients, and end at their owner. Two buffers: what is attended
// to, and what arrives. Bytes of one step 2b(s/c)(kappa/t)w, forward (c-1) of them, backward
// 2(c-1): s = 32768, c = 4, kappa = 1024, 16 bits: 33 554 432, 100 663 296, 201 326 592.
// All-gather (Grattafiori et al. 2407.21783 section 3.3.2): keys and values are gathered, and again
// backward, where their gradients are reduced and scattered.
// All-to-all (Ulysses, Jacobs et al. 2309.14509): Q, K and V trade heads for positions, the output
// trades back: ((u-1)/u) b(s/u)(2q + 2kappa)/t w bytes sent each way; where u exceeds the key-value
// heads of a rank these are copied first. Hierarchical: that within `heads` ranks, a ring between.
#pragma once

#include <cstdint>

#include "models/context_shape.hpp"
#include "models/lower/layer_options.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

// A rank's part of a sequence, once heads have been traded.
struct SequencePart {
  SequenceCut cut;  // over the ring
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t qk = 1;  // of a head of queries and keys
  std::int64_t v = 1;   // of a head of values
  std::int64_t element = 2;
  bool of_ring = false;  // keys and values come round in blocks

  // Bytes of one position, and of the keys and values of one ring step.
  [[nodiscard]] std::int64_t query_row_bytes() const { return query_heads * qk * element; }
  [[nodiscard]] std::int64_t output_row_bytes() const { return query_heads * v * element; }
  [[nodiscard]] std::int64_t kv_row_bytes() const { return kv_heads * (qk + v) * element; }
  [[nodiscard]] std::int64_t step_bytes() const { return cut.local() * batch * kv_row_bytes(); }
};

// The core for a whole microbatch. REQUIRES: fused attention and more than one context rank.
class ContextAttention {
 public:
  ContextAttention(const Architecture& architecture, const AttentionOptions& options,
                   const StepShape& shape, ProgramBuilder& build);

  void forward() { write(Pass::Forward); }
  void backward() { write(Pass::Backward); }

 private:
  void write(Pass pass);

  const ContextOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  SequencePart part_;
};

// Key-value heads of one rank after a trade among `heads` ranks: each gets a share, or one that
// several have. REQUIRES: one of both numbers divides the other.
[[nodiscard]] std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads);

}  // namespace trainyard
