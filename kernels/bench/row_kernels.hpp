// The profilers' own GPU kernels, and the random operands of all tasks. Launchers return the
// launch's error code; the work is queued in the stream.
//
//   check(fill_random({.memory = x, .count = 1024, .dtype = DataType::Bf16, .seed = 1}, stream),
//         "filling x");
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

// Operands of a RowKernel; all bf16 but Adam's, which are fp32 and the bf16 copy `result`.
struct RowOperands {
  const void* x = nullptr;  // Adam: gradient; cast: fp32
  const void* second =
      nullptr;  // add: the other summand; norms: weight (and bias); RoPE: the table
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

// The middle of unfused attention, one row of bf16 scores at a time: softmax of scale * scores over
// the columns that a query may see (causal: up to its own), 0 elsewhere.
struct AttentionWeights {
  const void* scores = nullptr;
  void* weights = nullptr;
  std::int64_t rows = 0;  // of all heads and sequences
  std::int64_t columns = 0;
  std::int64_t rows_of_head = 0;
  float scale = 1.0F;
  bool causal = true;
};
// REQUIRES: columns divisible by 8 and at most row_columns_most; likewise below.
[[nodiscard]] cudaError_t launch_attention_weights(const AttentionWeights& weights,
                                                   cudaStream_t stream);

// Its gradient: result = scale * weights * (gradient - the row's sum of weights * gradient).
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

// A kernel as a communication's: it holds `sms` SMs alone for that long and copies memory on them.
struct Occupation {
  const void* from = nullptr;
  void* into = nullptr;
  std::int64_t bytes = 0;  // of each; walked again and again
  std::int64_t sms = 0;
  std::int64_t nanoseconds = 0;
  unsigned long long* copied_bytes = nullptr;  // added to at the end
};
// REQUIRES: bytes divisible by 16 * 512 * sms. The error says where the GPU has fewer SMs.
[[nodiscard]] cudaError_t launch_occupation(const Occupation& occupation, cudaStream_t stream);

// Adds one to the counter: what is launched to time launches, so that each is seen to have run.
[[nodiscard]] cudaError_t launch_count(unsigned* counter, cudaStream_t stream);

}  // namespace trainyard::bench
