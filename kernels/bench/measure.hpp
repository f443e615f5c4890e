// Measures one task: operands filled, the result of one run checked against the CPU reference, then
// warm-up and timed runs.
//
//   const Bench bench;                        // the first CUDA device
//   MeasuredRow row = measure(bench, task);   // throws Unsupported, or WrongResult
#pragma once

#include <cublasLt.h>

#include <memory>
#include <type_traits>

#include "kernels/bench/cuda_call.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/stopwatch.hpp"

namespace trainyard::bench {

struct DestroyCublasLt {
  void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
};

// What all measurements share. cuBLASLt may use 32 MiB of workspace, as NVIDIA advises for Hopper
// (cuBLAS documentation, cublasSetWorkspace).
struct Bench {
  Bench();
  Stopwatch watch;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyCublasLt> cublaslt;
  DeviceMemory workspace;
};

[[nodiscard]] MeasuredRow measure(const Bench& bench, const Task& task);

// What an entry of a product may be off by.
[[nodiscard]] double product_tolerance(const Gemm& gemm, double expected);

// Clocks, power and temperature while large bf16 products run one after another for some tenths of
// a second; idle readings say little. Empty without NVML.
[[nodiscard]] nlohmann::ordered_json readings_under_load(const Bench& bench);

[[nodiscard]] MeasuredRow measure_gemm(const Bench& bench, const Gemm& gemm);
// Experts of bf16 or fp16 in one call of cuBLAS; of other precisions one product after another.
[[nodiscard]] MeasuredRow measure_grouped(const Bench& bench, const GroupedGemm& gemm);
// Throws Unsupported for products that are batched, accumulate, or are no forward ones.
[[nodiscard]] MeasuredRow measure_fused(const Bench& bench, const FusedGemm& fused);
// The row says besides what the occupying kernel copied, beside the product and by itself.
[[nodiscard]] MeasuredRow measure_interference(const Bench& bench, const Interference& task);
// Through cuDNN's graph API, forward or backward; whatever unfit_for_cudnn (attention_graph.hpp)
// names, and what cuDNN has no engine for on this GPU, is Unsupported.
[[nodiscard]] MeasuredRow measure_attention(const Bench& bench, const Attention& attention);
// "9.19.0"; empty where the program was built without cuDNN.
[[nodiscard]] std::string cudnn_version();
[[nodiscard]] MeasuredRow measure_unfused(const Bench& bench, const UnfusedAttention& task);
[[nodiscard]] MeasuredRow measure_rows(const Bench& bench, const RowKernel& kernel);
[[nodiscard]] MeasuredRow measure_copy(const Bench& bench, const Copy& copy);
[[nodiscard]] MeasuredRow measure_launches(const Bench& bench, const Launches& launches);

}  // namespace trainyard::bench
