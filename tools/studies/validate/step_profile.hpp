// The time of one rank's step by class of operation, in the same form for measured and predicted
// steps.
//
// A profile comes from a trace of the PyTorch profiler (Kineto), from a list of step times, or from
// a simulated run. Kernels of a trace are classified by their names in NCCL, cuBLAS, CUTLASS,
// cuDNN, FlashAttention, Apex and Transformer Engine. A NCCL kernel starts when its rank has
// reached the call, so its time includes waiting for other ranks; predicted communication is
// counted in the same way. all_to_all is send_recv, as in NCCL. A trace that Trainyard wrote
// (trainyard run --trace) contains the class of each kernel, and shows waiting as a separate slice.
// It reads back as the profile of its run.
//
//    const StepProfile measured = read_step_profile("trace.json");
//    measured.step_s;                                    // median over its steps
//    measured.seconds.at("gemm");                        // per step
//    const StepProfile predicted = step_profile(run, /*rank=*/0);
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
  // Seconds per step by class: gemm, attention, norm, elementwise, softmax, embedding, optimizer,
  // copy, all_reduce, all_gather, reduce_scatter, broadcast, reduce, send_recv. Empty if only step
  // times are known.
  std::map<std::string, double> seconds = {};
  double exposed_s = 0.0;  // communication while no other kernel runs
  double idle_s = 0.0;     // no kernel runs
};

// The class of a kernel by its name in a trace: "ncclDevKernel_AllGather_RING_LL" -> "all_gather",
// "sm90_xmma_gemm_bf16" -> "gemm", "flash_fwd_kernel" -> "attention".
[[nodiscard]] std::string kernel_class(std::string_view name);
[[nodiscard]] bool is_communication(std::string_view kernel_class);
// The class of a kernel by its text in a trace that Trainyard wrote: "grouped_gemm experts4 n3072
// ..." -> "gemm".
[[nodiscard]] std::string simulated_kernel_class(std::string_view text);

struct TimeSpan {
  double start_s = 0.0;
  double end_s = 0.0;
};
struct ClassSpan {
  std::string kind;
  TimeSpan time = {};
};
// The time during which at least one of the spans runs: 0..2 and 1..3 cover 3 s.
[[nodiscard]] double covered(std::vector<TimeSpan> spans);
// The profile of the kernels of one rank in a window of `steps` steps.
[[nodiscard]] StepProfile profile_of(const std::vector<ClassSpan>& kernels, double window_s,
                                     std::size_t steps);

// Reads a Chrome trace that PyTorch's profiler exported (times in microseconds; categories kernel,
// gpu_memcpy, gpu_memset; steps marked by ProfilerStep#N, else the whole trace is one step), plain
// or .gz. It also reads a list of step times in seconds, as a JSON array or one per line. Throws
// InputError.
[[nodiscard]] StepProfile read_step_profile(const std::filesystem::path& file);

// The profile of a simulated rank. REQUIRES: rank is one of the run's.
[[nodiscard]] StepProfile step_profile(const Result& run, std::uint32_t rank);

// The predicted and the measured profile class by class, the largest gap first, with the constant
// that would close it.
[[nodiscard]] std::string comparison_text(const StepProfile& predicted, const StepProfile& measured,
                                          const std::string& gpu);

}  // namespace trainyard
