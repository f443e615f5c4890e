// Bytes that training holds: activations of a layer between its forward and its backward,
// activations before and after the layers, and the state of each parameter. These are pure formulas
// without times.
//
//    const Architecture a = load_architecture("llama3-70b");
//    LayerActivations kept = layer_activations(a, layer_kind(a, 0),
//        {.tensor = 8, .sequence_parallel = true, .micro_batch = 1, .sequence_length = 8192});
//    kept.total();   // 281 280 512
//
// Symbols: s sequence, b microbatch, h hidden, a heads, q = a*d, kappa = key-value width, f ffn, t
// tensor. Sources: Korthikanti et al. 2205.05198 sections 4 and 5; Rajbhandari et al. 1910.02054
// section 5.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

inline constexpr std::int64_t kFp32Bytes = 4;  // of scores, statistics, probabilities and scales

struct ActivationQuery {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t context = 1;  // this rank holds s/context positions
  std::int64_t micro_batch = 1;
  std::int64_t sequence_length = 0;  // of the whole sequence
  Recompute recompute = Recompute::None;
  RecomputeModules modules = {};  // of Recompute::Selective
  AttentionKind attention = AttentionKind::Flash;
  DataType precision = DataType::Bf16;
  // Routed tokens that this rank's experts process. Empty: as many as its own tokens produce, which
  // is balanced routing.
  std::optional<std::int64_t> expert_rows = {};
  std::int64_t expert_tensor = 1;
  // Context ranks that trade heads for positions. Attention stores its output before it is traded
  // back, and the projection stores its input after that.
  std::int64_t head_traders = 1;
  // A fused loss writes the gradient over the 16-bit logits and creates no fp32 logits.
  bool fused_loss = false;
  // Bytes per number of the inputs of GEMMs and of activation functions (Recipe). Empty: the width
  // of `precision`.
  std::optional<double> gemm_input = {};
  std::optional<double> activation_input = {};
  // Tensors of 16 bits and of fp32 that a norm stores for each number (models/framework.hpp). A
  // fused norm stores its input. `extra_activation_tensors` counts the tensors that an activation
  // function stores in addition to its inputs and its output; the output is the input of the next
  // GEMM.
  std::int64_t norm_kept_narrow = 1;
  std::int64_t norm_kept_wide = 0;
  // Number of tensors stored in addition to inputs and output, each as wide as `precision`.
  std::int64_t extra_activation_tensors = 0;
  bool gathered_inputs = false;  // GEMMs store the gathered input, not the rank's part of it
  bool repeated_heads = false;   // keys and values are stored once for every query head
  // Selective recomputation stores the output of every second GEMM. Compiled code stores it only if
  // it is read later, which the output of the last GEMM is not where it is added to the residual
  // stream unchanged.
  bool compiled = false;
  // Bytes per number of the output of attention, where one copy serves its own backward and that of
  // the projection.
  std::optional<double> attention_output = {};
};

// Bytes that one rank stores of one layer for one microbatch, by the part that produces them. At 16
// bits a GPT with dropout and unfused attention stores sbh(34 + 5as/h): norms 4, attention 11, ffn
// 19, core 5as/h. A Llama with flash attention stores sb(8h + 4q + 4kappa + 6f) + 4asb. Latent
// attention also stores its latents before and after their norms, and keys and values per head.
// Norms after attention and feed-forward (Gemma 2) store 4sbh more. If GEMM inputs are stored in w
// bytes each instead of 2, a Llama stores sb(4h + 2wh + (4+w)q + 4kappa + (4+w)f) + 4asb: the
// output of attention, which its backward reads, is also stored in 16 bits.
struct LayerActivations {
  std::int64_t norms = 0;  // inputs of the two norms before attention and feed-forward
  // Inputs of the two norms after them, where the model has such norms.
  std::int64_t post_norms = 0;
  std::int64_t attention = 0;  // input of QKV, Q, K, V, input of the projection, dropout mask
  std::int64_t core = 0;       // unfused: softmax, its mask, its dropped output; flash: log-sum-exp
  std::int64_t ffn = 0;        // input, input of the activation, its output, dropout mask
  // A layer with experts stores instead: its input, the router's scores (fp32), the shared experts,
  // and for each routed token the expert's input, and the input and output of the activation.
  std::int64_t experts = 0;
  std::int64_t checkpoint = 0;  // Recompute::Full: the input of the layer, and nothing else
  LayerActivations& operator+=(const LayerActivations& more);
  [[nodiscard]] std::int64_t total() const {
    return norms + post_norms + attention + core + ffn + experts + checkpoint;
  }
};
[[nodiscard]] LayerActivations layer_activations(const Architecture& architecture, LayerKind kind,
                                                 const ActivationQuery& query);

// The modules that selective recomputation runs a second time. None under any other mode.
[[nodiscard]] RecomputeModules recomputed_modules(const ActivationQuery& query);

