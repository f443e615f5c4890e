// Training settings that decide how many bytes a rank holds: which activations of a layer are
// stored from its forward to its backward, and how wide each parameter is. A recipe gives the
// widths of weights and gradients, an optimizer those of its own state. Recipes and optimizers are
// data (models/recipes, models/optimizers), with their sources; data_names("models/recipes") lists
// them.
//
//    state_bytes_per_parameter({.optimizer = load_optimizer("adam_8bit")}).total();   // 12
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/kernel.hpp"

namespace trainyard {

// None stores every activation. Selective drops the activations of some modules of a layer
// (RecomputeModules) and runs those modules a second time in the backward. Full stores only the
// input of each layer.
enum class Recompute : std::uint8_t { None, Selective, Full };
// The layers that Recompute::Full applies to (models/recompute.hpp).
enum class RecomputeMethod : std::uint8_t { Uniform, Block, Every, Fraction, Layers };
// Storage of the matrices of frozen layers that have adapters (models/trained_weights.hpp).
enum class FrozenFormat : std::uint8_t { AsTrained, Nf4 };

// Where the scale of a tensor of 8 bits comes from. Delayed: from the maxima of earlier
// microbatches, so the tensor is read once. Current: from its own maximum, which a kernel finds
// before another one quantises (Transformer Engine's Float8CurrentScaling, Megatron-LM's
// --fp8-recipe tensorwise).
enum class Fp8Scaling : std::uint8_t { Delayed, Current };

// The modules that Selective recomputes, with the names of Megatron-LM's --recompute-modules
// (megatron/core/transformer/transformer_config.py).
struct RecomputeModules {
  bool core = true;                // core_attn: scores, softmax, its dropout; or the fused kernel
  bool norms = false;              // layernorm: the outputs of the two norms, 4sbh
  bool feed_forward = false;       // mlp: the feed-forward part of a dense layer, from its input
  bool experts = false;            // moe: router, dispatch, experts and combine, from their input
  bool expert_activation = false;  // moe_act: the tensor that enters the second matrix of an expert
  bool shared_experts = false;     // shared_experts: the experts that process every token
  bool latent_up = false;          // mla_up_proj: queries, keys and values, from their latents
  // PyTorch's checkpointing by operation (torchtitan's selective_ac_option "op"). The outputs of
  // every second GEMM (queries, values, gate, down) and of attention are stored. Everything else is
  // recomputed: norms, keys, the projection, up, the activation.
  bool second_gemms = false;
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
inline constexpr AdapterTargets kNoAdapters{.query = false,
                                            .key = false,
                                            .value = false,
                                            .projection = false,
                                            .gate = false,
                                            .up = false,
                                            .down = false};

// Flash computes attention in one kernel and stores one number per query (the log-sum-exp).
// MemoryEfficient does the same with the CUTLASS kernels of xFormers and of PyTorch's
// EFFICIENT_ATTENTION, which are slower (models/framework.hpp). Unfused writes the s x s matrix of
// scores to memory.
enum class AttentionKind : std::uint8_t { Flash, MemoryEfficient, Unfused };

// True if one kernel scales, masks and normalises the scores of unfused attention. `matrices` is
// the number of sequences times heads of a rank. Megatron-LM's kernel requires a multiple of four,
// and numbers of 16 bits (megatron/model/fused_softmax.py is_kernel_available, b * np % 4 == 0 and
// input_in_float16); otherwise PyTorch's operators run in fp32. A sequence of 16 heads takes one
// kernel on 1, 2 and 4 ranks, and five kernels on 8.
[[nodiscard]] constexpr bool softmax_fused(std::int64_t matrices, std::int64_t element) {
  return matrices % 4 == 0 && element == 2;
}

// ---- bytes of a parameter

// Bytes of one parameter. An empty field follows from the precision of training: weights and
// gradients as they are trained and accumulated, and a master copy of 4 bytes where the weights are
// narrower.
struct Recipe {
  std::optional<double> weight_bytes = {};
  std::optional<double> gradient_bytes = {};
  std::optional<double> master_bytes = {};  // the optimizer's copy of the weights
  double weight_cache_bytes = 0.0;  // transposed or quantised copies; they belong to the weights
  // fp32 copies of 16-bit gradients; they belong to the optimizer.
  double gradient_copy_bytes = 0.0;
  std::optional<DataType> weight_wire = {};  // type in which new weights are gathered
  std::optional<DataType> gemms = {};        // type of the operands of the linear layers
  // A whole tensor of 8 bits shares one scale, so that Fp8Scaling chooses where it comes from.
  bool tensor_scales = false;
  // The GEMMs multiply 4-bit numbers: `gemms` is fp8, and the rate is that of the GPU's fp4.
  bool four_bit_gemms = false;
  std::optional<DataType> attention = {};  // type of the GEMMs inside fused attention
  // Type in which sequence parallelism gathers the operands of these GEMMs.
  std::optional<DataType> sequence_wire = {};
  // Bytes per number stored for the backward, with scales, of the inputs of linear layers and of
  // activation functions. Where the backward of attention also reads the source of a GEMM input,
  // that source is stored too. Empty: the width of the activations.
  std::optional<double> gemm_input_bytes = {};
  std::optional<double> activation_input_bytes = {};
  // The same for the output of attention, stored once for its own backward and that of the
  // projection.
  std::optional<double> attention_output_bytes = {};

  bool operator==(const Recipe&) const = default;
};

struct Optimizer {
  double first_moment_bytes = 4.0;
  double second_moment_bytes = 4.0;
  // Muon: number of Newton-Schulz iterations that orthogonalise the momentum of every matrix
  // (Jordan et al. 2024).
  std::int64_t orthogonalisations = 0;
  std::string step = "adam";  // name of the step's kernel; every kind of Adam has "adam"

  bool operator==(const Optimizer&) const = default;
};

// By name from models/recipes and models/optimizers. Both throw InputError.
[[nodiscard]] Recipe load_recipe(const std::string& name);
[[nodiscard]] Optimizer load_optimizer(const std::string& name);

}  // namespace trainyard
