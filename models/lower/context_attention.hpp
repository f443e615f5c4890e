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

#include <optional>

#include "models/context_shape.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class ContextAttention {
 public:
  // REQUIRES: fused attention and more than one context rank.
  ContextAttention(const Architecture& architecture, const AttentionOptions& options,
                   const StepShape& shape, ProgramBuilder& build);

  void forward();
  void backward();

  // Bytes of the keys and values of one ring step.
  [[nodiscard]] std::int64_t ring_step_bytes() const { return local() * kv_row_bytes(); }

 private:
  void ring_forward();
  void ring_backward();
  void pack_keys();
  void join_output(const AttentionBlock& block, bool first);
  void join_gradients(const AttentionBlock& block, OpIndex arrived, bool first);
  void gathered_forward();
  void gathered_backward();
  // Q, K and V trade heads for positions, and the output back; or their gradients, the other way.
  void trade(std::string_view name, std::int64_t row_bytes);
  void trade_inputs(bool backward);
  void trade_output(bool backward);
  void gather_keys(std::string_view part);
  OpIndex attend(std::string_view name, const AttentionBlock& block, bool backward);
  // Sends to the next rank (back: to the one before) and receives as much; the receive.
  OpIndex pass_on(std::string_view what, std::int64_t bytes, bool back);
  OpIndex context_collective(std::string_view name, CollectiveOp op, std::int64_t bytes);
  void memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                    std::int64_t launches = 1);

  [[nodiscard]] std::int64_t local() const { return cut_.local() * batch_; }  // rows of this rank
  // Of one position, on this rank once heads have been traded.
  [[nodiscard]] std::int64_t query_row_bytes() const { return query_heads_ * qk_ * element_; }
  bool of_ring_ = false;  // keys and values come round in blocks
  [[nodiscard]] std::int64_t output_row_bytes() const { return query_heads_ * v_ * element_; }
  [[nodiscard]] std::int64_t kv_row_bytes() const { return kv_heads_ * (qk_ + v_) * element_; }

  const ContextOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  SequenceCut cut_;  // over the ring
  std::int64_t batch_ = 1;
  std::int64_t query_heads_ = 1;
  std::int64_t kv_heads_ = 1;
  std::int64_t qk_ = 1;
  std::int64_t v_ = 1;
  std::int64_t element_ = 2;
};

// Key-value heads of one rank after a trade among `heads` ranks: each gets a share, or one that
// several have. REQUIRES: one of both numbers divides the other.
[[nodiscard]] std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads);

}  // namespace trainyard
