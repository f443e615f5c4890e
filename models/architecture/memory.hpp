// Bytes that training keeps: activations of a layer between its forward and its backward, what
// stands before and after the layers, and the state of each parameter. Pure formulas; times are
// elsewhere.
//
//   LayerActivations kept = layer_activations(a, layer_kind(a, 0),   // a: Llama-3 70B
//       {.tensor = 8, .sequence_parallel = true, .micro_batch = 1, .sequence_length = 8192});
//   kept.total();   // 281 280 512
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
  // Rows of tokens that this rank's experts work on; none: as many as its own tokens make, which is
  // balanced routing.
  std::optional<std::int64_t> expert_rows = {};
  std::int64_t expert_tensor = 1;
  // Context ranks trade heads for positions: attention keeps its output as it is before it is
  // traded back, and the projection its input as it is after.
  bool heads_traded = false;
  // A fused loss writes the gradient over the 16-bit logits and makes no fp32 ones.
  bool fused_loss = false;
  // Bytes of a number among the inputs of products and of activation functions (Recipe); none: as
  // wide as `precision`.
  std::optional<double> gemm_input = {};
  std::optional<double> activation_input = {};
  // Tensors that a norm keeps, and an activation function with what goes into and comes out of it:
  // 16 bits and fp32 of each number (models/framework.hpp); fused ones their inputs, and
  // the latter its output as the next product's.
  std::int64_t norm_kept_narrow = 1;
  std::int64_t norm_kept_wide = 0;
  std::int64_t activation_kept_beside =
      0;                         // more than inputs and output, each as wide as precision
  bool gathered_inputs = false;  // products keep what was gathered, not the rank's part of it
  bool repeated_heads = false;   // keys and values stand once for every query head
  // Selective recomputation keeps every second product's output, compiled only if it is read again:
  // not that of the last where that is added to the stream as it is.
  bool compiled = false;
  // Bytes of a number of attention's output, where one copy serves its backward and the
  // projection's.
  std::optional<double> attention_output = {};
};

// Bytes that one rank keeps of one layer for one microbatch, by the part that made them. At 16
// bits a GPT with dropout and unfused attention keeps sbh(34 + 5as/h): norms 4, attention 11, ffn
// 19, core 5as/h. A Llama with flash attention keeps sb(8h + 4q + 4kappa + 6f) + 4asb. Latent
// attention keeps its latents before and after their norms as well, and keys and values per head.
// Norms behind attention and feed-forward (Gemma 2) keep 4sbh more.
// Inputs of products kept in w bytes each instead of 2 make a Llama sb(4h + 2wh + (4+w)q + 4kappa +
// (4+w)f) + 4asb: the output of attention, which its backward reads, stays in 16 bits beside them.
struct LayerActivations {
  std::int64_t norms = 0;       // inputs of the two norms before attention and feed-forward
  std::int64_t post_norms = 0;  // of the two behind them, where the model has such
  std::int64_t attention = 0;   // input of QKV, Q, K, V, input of the projection, dropout mask
  std::int64_t core = 0;  // unfused: softmax, its mask, its dropped output; flash: log-sum-exp
  std::int64_t ffn = 0;   // input, input of the activation, its output, dropout mask
  // A layer with experts keeps instead: its input, the router's scores (fp32), the shared experts,
  // and for each row of an expert its input, the activation's input and output.
  std::int64_t experts = 0;
  std::int64_t checkpoint = 0;  // Recompute::Full: the layer's input, and then nothing else
  LayerActivations& operator+=(const LayerActivations& more);
  [[nodiscard]] std::int64_t total() const {
    return norms + post_norms + attention + core + ffn + experts + checkpoint;
  }
};
[[nodiscard]] LayerActivations layer_activations(const Architecture& architecture, LayerKind kind,
                                                 const ActivationQuery& query);

// The modules that run again under selective recomputation; none under any other.
[[nodiscard]] RecomputeModules recomputed_modules(const ActivationQuery& query);

// The sizes that the formulas of kinds of blocks are made of (models/layers).
struct ActivationSizes {
  // REQUIRES: at least one tensor and one context rank.
  explicit ActivationSizes(const ActivationQuery& query);

