// Settings of training that decide which activations of a layer are kept.
#pragma once

#include <cstdint>

namespace trainyard {

// None keeps every activation. Selective drops what some modules of a layer keep (RecomputeModules)
// and runs those modules again in the backward pass. Full keeps only the input of each layer.
enum class Recompute : std::uint8_t { None, Selective, Full };
// Which layers of Recompute::Full (models/recompute.hpp).
enum class RecomputeMethod : std::uint8_t { Uniform, Block, Every, Fraction, Layers };
// How the matrices of frozen layers are kept beside adapters (models/trained_weights.hpp).
enum class FrozenFormat : std::uint8_t { AsTrained, Nf4 };

// The modules that Selective runs again, as Megatron-LM's --recompute-modules names them
// (megatron/core/transformer/transformer_config.py):
struct RecomputeModules {
  bool core = true;                // core_attn: scores, softmax, its dropout; or the fused kernel
  bool norms = false;              // layernorm: the outputs of the two norms, 4sbh
  bool feed_forward = false;       // mlp: a dense layer's feed-forward part, from its input
  bool experts = false;            // moe: router, dispatch, experts and combine, from their input
  bool expert_activation = false;  // moe_act: the product that enters an expert's second matrix
  bool shared_experts = false;     // shared_experts: those that see every token
  bool latent_up = false;          // mla_up_proj: queries, keys and values, from their latents
  // PyTorch's checkpointing by operation (torchtitan's selective_ac_option "op"): the outputs of
  // every second product are kept (queries, values, gate, down), and of attention; all else is
  // computed again: norms, keys, the projection, up, the activation.
  bool second_products = false;
  bool operator==(const RecomputeModules&) const = default;
};

// The matrices of a layer that have adapters (models/trained_weights.hpp).
struct AdapterTargets {
  bool query = true;
  bool key = true;
  bool value = true;
  bool projection = true;
  bool gate = true;
  bool up = true;
  bool down = true;
  bool operator==(const AdapterTargets&) const = default;
};

// Flash computes attention in one kernel and keeps one number per row (the log-sum-exp).
// MemoryEfficient does the same with the CUTLASS kernels of xFormers and of PyTorch's
// EFFICIENT_ATTENTION, which are slower (models/framework_times.hpp). Unfused writes the s x s
// matrix of scores to memory.
enum class AttentionKind : std::uint8_t { Flash, MemoryEfficient, Unfused };

// Does one kernel scale, mask and normalise the scores of unfused attention? `matrices`: sequences
// times heads of a rank. Megatron-LM's takes four of them at a time (megatron/model/
// fused_softmax.py is_kernel_available, b * np % 4 == 0); other numbers are left to PyTorch's
// operators, in fp32. A sequence of 16 heads: one kernel on 1, 2 and 4 ranks, five on 8.
[[nodiscard]] constexpr bool softmax_fused(std::int64_t matrices) { return matrices % 4 == 0; }

}  // namespace trainyard
