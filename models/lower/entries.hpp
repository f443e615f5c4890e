// The parameters of a layer as its gradients become final: the one list that buckets are cut from
// and that the lowering of a backward follows.
//
//   layer_entries(weights.division, LayerKind::Dense);   // down, up, norm, projection, qkv, norm
#pragma once

#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/layer_parts.hpp"

namespace trainyard {

// Of one tensor rank, in backward order; gradients that are reduced over the replicas of the model.
// A model with biases has one tensor for queries, keys and values, as GPT-2; others have three, and
// a gated one two for gate and up, as Llama.
[[nodiscard]] std::vector<GradientEntry> layer_entries(const WeightDivision& weights,
                                                       LayerKind kind,
                                                       const LayerParts& parts = {});
// Of the rank's experts, reduced over their own replicas: down, up. Empty for a dense layer.
[[nodiscard]] std::vector<GradientEntry> expert_entries(const WeightDivision& weights,
                                                        LayerKind kind);

// Gain, and for LayerNorm shift; of a module the one listed last is ready first.
[[nodiscard]] GradientEntry norm_entry(const Architecture& architecture);

}  // namespace trainyard