  std::int64_t tokens = 0;  // s*b of this rank
  std::int64_t region = 1;  // what norms, dropout and residuals are divided by: t with SP, else 1
  std::int64_t tensor = 1;
  std::int64_t element = 2;  // bytes
  double gemm_input = 2.0;
  double activation_input = 2.0;
  std::int64_t activation_kept_beside = 0;
  bool gathered_inputs = false;
  bool narrow_inputs = false;  // inputs of products are kept apart from what they were made of

  // Bytes of so many of every token, where a rank works on its own part of the sequence.
  [[nodiscard]] std::int64_t outside(std::int64_t bytes_per_token) const;
  // Bytes of so many of every token, where tensor ranks share the heads or columns.
  [[nodiscard]] std::int64_t inside(std::int64_t bytes_per_token) const;
  // Bytes of so many numbers of every token, which enter a GEMM that gathers the sequence.
  [[nodiscard]] std::int64_t gemm_inputs(std::int64_t numbers) const;
  // Bytes of so many numbers of one token that enter a GEMM, or an activation function.
  [[nodiscard]] std::int64_t entering(std::int64_t numbers) const;
  [[nodiscard]] std::int64_t activated(std::int64_t numbers) const;
  // The mask of dropout behind a block; 0 without dropout.
  [[nodiscard]] std::int64_t dropout_mask(const Architecture& architecture) const;
};

// Bytes are rounded up to whole ones.
[[nodiscard]] inline std::int64_t rounded_up(double bytes) {
  return std::llround(std::ceil(bytes));
}
[[nodiscard]] constexpr std::int64_t divided_up(std::int64_t bytes, std::int64_t parts) {
  return (bytes + parts - 1) / parts;
}

// Before the first layer, per microbatch: token and position ids (8 bytes each), and with dropout
// the mask of the embeddings, sbh (/t with sequence parallelism).
[[nodiscard]] std::int64_t embedding_activations(const Architecture& architecture,
                                                 const ActivationQuery& query);

// After the last layer, per microbatch.
struct HeadActivations {
  std::int64_t final_norm = 0;  // its input
  std::int64_t head_input = 0;
  std::int64_t logits = 0;  // in the precision of training: 2sbV/t at 16 bits
  std::int64_t logits_fp32 =
      0;  // in the loss: 4sbV/t, their gradient takes the same place; 0 fused
  [[nodiscard]] std::int64_t total() const {
    return final_norm + head_input + logits + logits_fp32;
  }
};
[[nodiscard]] HeadActivations head_activations(const Architecture& architecture,
                                               const ActivationQuery& query, std::int64_t vocab);

// How the state of a parameter is kept.
struct StateRecipe {
  DataType precision = DataType::Bf16;           // of the weights
  DataType gradient_precision = DataType::Fp32;  // as accumulated
  // 16-bit gradients copied to 32 bits for the optimizer, as Megatron does for fp16: 4 bytes more.
  bool fp32_gradient_copy = false;
  std::int64_t zero_stage = 0;  // 0..3: what is divided over the shards
  std::int64_t shards = 1;      // data-parallel ranks, d
  Recipe recipe = {};           // what departs from the above
  Optimizer optimizer = {};
};

// Bytes by what they are, per parameter or for many. ZeRO 1 divides the optimizer's (master,
// moments, gradient copy) by d, ZeRO 2 also the gradients, ZeRO 3 also the weights. bf16 with fp32
// gradients: 18, and 6 + 12/d with ZeRO 1.
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
// Throws nothing; 7.5e9 parameters at 64 shards, 16-bit gradients: 120, 31.40625, 16.640625, 1.875
// GB for stages 0 to 3.
[[nodiscard]] StateBytes state_bytes_per_parameter(const StateRecipe& recipe);
// HBM traffic of one step for each parameter of the local shard, without the clipping of the
// gradient: what the optimizer keeps is read and written, the gradient read, the weight written and
// read if it is the only copy. Mixed precision with fp32 gradients: 2 (4 + 4 + 4) + 4 + 2 = 30.
[[nodiscard]] double optimizer_step_bytes(const StateRecipe& recipe);
[[nodiscard]] StateBytes state_bytes(const StateRecipe& recipe, std::int64_t parameters);

}  // namespace trainyard
