#include "tools/studies/validate/step_profile.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

OperationKind kind_of(const Kernel& kernel) {
  if (std::holds_alternative<Attention>(kernel)) return OperationKind::Attention;
  if (std::holds_alternative<Copy>(kernel)) return OperationKind::Copy;
  const auto* bound = std::get_if<MemoryBound>(&kernel);
  return bound == nullptr ? OperationKind::Gemm : trainyard::kind_of(bound->kind);
}

// Kernels that the GPU launches for one simulated kernel. Experts without a grouped GEMM have one
// launch each.
double launches_of(const Kernel& kernel) {
  if (const auto* bound = std::get_if<MemoryBound>(&kernel))
    return static_cast<double>(std::max<std::int64_t>(1, bound->launches));
  const auto* grouped = std::get_if<GroupedGemm>(&kernel);
  return grouped != nullptr && grouped->per_expert ? static_cast<double>(grouped->rows.size())
                                                   : 1.0;
}

}  // namespace

// The length of the union of the spans. One pass in the order of their starts: each span adds what
// lies after the end so far.
double covered(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.start_s < b.start_s; });
  if (spans.empty()) return 0.0;
  double sum = 0.0;
  // the end of the union of the spans so far
  double until = spans.front().start_s;
  for (const TimeSpan& span : spans) {
    sum += std::max(0.0, span.end_s - std::max(until, span.start_s));
    until = std::max(until, span.end_s);
  }
  return sum;
}

StepProfile profile_of(const std::vector<KindSpan>& kernels, const TimeSpan& window) {
  StepProfile profile{.step_s = window.end_s - window.start_s};
  std::vector<TimeSpan> all, computing;
  for (const KindSpan& kernel : kernels) {
    const TimeSpan inside{std::max(kernel.time.start_s, window.start_s),
                          std::min(kernel.time.end_s, window.end_s)};
    // A kernel across the border of two windows gives each its time, and its count to the window in
    // which it starts.
    const bool starts = kernel.time.start_s >= window.start_s && kernel.time.start_s < window.end_s;
    if (inside.end_s <= inside.start_s && !starts) continue;
    KindTime& time = profile.kinds[kernel.kind];
    time.seconds += std::max(0.0, inside.end_s - inside.start_s);
    if (starts) time.kernels += kernel.kernels;
    all.push_back(inside);
    if (!is_communication(kernel.kind)) computing.push_back(inside);
  }
  // Exposed communication is the time when some kernel runs minus the time when a computing kernel
  // runs.
  const double busy = covered(std::move(all));
  profile.exposed_s = busy - covered(std::move(computing));
  profile.idle_s = std::max(0.0, profile.step_s - busy);
  return profile;
}

StepProfile step_profile(const Result& run, std::uint32_t rank) {
  TY_CHECK(rank < run.partition->class_of_rank.size(), rank);
  // The ranks of a class have equal times, so the timeline holds each class once.
  const std::uint32_t index = run.partition->class_of_rank[rank];
  const OpTimes& times = run.timeline.classes[index];
  const Program& program = run.workload->programs[run.partition->ranks[index].program];
  std::vector<KindSpan> kernels;
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    if (operation.kind == OpKind::Delay) continue;
    // Communication counts from the time at which the rank is ready, because a NCCL kernel of a
    // trace also waits for its peers.
    if (operation.kind == OpKind::Compute) {
      const Kernel& kernel = run.workload->kernels[program.kernel_of(operation)];
      kernels.push_back(
          {kind_of(kernel), {times.start_s[op], times.end_s[op]}, launches_of(kernel)});
      continue;
    }
    kernels.push_back({trainyard::kind_of(op_of(run.workload->calls[operation.payload])),
                       {times.ready_s[op], times.end_s[op]}});
  }
  StepProfile profile = profile_of(kernels, {0.0, run.timeline.makespan_s});
  profile.rank = rank;
  return profile;
}

}  // namespace trainyard
