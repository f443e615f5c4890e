// The products of a rank's experts and what stands between them: grouped products over the rows
// that have arrived (reference 04 section 6; Megatron-LM core/transformer/moe).
//
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

#include "models/lower/expert_exchange.hpp"

namespace trainyard {

// Where the weight gradients of two products are final; kNone where they are not.
struct ExpertGradients {
  OpIndex down = kNone;
  OpIndex up = kNone;
};

class GroupedExperts : BlockWriter {
 public:
  // `exchange` outlives this.
  GroupedExperts(LayerTools& tools, ExpertExchange& exchange)
      : BlockWriter(tools),
        exchange_(exchange),
        settings_(options_.experts.settings),
        inner_(arch_.expert_ffn / options_.experts.tensor) {}

  // From the rows that have arrived to those that leave, or from the gradients of the latter.
  void forward();
  ExpertGradients backward(BackwardPart part);
  ExpertGradients weight_backward();

 private:
  [[nodiscard]] const ExpertRows& rows() const { return exchange_.rows(); }
  [[nodiscard]] bool fused() const { return settings_.products == ExpertProducts::Fused; }
  OpIndex grouped(std::string_view name, std::int64_t n, std::int64_t k, GemmPass pass);
  void quantise_rows(std::string_view name, std::int64_t width);
  void activate();
  void activate_backward();
  // Biases of the down products, where they are kernels of their own.
  void add_biases();
  void add_biases_backward();
  void kernel(std::string_view name, std::int64_t bytes, std::int64_t launches);

  ExpertExchange& exchange_;
  const ExpertSettings& settings_;
  const std::int64_t inner_;  // of one expert on this rank
};

}  // namespace trainyard
