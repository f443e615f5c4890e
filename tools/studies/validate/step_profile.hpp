// Where the time of one rank's step goes by class of operation, measured or predicted alike.
//
// A profile comes from a trace of the PyTorch profiler (Kineto), from a list of step times, or from
// a simulated run. Kernels of a trace are put into classes by their names, as NCCL, cuBLAS,
// CUTLASS, cuDNN, FlashAttention, Apex and Transformer Engine call them. A NCCL kernel runs from
// the moment its rank has reached the call, so that waiting for others is in its time; the same is
// counted of a predicted communication. all_to_all is send_recv, as in NCCL. A trace of our own
// (trainyard run --trace) says each kernel's class itself and draws waiting as a slice of its own:
// it reads back as the profile of the run it came from.
//
//   const StepProfile measured = read_step_profile("trace.json");
//   measured.step_s;                                    // median over its steps
//   measured.seconds.at("gemm");                        // a step
//   const StepProfile predicted = step_profile(run, /*rank=*/0);
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

struct StepProfile {
  double step_s = 0.0;
  std::size_t steps = 1;
  // Seconds a step by class: gemm, attention, norm, elementwise, softmax, embedding, optimizer,
  // copy, all_reduce, all_gather, reduce_scatter, broadcast, reduce, send_recv. Empty where only
  // step times are known.
  std::map<std::string, double> seconds = {};
  double exposed_s = 0.0;  // communication while no other kernel runs
  double idle_s = 0.0;     // no kernel runs
};

// The class of a kernel by its name in a trace: "ncclDevKernel_AllGather_RING_LL" -> "all_gather",
// "sm90_xmma_gemm_bf16" -> "gemm", "flash_fwd_kernel" -> "attention".
[[nodiscard]] std::string kernel_class(std::string_view name);
[[nodiscard]] bool is_communication(std::string_view kernel_class);
// Likewise by what a trace of our own says of it: "grouped_gemm experts4 n3072 ..." -> "gemm".
[[nodiscard]] std::string simulated_kernel_class(std::string_view text);

struct TimeSpan {
  double start_s = 0.0;
  double end_s = 0.0;
};
struct ClassSpan {
  std::string kind;
  TimeSpan time = {};
};
// How long at least one of them runs: 0..2 and 1..3 cover 3 s.
[[nodiscard]] double covered(std::vector<TimeSpan> spans);
// The profile of the kernels of one rank in a window of so many steps.
[[nodiscard]] StepProfile profile_of(const std::vector<ClassSpan>& kernels, double window_s,
                                     std::size_t steps);

// A Chrome trace as PyTorch's profiler exports it (times in microseconds; categories kernel,
// gpu_memcpy, gpu_memset; steps marked by ProfilerStep#N, else the whole trace is one), plain or
// .gz; or a list of step times in seconds, as a JSON array or one a line. Throws InputError.
[[nodiscard]] StepProfile read_step_profile(const std::filesystem::path& file);

// The same of a simulated rank. REQUIRES: rank is one of the run's.
[[nodiscard]] StepProfile step_profile(const Result& run, std::uint32_t rank);

// Measured beside predicted, class by class, largest part of the gap first, with the constant that
// would close it.
[[nodiscard]] std::string comparison_text(const StepProfile& predicted, const StepProfile& measured,
                                          const std::string& gpu);

}  // namespace trainyard
