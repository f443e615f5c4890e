// Time of fused (flash) attention, forward and backward.
//
//    const GpuProfile h100 = load_profile("h100");
//    const Attention causal = table_attention(8192, 32, 128);   // sequence, heads, head size
//    Seconds t = attention_cost(h100.sheet, h100.attention, causal).time;
//
// One thread block computes 128 query rows of one head with all their keys. The time is limited by
// all blocks that share the GPU evenly, or by the longest block alone:
//
//    t = launch + max(F / (R e), f s_k / (R/n e), B / (W 0.85))
//
// F is the kernel's FLOPs, R the peak rate, e the share of it that this head size reaches, n the
// number of SMs, s_k the keys (of the longest document, where several are packed) and f the FLOPs
// of 128 rows with one key (Dao 2023, arXiv 2307.08691, section 3.2).
// Measurements correct it as in gemm.hpp, over (sequence length, sequences x heads) per head size.
// They are of causal squares. A rectangle (a step of ring attention, packed documents) is corrected
// like the square with the same number of rows and of keys per row, and its provenance is
// extrapolated.
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
  // Efficiency of the backward relative to the forward: five GEMMs instead of two, and more
  // registers. Derived from published pairs (provenance in the profile).
  double backward_relative = 0.8;
  // In 8 bits, the share of twice the 16-bit rate that is reached: an H100 has 1.2 PFLOP/s where 16
  // bits reach 740 TFLOP/s (Shah et al. 2024, arXiv 2407.08608, abstract). The exponentials are not
  // faster. Published for the forward, used for both passes.
  double eight_bit_relative = 0.81;
  // Rate at which the engine of the tables stored keys and values in addition to the kernel. This
  // part is removed from the tables; the rate is stored so that the tables can be reproduced.
  BytesPerSecond table_append{1e12};
  // Heads whose queries and keys are wider than their values (192 and 128 in latent attention):
  // measured time over the model's time.
  double latent_forward = 1.0;
  double latent_backward = 1.0;
  // Time of arithmetic at the clock that this GPU's power allows, over that of the measured GPU
  double clock_time = 1.0;
  std::vector<AttentionTable> tables{};  // forward, by ascending head size
};

// The causal half-precision forward kernel that a node of the tables represents.
[[nodiscard]] Attention table_attention(std::int64_t sequence, std::int64_t batch_heads,
                                        std::int64_t head_dim);

// Time of the model alone, without the tables.
[[nodiscard]] Seconds attention_model_time(const GpuSheet& sheet, const AttentionModel& model,
                                           const Attention& attention);

// Time of model and tables together, at least the roofline. The provenance is never Measured: a
// node is the median over a bucket of kernels and GQA ratios.
[[nodiscard]] Cost attention_cost(const GpuSheet& sheet, const AttentionModel& model,
                                  const Attention& attention);

}  // namespace trainyard
