// How much longer a framework's kernels take than those that the GPU's profile was measured on.
//
// Profiles hold today's libraries; a run of 2022 had older ones: FlashAttention 1 for 2 and 3, an
// older cuBLAS, norms and activations of several kernels. Frameworks say so by GPU generation
// (models/frameworks/*.json, "kernel_time"), each figure with its source or the command that fitted
// it; what is not named takes as long as in the profile, and fp8 products as much longer as others.
//
//   const FrameworkTimes times = load_framework_times("composer", "hopper");
//   times.attention;                 // 1.9: as long as 1.9 times the profile's
#pragma once

#include <cstdint>
#include <string>

#include "sim/workload/kernel.hpp"

namespace trainyard {

// The times of another library's attention, over those of the profile.
struct AttentionTimes {
  double forward = 1.0;
  double backward = 1.0;
};

struct FrameworkTimes {
  // Of the profile's time, by kind of kernel.
  double gemm = 1.0;
  double fp8_gemm = 1.0;
  double grouped_gemm = 1.0;  // issued expert by expert; all in one launch take the profile's time
  double fp8_grouped_gemm = 1.0;
  double attention = 1.0;
  double attention_backward = 1.0;
  double ring_attention = 1.0;  // of the blocks of a context ring
  // Time of a block of a context ring beside its kernel and the joins that are counted (their
  // other passes, conversions, gaps between its two streams): so many passes over its queries.
  double ring_passes = 0.0;
  double memory_bound = 1.0;  // and copies
  // Of a 4-bit product, with all that only 4 bits need around it (transforms, scales of two levels,
  // rounding at random), over what the data sheet makes of an 8-bit one's time.
  double fp4_gemm = 1.0;
  double four_bit_share = 1.0;  // of an 8-bit product's time, where narrow() says that it is of 4
  // SMs that the exchanges of experts keep throughout the step, whether rows travel or not; 0: an
  // exchange holds SMs only while it runs.
  std::int64_t exchange_sms = 0;

  // The product of both factors below.
  [[nodiscard]] double of(const Kernel& kernel) const { return as_wide(kernel) * narrower(kernel); }
  // The framework's kernel over the profile's, at the width that the kernel names.
  [[nodiscard]] double as_wide(const Kernel& kernel) const;
  // 4-bit products over the 8-bit ones that stand for them; 1 for other kernels.
  [[nodiscard]] double narrower(const Kernel& kernel) const;
  // Bytes of these passes, which a kernel that memory bounds reads or writes; 0 for other kernels.
  // It grows with a block's queries, and its kernel with their product with the keys.
  [[nodiscard]] std::int64_t ring_bytes(const Kernel& kernel) const;
  // 8-bit products stand for 4-bit ones, which take this share of their time by the data sheet.
  void narrow(double share) { four_bit_share = share * fp4_gemm; }

  // Experts' products with all around them inside (ExpertProducts::Fused) take the profile's time.
  void fuse_experts() { grouped_gemm = fp8_grouped_gemm = 1.0; }

  // Kernels of AttentionKind::MemoryEfficient in place of the framework's own.
  void attend(const AttentionTimes& kernels) {
    attention = kernels.forward;
    attention_backward = kernels.backward;
  }

  // How much longer a kernel takes on the SMs that the exchanges leave: products and attention
  // 1 / (1 - exchange_sms / sms * compute_loss), for a GPU's `sms` and its profile's
  // `compute_loss`; kernels that memory bounds need fewer SMs than all and take as long. 20 of
  // 132: 1.1786. REQUIRES: exchange_sms < sms.
  [[nodiscard]] double beside_exchanges(const Kernel& kernel, std::int64_t sms,
                                        double compute_loss) const;
};

// By a name of models/frameworks and a GPU's generation. Throws InputError.
[[nodiscard]] FrameworkTimes load_framework_times(const std::string& name,
                                                  const std::string& generation);

// Reads the factors of a GPU's generation from models/attention/memory_efficient.json. Throws
// InputError where nothing is known of it.
[[nodiscard]] AttentionTimes load_memory_efficient_times(const std::string& generation);

}  // namespace trainyard
