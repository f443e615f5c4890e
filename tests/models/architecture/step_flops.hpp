// FLOPs of one optimizer step, as the published formulas count them.
#pragma once

#include <cstdint>

#include "models/architecture/flops.hpp"

namespace trainyard {

// Model FLOPs of one optimizer step: forward and backward without recomputation, 3 times the
// forward. forward = sum over layers of 2*tokens*active weights + 2*tokens*s*(q + o)*chi, plus
// 2*tokens*h*V. o is the width of the values of all heads; it equals q except for latent attention.
// For the GPT shape this is Narayanan et al. 2104.04473 eq. 3 and Korthikanti et al. 2205.05198 eq.
// 7.
struct FlopsQuery {
  std::int64_t sequences = 0;  // global batch
  std::int64_t sequence_length = 0;
  std::int64_t vocab = 0;  // padded or not, as the source counts it
  AttentionCount attention = AttentionCount::Causal;
  std::int64_t mtp_layers = 0;  // number of MTP layers

  [[nodiscard]] double tokens() const { return static_cast<double>(sequences * sequence_length); }
  [[nodiscard]] TokenQuery token() const {
    return {.sequence_length = sequence_length,
            .vocab = vocab,
            .attention = attention,
            .mtp_layers = mtp_layers};
  }
};
[[nodiscard]] inline Flops model_flops(const Architecture& architecture, const FlopsQuery& query) {
  return Flops{query.tokens() * token_flops(architecture, query.token()).train()};
}

// FLOPs that recomputation in every layer adds to model_flops (repeated_flops). For a GPT, Full
// agrees with Narayanan et al. 2104.04473 eq. 3, 96BsLh^2(1 + s/(6h) + V/(16Lh)). For Selective,
// Korthikanti et al. 2205.05198 print 72BsLh^2(1 + s/(3h) + V/(12hL)), which adds the core's
// forward and backward; only its forward is executed and counted here.
[[nodiscard]] inline Flops recomputed_flops(const Architecture& architecture,
                                            const FlopsQuery& query, Recompute recompute,
                                            const RecomputeModules& modules = {}) {
  return Flops{query.tokens() *
               repeated_flops(architecture, query.token(), recompute, modules).forward()};
}

}  // namespace trainyard
