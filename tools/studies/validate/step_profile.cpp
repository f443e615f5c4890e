#include "tools/studies/validate/step_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

// Parts of kernel names and their classes. Names are compared in lower case, and the first part
// that occurs decides, so the order matters.
constexpr std::array<std::pair<std::string_view, std::string_view>, 44> kClasses{{
    {"allreduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"reducescatter", "reduce_scatter"},
    {"ncclkernel_broadcast", "broadcast"},
    {"nccldevkernel_broadcast", "broadcast"},
    {"ncclkernel_reduce", "reduce"},
    {"nccldevkernel_reduce", "reduce"},
    {"sendrecv", "send_recv"},
    {"alltoall", "send_recv"},
    {"nccl", "send_recv"},
    {"fmha", "attention"},
    {"flash", "attention"},
    {"sdpa", "attention"},
    {"attention", "attention"},
    {"layer_norm", "norm"},
    {"layernorm", "norm"},
    {"rms_norm", "norm"},
    {"rmsnorm", "norm"},
    {"ln_fwd", "norm"},
    {"ln_bwd", "norm"},
    {"adam", "optimizer"},
    {"multi_tensor_apply", "optimizer"},
    {"multitensorapply", "optimizer"},
    {"l2norm", "optimizer"},
    {"cross_entropy", "softmax"},
    {"crossentropy", "softmax"},
    {"softmax", "softmax"},
    {"nll_loss", "softmax"},
    {"embedding", "embedding"},
    {"indexselect", "embedding"},
    {"memcpy", "copy"},
    {"memset", "copy"},
    {"gemm", "gemm"},
    {"gemv", "gemm"},
    {"nvjet", "gemm"},
    {"cutlass", "gemm"},
    {"wgmma", "gemm"},
    {"xmma", "gemm"},
    {"cublas", "gemm"},
    {"splitk", "gemm"},
    {"_mm_", "gemm"},
    {"s16816", "gemm"},
    {"s1688", "gemm"},
    {"cijk_", "gemm"},
}};

std::string class_of(MemoryBoundKind kind) {
  switch (kind) {
    case MemoryBoundKind::Norm:
      return "norm";
    case MemoryBoundKind::Softmax:
    case MemoryBoundKind::CrossEntropy:
      return "softmax";
    case MemoryBoundKind::Embedding:
      return "embedding";
    case MemoryBoundKind::Optimizer:
    case MemoryBoundKind::GradNorm:
      return "optimizer";
    case MemoryBoundKind::Zero:
      return "copy";
    default:
      return "elementwise";
  }
}

std::string class_of(const Kernel& kernel) {
  if (std::holds_alternative<Attention>(kernel)) return "attention";
  if (std::holds_alternative<Copy>(kernel)) return "copy";
  const auto* bound = std::get_if<MemoryBound>(&kernel);
  return bound == nullptr ? "gemm" : class_of(bound->kind);
}

std::string class_of(CollectiveOp op) {
  return op == CollectiveOp::AllToAll ? "send_recv" : std::string(to_string(op));
}

}  // namespace

std::string kernel_class(std::string_view name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  for (const auto& [part, kind] : kClasses) {
    if (small.find(part) != std::string::npos) return std::string(kind);
  }
  return "elementwise";
}

// The text of a simulated kernel begins with its kind (sim/workload/kernel.cpp). Every other first
// word is that of a GEMM.
std::string simulated_kernel_class(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  if (word == "attention" || word == "copy") return std::string(word);
  for (auto kind = MemoryBoundKind::Norm; kind <= MemoryBoundKind::Zero;
       kind = static_cast<MemoryBoundKind>(static_cast<int>(kind) + 1)) {
    if (word == to_string(kind)) return class_of(kind);
  }
  return "gemm";
}

bool is_communication(std::string_view kernel_class) {
  constexpr std::array<std::string_view, 6> kKinds{"all_reduce", "all_gather", "reduce_scatter",
                                                   "broadcast",  "reduce",     "send_recv"};
  return std::find(kKinds.begin(), kKinds.end(), kernel_class) != kKinds.end();
}

// The length of the union of the spans.
double covered(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.start_s < b.start_s; });
  double sum = 0.0;
  // the end of the union of the spans so far
  double until = -1.0;
  for (const TimeSpan& span : spans) {
    sum += std::max(0.0, span.end_s - std::max(until, span.start_s));
    until = std::max(until, span.end_s);
  }
  return sum;
}

StepProfile profile_of(const std::vector<ClassSpan>& kernels, double window_s, std::size_t steps) {
  const double share = 1.0 / static_cast<double>(steps);
  StepProfile profile{.step_s = window_s * share, .steps = steps};
  std::vector<TimeSpan> all, computing;
  for (const ClassSpan& kernel : kernels) {
    profile.seconds[kernel.kind] += (kernel.time.end_s - kernel.time.start_s) * share;
    all.push_back(kernel.time);
    if (!is_communication(kernel.kind)) computing.push_back(kernel.time);
  }
  // Exposed communication is the time when some kernel runs minus the time when a computing kernel
  // runs.
  const double busy = covered(std::move(all));
  profile.exposed_s = (busy - covered(std::move(computing))) * share;
  profile.idle_s = std::max(0.0, window_s - busy) * share;
  return profile;
}

