// The time of one rank's step by kind of operation, in the same form for measured and simulated
// steps.
//
// A measured step comes from a trace of the PyTorch profiler (Kineto), from an SQLite export of
// Nsight Systems, or from a list of step times. Where steps are marked (ProfilerStep#N, or a NVTX
// range such as "iteration 12"), it is the step of median length; else the whole trace is one step.
// A NCCL kernel starts when its rank has reached the call, so its time includes waiting for other
// ranks; simulated communication is counted in the same way. A trace that Trainyard wrote
// (trainyard run --trace) contains the kind of each kernel, and shows waiting as a separate slice.
// It reads back as the profile of its run.
//
//    const StepProfile measured = read_step_profiles("trace.json", {}).front();
//    measured.step_s;                                      // of the median step
//    measured.kinds.at(OperationKind::Gemm).seconds;       // in that step
//    const StepProfile simulated = step_profile(run, /*rank=*/0);
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"
#include "scenarios/import/nsys.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

struct KindTime {
  double seconds = 0.0;
  double kernels = 0.0;
};

struct StepProfile {
  std::string source = {};                 // the file, for a measured step
  std::optional<std::uint32_t> rank = {};  // that the file names
  double step_s = 0.0;
  std::size_t steps = 1;                         // of which this is the median
  std::map<OperationKind, KindTime> kinds = {};  // empty if only step times are known
  double exposed_s = 0.0;                        // communication while no other kernel runs
  double idle_s = 0.0;                           // no kernel runs
  // False if NCCL's messages may be all_to_all as well: the trace does not name its collectives.
  bool tells_all_to_all = true;
  std::vector<std::string> assumptions = {};  // one sentence each
};

struct TimeSpan {
  double start_s = 0.0;
  double end_s = 0.0;
};
struct KindSpan {
  OperationKind kind = OperationKind::NormElementwise;
  TimeSpan time = {};
  double kernels = 1.0;
};
// The time during which at least one of the spans runs: 0..2 and 1..3 cover 3 s.
[[nodiscard]] double covered(std::vector<TimeSpan> spans);
// The profile of the kernels of one rank in a window. Kernels are cut at its ends, and count in the
// window in which they start.
[[nodiscard]] StepProfile profile_of(const std::vector<KindSpan>& kernels, const TimeSpan& window);

// The profile of the median step of a trace.
[[nodiscard]] StepProfile step_profile(const GpuTrace& trace);

// Reads measured steps; an export of Nsight Systems has one for each GPU. Also reads a list of step
// times in seconds, as a JSON array or one per line. Throws InputError.
[[nodiscard]] std::vector<StepProfile> read_step_profiles(const std::filesystem::path& file,
                                                          const NsysOptions& options);

// The profile of a simulated rank. REQUIRES: rank is one of the run's.
[[nodiscard]] StepProfile step_profile(const Result& run, std::uint32_t rank);

}  // namespace trainyard
