// FLOPs of one token, and of the part of them that recomputation repeats.
//
//    TokenFlops f = token_flops(load_architecture("llama3-8b"),
//                               {.sequence_length = 8192, .vocab = 128256});
//    f.forward();   // 1.715680e10
#pragma once

#include <cstdint>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

// Whether attention counts the full square of scores (Narayanan et al. 2021) or its causal half.
enum class AttentionCount : std::uint8_t { Full, Causal };

// Forward FLOPs of one token in one layer.
struct LayerFlops {
  // 2h(q + 2 kappa) + 2qh + 2{2,3}hf; of experts those that the token is routed to.
  double matrices = 0.0;
  // Attention: 2*s*(q + o)*chi, with chi = 1/2 causal, 1 full: scores and weighted sum. Within a
  // window of w <= s keys: 2*(q + o)*w(1 - (1 - chi)w/s).
  double attention = 0.0;
};

// Forward FLOPs of one token. A GEMM of m x k by k x n counts 2mkn. Norms, activations and the
// optimizer count nothing, as in every published MFU. Attention over s keys counts s of them for
// each query (the full square) or s/2 (its causal half). A window of w keys counts w, or w -
// w^2/2s, because the first w queries have fewer keys. A window of w = s is no window. MaxText
// counts windows in the same way (maxtext_utils.py, calculate_gemma4_tflops_training_per_device).
struct TokenFlops {
  std::vector<LayerFlops> layers;  // layers of the model, then MTP layers
  double head = 0.0;               // 2hV, once more for each MTP layer
  double projection = 0.0;         // of 2h to h before each MTP layer: 4h^2

  [[nodiscard]] double linear() const;
  [[nodiscard]] double attention() const;
  [[nodiscard]] double forward() const { return linear() + attention() + projection + head; }
  // Backward costs twice the forward: one GEMM for the input gradient, one for the weight gradient.
  [[nodiscard]] double train() const { return 3.0 * forward(); }
};

struct TokenQuery {
  std::int64_t sequence_length = 0;
  std::int64_t vocab = 0;
  AttentionCount attention = AttentionCount::Causal;
  std::int64_t mtp_layers = 0;  // number of MTP layers
};
[[nodiscard]] TokenFlops token_flops(const Architecture& architecture, const TokenQuery& query);
// The part of these FLOPs that recomputation repeats in each layer. Full: the whole layer.
// Selective: the recomputed modules, by default the attention core. None: nothing.
[[nodiscard]] TokenFlops repeated_flops(const Architecture& architecture, const TokenQuery& query,
                                        Recompute recompute, const RecomputeModules& modules = {});

}  // namespace trainyard
