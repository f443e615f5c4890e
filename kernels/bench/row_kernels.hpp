// GPU kernels of the profilers, and the random operands of all tasks. The launchers queue the work
// in the stream and return the error code of the launch.
//
//    check(fill_random({.memory = x, .count = 1024, .dtype = DataType::Bf16, .seed = 1}, stream),
//          "filling x");
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/bench/task.hpp"

namespace trainyard::bench {

// memory[i] = random_value(seed, i) in the dtype's storage (tf32: rounded, in four bytes).
struct RandomFill {
  void* memory = nullptr;
  std::int64_t count = 0;
  DataType dtype = DataType::Bf16;
  std::uint64_t seed = 0;
};
[[nodiscard]] cudaError_t fill_random(const RandomFill& fill, cudaStream_t stream);

// Operands of a RowKernel. All are bf16, except those of Adam, which are fp32 with a bf16 copy in
// `result`.
struct RowOperands {
  const void* x = nullptr;  // Adam: gradient; cast: fp32 input
  // Add: the other summand. Norms: weight (and bias). RoPE: the table.
  const void* second = nullptr;
  void* result = nullptr;
  void* weight = nullptr;    // Adam: master weight, updated
  void* momentum = nullptr;  // Adam: updated
  void* variance = nullptr;  // Adam: updated
};
// REQUIRES: columns divisible by 8 (RoPE: by rope_head_columns), and at most row_columns_most where
// rows are reduced (norms, softmax).
inline constexpr std::int64_t row_columns_most = 16384;
[[nodiscard]] cudaError_t launch_row_kernel(const RowKernel& kernel, const RowOperands& operands,
                                            cudaStream_t stream);

// The middle part of unfused attention, one row of bf16 scores at a time: softmax of scale * scores
// over the columns that a query may attend to (causal: up to its own), and 0 elsewhere.
struct AttentionWeights {
  const void* scores = nullptr;
  void* weights = nullptr;
  std::int64_t rows = 0;  // of all heads and sequences
  std::int64_t columns = 0;
  std::int64_t rows_of_head = 0;
  float scale = 1.0F;
  bool causal = true;
};
// REQUIRES: columns divisible by 8 and at most row_columns_most; the same for the gradient below.
[[nodiscard]] cudaError_t launch_attention_weights(const AttentionWeights& weights,
                                                   cudaStream_t stream);

// The gradient of these weights: result = scale * weights * (gradient - the row's sum of weights *
// gradient).
struct AttentionWeightsGradient {
  const void* weights = nullptr;
  const void* gradient = nullptr;
  void* result = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float scale = 1.0F;
};
[[nodiscard]] cudaError_t launch_attention_weights_gradient(const AttentionWeightsGradient& g,
                                                            cudaStream_t stream);

// A kernel like that of a communication: it occupies `sms` SMs exclusively for a given time and
// copies memory on them.
struct Occupation {
  const void* from = nullptr;
  void* into = nullptr;
  std::int64_t bytes = 0;  // size of each buffer; the kernel passes over it repeatedly
  std::int64_t sms = 0;
  std::int64_t nanoseconds = 0;
  unsigned long long* copied_bytes = nullptr;  // the kernel adds its bytes when it ends
};
// REQUIRES: bytes divisible by 16 * 512 * sms. Returns an error if the GPU does not have more SMs
// than that.
[[nodiscard]] cudaError_t launch_occupation(const Occupation& occupation, cudaStream_t stream);

// Adds one to the counter. This kernel is launched to time launches, so that each launch is known
// to have run.
[[nodiscard]] cudaError_t launch_count(unsigned* counter, cudaStream_t stream);

}  // namespace trainyard::bench
