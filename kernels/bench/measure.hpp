// Measures one task: fills the operands, checks the result of one run against the CPU reference,
// then does warm-up and timed runs.
//
//    const Bench bench;                        // the first CUDA device
//    MeasuredRow row = measure(bench, task);   // throws Unsupported, or WrongResult
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/bench/device.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

// Times work on the GPU with CUDA events; each run starts with a cold L2 cache.
//
//    const Stopwatch watch;
//    Spread us = spread_of(watch.times_us([&] { launch(watch.stream()); }, timed_runs));
class Stopwatch {
 public:
  // REQUIRES: a device is selected (device.hpp).
  Stopwatch();
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

  // Microseconds of each of `runs` runs. Before each run a buffer of at least twice the size of the
  // L2 is written. The CPU queues the work during that write, so launching is not part of the time.
  [[nodiscard]] std::vector<double> times_us(const std::function<void()>& work, int runs) const;
  // Runs the work without timing it.
  void warm_up(const std::function<void()>& work) const;
  void wait() const { check(cudaStreamSynchronize(stream()), "waiting for the GPU"); }

 private:
  Stream stream_;
  DeviceMemory flushed_;
};

// Elements of GPU memory as numbers, for checks.
//
//    read_stored(result, {.dtype = DataType::Bf16, .first = 0, .count = 8});
struct StoredRange {
  DataType dtype = DataType::Fp32;
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// Does not synchronise: the work that writes the memory must be complete. REQUIRES: fp32, tf32,
// bf16 or fp16, and a range within the memory.
[[nodiscard]] std::vector<double> read_stored(const DeviceMemory& memory, const StoredRange& range);

struct DestroyCublasLt {
  void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
};

// State that all measurements share. cuBLASLt may use 32 MiB of workspace, as NVIDIA recommends for
// Hopper (cuBLAS documentation, cublasSetWorkspace).
struct Bench {
  Bench();
  Stopwatch watch;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyCublasLt> cublaslt;
  DeviceMemory workspace;
};

[[nodiscard]] MeasuredRow measure(const Bench& bench, const Task& task);

// Allowed error of one entry of a GEMM.
[[nodiscard]] double gemm_tolerance(const Gemm& gemm, double expected);

// Clocks, power and temperature while large bf16 GEMMs run back to back for some tenths of a
// second. Readings of an idle GPU would not show the clocks under load. Empty without NVML.
[[nodiscard]] nlohmann::ordered_json readings_under_load(const Bench& bench);

[[nodiscard]] MeasuredRow measure_gemm(const Bench& bench, const Gemm& gemm);
// Experts in bf16 or fp16 run in one call of cuBLAS; other precisions run one GEMM after another.
[[nodiscard]] MeasuredRow measure_grouped(const Bench& bench, const GroupedGemm& gemm);
// Throws Unsupported for GEMMs that are batched, accumulate, or are not forward.
[[nodiscard]] MeasuredRow measure_fused(const Bench& bench, const FusedGemm& fused);
// The row also contains the rates of the occupying kernel, concurrently with the GEMM and alone.
[[nodiscard]] MeasuredRow measure_interference(const Bench& bench, const Interference& task);
// Uses cuDNN's graph API, forward or backward. Throws Unsupported for shapes that unfit_for_cudnn
// (attention_graph.hpp) rejects and for those that cuDNN has no engine for on this GPU.
[[nodiscard]] MeasuredRow measure_attention(const Bench& bench, const Attention& attention);
// "9.19.0"; empty if the program was built without cuDNN.
[[nodiscard]] std::string cudnn_version();
[[nodiscard]] MeasuredRow measure_unfused(const Bench& bench, const UnfusedAttention& task);
[[nodiscard]] MeasuredRow measure_rows(const Bench& bench, const RowKernel& kernel);
[[nodiscard]] MeasuredRow measure_copy(const Bench& bench, const Copy& copy);
[[nodiscard]] MeasuredRow measure_launches(const Bench& bench, const Launches& launches);

}  // namespace trainyard::bench
