// How long fused (flash) attention takes, forward and backward.
//
//   Seconds t = attention_cost(sheet, model, Attention{.batch = 1, .query_heads = 32, ...}).time;
//
// One thread block computes 128 query rows of one head against all their keys. Either all blocks
// share the GPU evenly, or the longest block alone is the limit:
//   t = launch + max(F / (R e), f s_k / (R/n e), B / (W 0.85))
// with F the kernel's FLOPs, R the peak rate, e the share of it reached for this head size, n the
// number of SMs and f the FLOPs of 128 rows against one key (Dao 2023, arXiv 2307.08691,
// section 3.2). Measurements correct it as in gemm.hpp, over (sequence length, sequences x heads)
// per head size. They are of causal squares; a rectangle (a step of ring attention, packed
// documents) is corrected as the square with as many rows and as many keys for each row, and
// counts as extrapolated.
#pragma once

#include <vector>

#include "kernels/gpu.hpp"
#include "kernels/surface.hpp"

namespace trainyard {

struct AttentionTable {
  std::int64_t head_dim = 128;
  Surface correction;  // log(measured / model) over (sequence length, batch x heads)
};

struct AttentionModel {
  Seconds launch{5e-6};
  double bandwidth_efficiency = 0.85;
  double forward_efficiency = 0.6;  // share of the peak in long sequences, head size 128
  // Efficiency of the backward pass relative to forward: five products against two, more registers.
  // Read off published pairs (provenance in the profile).
  double backward_relative = 0.8;
  // In 8 bits, share of twice the rate in 16 bits that is reached: H100 1.2 PFLOP/s where 16 bits
  // reach 740 TFLOP/s (Shah et al. 2024, arXiv 2407.08608, abstract). The exponentials are no
  // quicker. Published for the forward pass, taken for both.
  double eight_bit_relative = 0.81;
  // Rate at which the tables' engine stored keys and values beside the kernel: taken out of the
  // tables, kept so that they can be reproduced.
  BytesPerSecond table_append{1e12};
  // Heads whose queries and keys are wider than their values (192 and 128 in latent attention):
  // time over what the model says, as measured.
  double latent_forward = 1.0;
  double latent_backward = 1.0;
  // Arithmetic at the clock that this GPU's power allows, over that of the GPU with the tables.
  double clock_time = 1.0;
  std::vector<AttentionTable> tables{};  // forward, by ascending head size
};

// The causal half-precision forward kernel that a node of the tables stands for.
[[nodiscard]] Attention table_attention(std::int64_t sequence, std::int64_t batch_heads,
                                        std::int64_t head_dim);

[[nodiscard]] Seconds attention_model_time(const GpuSheet& sheet, const AttentionModel& model,
                                           const Attention& attention);

// At least the roofline. Never Measured: a node is the median of a bucket of kernels and GQA
// ratios.
[[nodiscard]] Cost attention_cost(const GpuSheet& sheet, const AttentionModel& model,
                                  const Attention& attention);

}  // namespace trainyard