StepProfile step_profile(const Result& run, std::uint32_t rank) {
  TY_CHECK(rank < run.partition->class_of_rank.size(), rank);
  const std::uint32_t index = run.partition->class_of_rank[rank];
  const OpTimes& times = run.timeline.classes[index];
  const Program& program = run.workload->programs[run.partition->ranks[index].program];
  std::vector<ClassSpan> kernels;
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    if (operation.kind == OpKind::Delay) continue;
    // Communication counts from the time at which the rank is ready, because a NCCL kernel of a
    // trace also waits for its peers.
    const bool computes = operation.kind == OpKind::Compute;
    kernels.push_back(
        {.kind = computes ? class_of(run.workload->kernels[program.kernel_of(operation)])
                          : class_of(op_of(run.workload->calls[operation.payload])),
         .time = {computes ? times.start_s[op] : times.ready_s[op], times.end_s[op]}});
  }
  return profile_of(kernels, run.timeline.makespan_s, 1);
}

namespace {

constexpr double kWorthClosing = 0.02;  // of the measured step

double at(const StepProfile& profile, const std::string& kind) {
  const auto entry = profile.seconds.find(kind);
  return entry == profile.seconds.end() ? 0.0 : entry->second;
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); }

std::string ratio(double predicted, double measured) {
  return measured > 0.0 ? signed_percent(predicted / measured - 1.0) : "";
}

struct Gap {
  std::string kind;
  double predicted_s = 0.0;
  double measured_s = 0.0;
  [[nodiscard]] double seconds() const { return predicted_s - measured_s; }
};

std::vector<Gap> gaps_of(const StepProfile& predicted, const StepProfile& measured) {
  std::set<std::string> kinds;
  for (const StepProfile* profile : {&predicted, &measured})
    for (const auto& [kind, seconds] : profile->seconds) kinds.insert(kind);
  std::vector<Gap> gaps;
  for (const std::string& kind : kinds)
    gaps.push_back({kind, at(predicted, kind), at(measured, kind)});
  // The two lines in parentheses are no classes of kernels.
  gaps.push_back({"(communication alone)", predicted.exposed_s, measured.exposed_s});
  gaps.push_back({"(no kernel)", predicted.idle_s, measured.idle_s});
  std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
    return std::abs(a.seconds()) > std::abs(b.seconds());
  });
  return gaps;
}

// The change of a constant that would close the gap of the class.
std::string remedy(const Gap& gap, const std::string& gpu) {
  if (gap.kind == "(no kernel)")
    return "\"host\" (models/hosts): how fast the CPU issues kernels, and the time between steps";
  if (gap.kind == "(communication alone)")
    return "overlap_grad_reduce, overlap_param_gather, overlap_p2p and the sizes of buckets";
  if (!(gap.predicted_s > 0.0)) return "nothing of the kind is predicted: is the model the same?";
  if (!(gap.measured_s > 0.0)) return "nothing of the kind was measured: is it fused into others?";
  const double factor = gap.measured_s / gap.predicted_s;
  if (is_communication(gap.kind))
    return fmt::format("a measured \"collectives\" profile of {} (rate x {:.3f})", gap.kind,
                       1.0 / factor);
  if (gap.kind == "gemm")
    return fmt::format("kernels/profiles/{}.json#/gemm/sustained_time/value x {:.3f}", gpu, factor);
  return fmt::format("the {} figures of kernels/profiles/{}.json: time x {:.3f}", gap.kind, gpu,
                     factor);
}

}  // namespace

std::string comparison_text(const StepProfile& predicted, const StepProfile& measured,
                            const std::string& gpu) {
  const double difference = predicted.step_s - measured.step_s;
  std::string text = fmt::format("Step: predicted {}, measured {} (median of {}), {}\n",
                                 milliseconds(predicted.step_s), milliseconds(measured.step_s),
                                 measured.steps, ratio(predicted.step_s, measured.step_s));
  if (measured.seconds.empty()) {
    return text +
           "Only step times were given: a trace of torch.profiler would say where they part\n";
  }
  TextTable table(
      {"kernels of one rank", "predicted", "measured", "difference", "of the step", ""});
  std::string remedies;
  for (const Gap& gap : gaps_of(predicted, measured)) {
    const double share = gap.seconds() / measured.step_s;
    table.row({gap.kind, milliseconds(gap.predicted_s), milliseconds(gap.measured_s),
               milliseconds(gap.seconds()), signed_percent(share),
               ratio(gap.predicted_s, gap.measured_s)});
    if (std::abs(share) < kWorthClosing) continue;
    remedies += wrapped(fmt::format("  {}: {}", gap.kind, remedy(gap, gpu)), 6) + "\n";
  }
  text += "\n" + table.text();
  text += fmt::format(
      "\nKernels may overlap; the last two lines and the time in which others "
      "compute add up to the step ({} apart)\n",
      milliseconds(difference));
  if (!remedies.empty()) text += "\nWhat would close it\n" + remedies;
  return text;
}

}  // namespace trainyard
