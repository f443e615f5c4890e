// The layers of a model chunk, and the modules of a layer, that the backward pass computes again.
//
//   Training training{.recompute = Recompute::Full, .recompute_num_layers = 4};
//   recompute_units(training, {.layers = 10});   // {0, 4, true}, {4, 4, true}, {8, 2, true}
//
// Methods of Recompute::Full, by n = recompute_num_layers (Megatron-LM --recompute-method):
//   uniform   groups of n layers with one checkpoint each; the whole group is computed again before
//             its backward. n = 1 keeps every layer's input; n = sqrt(layers) keeps least
//             (Chen et al. 1604.06174: 2 sqrt(L) layers' worth).
//   block     the first n layers of every chunk are checkpointed one by one, the others keep all,
//             and so do those of multi-token prediction (Megatron-LM's _checkpointed_forward
//             there).
//   every     every n-th layer is checkpointed, the others keep all (torchtitan's selective
//             activation checkpointing by layer).
//   fraction  as block, with this fraction of each chunk's layers, rounded down (InternEvo's
//             modeling_internlm.py: checkpoint_layer_num = int(num_layers * checkpoint)).
//   layers    the listed layers of the model are checkpointed one by one, on whichever stage.
// Other methods count layers of multi-token prediction behind those of the last chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

inline constexpr Words<RecomputeMethod, 5> kRecomputeMethods{
    {{RecomputeMethod::Uniform, "uniform"},
     {RecomputeMethod::Block, "block"},
     {RecomputeMethod::Every, "every"},
     {RecomputeMethod::Fraction, "fraction"},
     {RecomputeMethod::Layers, "layers"}}};

// In Megatron-LM's words.
inline constexpr Words<bool RecomputeModules::*, 8> kRecomputeModules{
    {{&RecomputeModules::core, "core_attn"},
     {&RecomputeModules::norms, "layernorm"},
     {&RecomputeModules::feed_forward, "mlp"},
     {&RecomputeModules::experts, "moe"},
     {&RecomputeModules::expert_activation, "moe_act"},
     {&RecomputeModules::shared_experts, "shared_experts"},
     {&RecomputeModules::latent_up, "mla_up_proj"},
     {&RecomputeModules::second_gemms, "second_products"}}};

// Consecutive layers of a chunk. Where they are `recomputed`, they keep the
// first one's input and run again together; else each keeps what its modules keep.
struct RecomputeUnit {
  std::int64_t first = 0;
  std::int64_t layers = 0;
  bool recomputed = false;
  bool operator==(const RecomputeUnit&) const = default;
};

// Layers of a chunk of the model.
struct LayerSpan {
  std::int64_t first = 0;  // the number of the first one in the model
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;  // of multi-token prediction, behind them
};

// All layers of a chunk, in order; those of multi-token prediction are units of their own.
[[nodiscard]] std::vector<RecomputeUnit> recompute_units(const Training& training,
                                                         const LayerSpan& span);
// Is a layer computed again as a whole? One entry for each layer of the model, then for each of
// multi-token prediction.
[[nodiscard]] std::vector<bool> recomputed_layers(const TrainingPlan& plan);

}  // namespace trainyard
