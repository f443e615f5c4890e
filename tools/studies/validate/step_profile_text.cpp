// A measured step beside a predicted one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/validate/step_profile.hpp"

namespace trainyard {

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
  gaps.push_back({"(communication alone)", predicted.exposed_s, measured.exposed_s});
  gaps.push_back({"(no kernel)", predicted.idle_s, measured.idle_s});
  std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
    return std::abs(a.seconds()) > std::abs(b.seconds());
  });
  return gaps;
}

// What to change so that the class takes what was measured.
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
