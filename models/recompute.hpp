// The layers of a model chunk, and the modules of a layer, that the backward recomputes.
//
//    Training training{.recompute = Recompute::Full, .recompute_num_layers = 4};
//    recompute_units(training, {.layers = 10});   // {0, 4, true}, {4, 4, true}, {8, 2, true}
//
// Methods of Recompute::Full, with n = recompute_num_layers (Megatron-LM --recompute-method):
//
//    uniform   Groups of n layers with one checkpoint each; the whole group is recomputed before
//              its backward. n = 1 stores every layer's input; n = sqrt(layers) stores least
//              (Chen et al. 1604.06174: 2 sqrt(L) layers' worth).
//    block     The first n layers of every chunk are checkpointed one by one. The others store all
//              activations, and so do MTP layers (Megatron-LM's _checkpointed_forward there).
//    every     Every n-th layer is checkpointed; the others store all activations (torchtitan's
//              selective activation checkpointing by layer).
//    fraction  Like block, with this fraction of each chunk's layers, rounded down (InternEvo's
//              modeling_internlm.py: checkpoint_layer_num = int(num_layers * checkpoint)).
//    layers    The listed layers of the model are checkpointed one by one, on any stage.
//
// Methods other than block count MTP layers as the last layers of the last chunk.
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

// Words of the modules, as Megatron-LM names them.
inline constexpr Words<bool RecomputeModules::*, 8> kRecomputeModules{
    {{&RecomputeModules::core, "core_attn"},
     {&RecomputeModules::norms, "layernorm"},
     {&RecomputeModules::feed_forward, "mlp"},
     {&RecomputeModules::experts, "moe"},
     {&RecomputeModules::expert_activation, "moe_act"},
     {&RecomputeModules::shared_experts, "shared_experts"},
     {&RecomputeModules::latent_up, "mla_up_proj"},
     {&RecomputeModules::second_gemms, "every_second_gemm"}}};

// Consecutive layers of a chunk. If they are `recomputed`, they store the input of the first one
// and are recomputed together. Otherwise each of them stores the activations of its modules.
struct RecomputeUnit {
  std::int64_t first = 0;
  std::int64_t layers = 0;
  bool recomputed = false;
  bool operator==(const RecomputeUnit&) const = default;
};

// Consecutive layers of the model in one chunk.
struct LayerSpan {
  std::int64_t first = 0;  // index in the model of the first one
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;  // MTP layers after them
};

// All layers of a chunk, in order. Each MTP layer is a separate unit.
[[nodiscard]] std::vector<RecomputeUnit> recompute_units(const Training& training,
                                                         const LayerSpan& span);
// True for each layer that is recomputed as a whole: one entry for each layer of the model, then
// one for each MTP layer.
[[nodiscard]] std::vector<bool> recomputed_layers(const TrainingPlan& plan);
// True for each of them whose forward a backward repeats. Where layers are frozen, a backward
// repeats all layers of a unit if it reaches the last one.
[[nodiscard]] std::vector<bool> repeated_layers(const TrainingPlan& plan);

}  // namespace trainyard
