// The feed-forward part of a layer with experts, of one rank: router, dispatch, grouped products,
// combine, and the experts that every token sees.
//
// Operations after reference 04 section 6 and Megatron-LM core/transformer/moe. A token's K rows
// are put in the order of their experts (permute), travel to the ranks of those (dispatch), go
// through two grouped products, travel back (combine) and are added up (unpermute). Backward
// mirrors this: the gradient of the combine travels like a dispatch and that of the dispatch like a
// combine, so that a layer and microbatch has four exchanges.
//
// Tensor ranks that all hold the same T tokens (no sequence parallelism) drop the duplicates, as
// DeepSpeed-MoE does (Singh et al. 2303.06318 section 5.1; drop_tokens and gather_tokens of
// deepspeed/moe/mappings.py): all route all tokens, each sends the rows of its own T/t of them, and
// the outputs are gathered over the tensor group, T h w bytes; backward the gradients of the
// inputs, with those of the probabilities T (h w + 4K). T = 4096, h = 4096, K = 2 in bf16: 33 554
// 432 and 33 587 200 (tests/models/lower/duplicate_tokens_test.cpp).
// Biases of experts and cut-off activations (GPT-OSS) are kernels of their own, as in Megatron-LM
// core/transformer/moe/experts.py (TEGroupedMLP._apply_bias) and core/fusions/fused_bias_geglu.py
// (weighted_bias_quick_geglu_impl), with e bytes a number and fp32 probabilities:
// - a bias of the down product, scaled by each row's probability: product in fp32 (4), sum (e + 8),
//   joined over the experts (8), cast (4 + e) = 2e + 24 bytes a number; backward two casts
//   (2e + 8), the bias' gradient (12), the probability's (12), the rows' put together (2e) = 4e +
//   32. The up product adds its own.
// - gate and up: cut off (2e) and joined (2e); backward a comparison and a choice for the gate
//   (3e + 2), two comparisons, their conjunction and a choice for up (4e + 6), both joined (2e).
// R = 65 536 rows of h = f = 2880 in bf16: 5 284 823 040 bytes forward and 7 549 747 200 backward
// for the biases, 3 019 898 880 and 5 662 310 400 for the cutting
// (tests/models/lower/expert_biases_test.cpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/expert_routing.hpp"
#include "models/lower/layer_block.hpp"

namespace trainyard {

// Bytes of one row on its way to an expert: its numbers, for fp8 a scale of 4 bytes for each 128 of
// them, and the router's probability (4). h = 7168: 14 340 in bf16, 7 396 in fp8.
struct RowBytes {
  std::int64_t payload = 0;
  std::int64_t scales = 0;
  std::int64_t probability = 0;
  [[nodiscard]] std::int64_t total() const { return payload + scales + probability; }
};
[[nodiscard]] RowBytes dispatch_row_bytes(std::int64_t hidden, DataType precision);

class MoeLowering : BlockWriter {
 public:
  // REQUIRES: the shape's routing is set; the builder's tags say which layer and microbatch it is.
  explicit MoeLowering(LayerTools& tools);

  void forward();  // from the norm's output to what is added to the residual
  // Dense gradients (shared experts, router, norm) and those of the experts, marked as such.
  std::vector<ReadyGradient> backward(BackwardPart part);

 private:
  enum class Way : std::uint8_t { ToExperts, ToTokens };
  // The exchange of rows over the group of the experts; kNone where one rank has them all.
  OpIndex travel(std::string_view name, Way way, DataType precision);
  [[nodiscard]] Call exchange(Way way, DataType precision) const;
  // Rows of all ranks that share the experts' products, or the sum of their results.
  void join_expert_tensor(std::string_view name, CollectiveOp op);
  // The tokens of the other tensor ranks, so many bytes of each, where every rank holds all.
  void gather_tokens(std::string_view name, std::int64_t bytes_each);
  void sort_rows(std::string_view name);
  void cast_rows(std::string_view name);
  void quantise_rows(std::string_view name, std::int64_t width);
  void route();
  [[nodiscard]] Gemm router_product(std::int64_t m, std::int64_t n, std::int64_t k,
                                    GemmPass pass) const;
  void activate_experts();
  void activate_experts_backward();
  // Biases of the down products, where they are kernels of their own.
  void add_expert_biases();
  void add_expert_biases_backward();
  [[nodiscard]] bool fused() const {
    return options_.experts.settings.products == ExpertProducts::Fused;
  }
  void elementwise(std::string_view name, std::int64_t bytes, std::int64_t launches);
  void permute(std::string_view name);
  void shared_forward();
  void shared_backward(BackwardPart part);
  void experts_forward();
  void experts_backward(BackwardPart part);
  OpIndex grouped(std::string_view name, std::int64_t n, std::int64_t k, GemmPass pass);
  std::vector<ReadyGradient> weight_backward();
  [[nodiscard]] std::vector<ReadyGradient> final_gradients() const;

  RoutingQuery query_;       // this layer and microbatch at this place
  ExpertRows rows_;          // of them
  std::int64_t tokens_ = 0;  // whose rows this rank sends
  std::int64_t inner_ = 0;   // of one expert on this rank
  std::int64_t shared_ = 0;  // of the shared experts on this rank
  // Where the weight gradients of this backward are final.
  OpIndex down_ = kNone;
  OpIndex up_ = kNone;
  OpIndex shared_down_ = kNone;
  OpIndex shared_up_ = kNone;
  OpIndex router_ = kNone;
};

}  // namespace trainyard