// The sizes from which the formulas of the kinds of blocks are built (models/layers).
struct ActivationSizes {
  // REQUIRES: at least one tensor and one context rank.
  explicit ActivationSizes(const ActivationQuery& query);

  std::int64_t tokens = 0;  // s*b of this rank
  std::int64_t region = 1;  // divisor of norms, dropout and residuals: t with SP, else 1
  std::int64_t tensor = 1;
  std::int64_t element = 2;  // bytes
  double gemm_input = 2.0;
  double activation_input = 2.0;
  std::int64_t extra_activation_tensors = 0;
  bool gathered_inputs = false;
  // GEMM inputs are stored separately from the tensors they were made from.
  bool narrow_inputs = false;

  // Bytes for all tokens in a region where each rank works on its own part of the sequence.
  [[nodiscard]] std::int64_t outside(std::int64_t bytes_per_token) const;
  // Bytes for all tokens in a region where tensor ranks share the heads or columns.
  [[nodiscard]] std::int64_t inside(std::int64_t bytes_per_token) const;
  // Bytes of this many numbers per token that enter a GEMM which gathers the sequence.
  [[nodiscard]] std::int64_t gemm_inputs(std::int64_t numbers) const;
  // Bytes of this many numbers of one token that enter a GEMM (entering) or an activation function
  // (activated).
  [[nodiscard]] std::int64_t entering(std::int64_t numbers) const;
  [[nodiscard]] std::int64_t activated(std::int64_t numbers) const;
  // Bytes of the dropout mask after a block; 0 without dropout.
  [[nodiscard]] std::int64_t dropout_mask(const Architecture& architecture) const;
};

// Rounds up to whole bytes.
[[nodiscard]] inline std::int64_t rounded_up(double bytes) {
  return std::llround(std::ceil(bytes));
}
[[nodiscard]] constexpr std::int64_t divided_up(std::int64_t bytes, std::int64_t parts) {
  return (bytes + parts - 1) / parts;
}

// Stored before the first layer, per microbatch: ids (8 bytes per token), and with dropout the mask
// of the embeddings, sbh (/t with sequence parallelism).
[[nodiscard]] std::int64_t embedding_activations(const Architecture& architecture,
                                                 const ActivationQuery& query);

// Bytes stored after the last layer, per microbatch.
struct HeadActivations {
  std::int64_t final_norm = 0;  // input of the final norm
  std::int64_t head_input = 0;
  std::int64_t logits = 0;  // in the precision of training: 2sbV/t at 16 bits
  // In the loss: 4sbV/t; the gradient overwrites them. 0 if the loss is fused.
  std::int64_t logits_fp32 = 0;
  [[nodiscard]] std::int64_t total() const {
    return final_norm + head_input + logits + logits_fp32;
  }
};
[[nodiscard]] HeadActivations head_activations(const Architecture& architecture,
                                               const ActivationQuery& query, std::int64_t vocab);

// Precision and sharding of the state of a parameter.
struct StateRecipe {
  DataType precision = DataType::Bf16;           // of the weights
  DataType gradient_precision = DataType::Fp32;  // precision of accumulation
  // 16-bit gradients are copied to 32 bits for the optimizer, as Megatron does for fp16: 4 bytes
  // more.
  bool fp32_gradient_copy = false;
  std::int64_t zero_stage = 0;  // 0..3: which state is divided over the shards
  std::int64_t shards = 1;      // data-parallel ranks, d
  Recipe recipe = {};           // deviations from the fields above
  Optimizer optimizer = {};
};

// Bytes by kind of state, for one parameter or for many. ZeRO 1 divides the optimizer state
// (master, moments, gradient copy) by d, ZeRO 2 also the gradients, ZeRO 3 also the weights. bf16
// with fp32 gradients: 18, and 6 + 12/d with ZeRO 1.
struct StateBytes {
  double weights = 0.0;
  double gradients = 0.0;
  double master = 0.0;  // fp32 weights where training is 16-bit, and the gradient copy
  double first_moment = 0.0;
  double second_moment = 0.0;
  [[nodiscard]] double total() const {
    return weights + gradients + master + first_moment + second_moment;
  }
};
// Bytes per parameter; throws nothing. Example: 7.5e9 parameters on 64 shards with 16-bit gradients
// take 120, 31.40625, 16.640625 and 1.875 GB for stages 0 to 3.
[[nodiscard]] StateBytes state_bytes_per_parameter(const StateRecipe& recipe);
// HBM traffic of one optimizer step for each parameter of the local shard, without gradient
// clipping. The optimizer's state is read and written, the gradient is read, the weight is written,
// and also read if it is the only copy. Mixed precision with fp32 gradients: 2 (4 + 4 + 4) + 4 + 2
// = 30.
[[nodiscard]] double optimizer_step_bytes(const StateRecipe& recipe);
[[nodiscard]] StateBytes state_bytes(const StateRecipe& recipe, std::int64_t parameters);

}  // namespace trainyard
