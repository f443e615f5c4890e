// The settings of training that decide how many bytes a rank keeps: which activations of a layer
// stay from its forward to its backward, and how wide each parameter is. The recipe says that of
// weights and gradients, the optimizer of its own state. Recipes and optimizers are data
// (models/recipes, models/optimizers), with their sources; data_names("models/recipes") lists what
// is there.
//
//   state_bytes_per_parameter({.optimizer = load_optimizer("adam_8bit")}).total();   // 12
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/kernel.hpp"

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

// Flash computes attention in one kernel and keeps one number per row (the log-sum-exp).
// MemoryEfficient does the same with the CUTLASS kernels of xFormers and of PyTorch's
// EFFICIENT_ATTENTION, which are slower (models/framework.hpp). Unfused writes the s x s
// matrix of scores to memory.
enum class AttentionKind : std::uint8_t { Flash, MemoryEfficient, Unfused };

// Does one kernel scale, mask and normalise the scores of unfused attention? `matrices`: sequences
// times heads of a rank. Megatron-LM's takes four of them at a time (megatron/model/
// fused_softmax.py is_kernel_available, b * np % 4 == 0); other numbers are left to PyTorch's
// operators, in fp32. A sequence of 16 heads: one kernel on 1, 2 and 4 ranks, five on 8.
[[nodiscard]] constexpr bool softmax_fused(std::int64_t matrices) { return matrices % 4 == 0; }

// ---- bytes of a parameter

// Bytes of one parameter. What is absent follows from the precision of training: weights and
// gradients as they are trained and accumulated, a master copy of 4 bytes where the weights have
// fewer.
struct Recipe {
  std::optional<double> weight_bytes = {};
  std::optional<double> gradient_bytes = {};
  std::optional<double> master_bytes = {};  // the optimizer's own copy of the weights
  double weight_cache_bytes = 0.0;          // transposed or quantised copies, with the weights
  double gradient_copy_bytes = 0.0;         // fp32 copies of 16-bit gradients, with the optimizer's
  std::optional<DataType> weight_wire = {};  // in which new weights are gathered
  std::optional<DataType> gemms = {};        // of the linear layers
  // They multiply 4-bit numbers: `gemms` is fp8, at the rate of the GPU's fp4.
  bool four_bit_gemms = false;
  std::optional<DataType> attention = {};  // of the products inside fused attention
  // In which sequence parallelism gathers the operands of these products.
  std::optional<DataType> sequence_wire = {};
  // In how many bytes a number is kept for the backward, scales included: of the inputs of linear
  // layers (whose source, where the backward of attention reads it too, stays beside) and of
  // activation functions. Absent: as wide as activations are.
  std::optional<double> gemm_input_bytes = {};
  std::optional<double> activation_input_bytes = {};
  // The same for attention's output, kept once for its own backward and the projection's.
  std::optional<double> attention_output_bytes = {};

  bool operator==(const Recipe&) const = default;
};

struct Optimizer {
  double first_moment_bytes = 4.0;
  double second_moment_bytes = 4.0;
  // Muon: the momentum of every matrix is made orthogonal by so many Newton-Schulz iterations
  // (Jordan et al. 2024).
  std::int64_t orthogonalisations = 0;
  std::string step = "adam";  // the name of its step's kernel: of all kinds of Adam "adam"

  bool operator==(const Optimizer&) const = default;
};

// By name. Throws InputError.
[[nodiscard]] Recipe load_recipe(const std::string& name);
[[nodiscard]] Optimizer load_optimizer(const std::string& name);

}  // namespace trainyard
