#include "sim/report/figures.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr double kTera = 1e12;

// The FLOPs of one step under one convention for attention ("causal" or "full").
struct CountedFlops {
  std::string attention;
  Flops model;
  Flops hardware;
};

std::vector<CountedFlops> counted_flops(const RunFacts& facts) {
  const std::string& own = facts.flops_convention;
  const std::string other = own == "causal" ? "full" : own == "full" ? "causal" : "other";
  return {{own, facts.model_flops, facts.hardware_flops},
          {other, facts.model_flops_other, facts.hardware_flops_other}};
}

// `tflops` converts FLOPs of a step to TFLOP/s of one GPU; it returns nothing where there are none.
std::vector<Utilisation> utilisations(const RunFacts& facts,
                                      const std::function<std::optional<double>(Flops)>& tflops) {
  std::vector<Utilisation> rows;
  for (const CountedFlops& counted : counted_flops(facts)) {
    const std::optional<double> model = tflops(counted.model);
    for (const PeakRate& peak : facts.peaks) {
      if (!model || peak.rate.value() <= 0.0) continue;
      const auto share = [&](double rate) { return rate * kTera / peak.rate.value(); };
      rows.push_back({.attention = counted.attention,
                      .peak = peak,
                      .mfu = share(*model),
                      .hfu = share(tflops(counted.hardware).value_or(0.0))});
    }
  }
  return rows;
}

}  // namespace

std::vector<double> kernel_time(const RunView& view) {
  std::vector<double> seconds(view.workload.kernels.size(), 0.0);
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index) {
    const RankClass& ranks = view.partition.ranks[index];
    const Program& program = view.workload.programs.at(ranks.program);
    const OpTimes& times = view.timeline.classes.at(index);
    OpIndex next = 0;
    for (const Operation& operation : program.operations) {
      const OpIndex op = next++;
      if (operation.kind != OpKind::Compute) continue;
      seconds.at(program.kernel_of(operation)) +=
          ranks.members * (times.end_s[op] - times.start_s[op]);
    }
  }
  return seconds;
}

Figures figures(const RunView& view) {
  const RunFacts& facts = view.facts;
  const double step_s = view.step_s();
  const auto gpus = static_cast<double>(view.workload.ranks.size());
  const auto rate = [&](double amount) -> std::optional<double> {
    if (amount <= 0.0 || step_s <= 0.0) return std::nullopt;
    return amount / step_s;
  };
  const auto tflops = [&](Flops work) -> std::optional<double> {
    const auto all = rate(work.value());
    return all ? std::optional(*all / gpus / kTera) : std::nullopt;
  };
  const auto tokens = rate(facts.tokens_per_step);
  std::vector<Utilisation> rows = utilisations(facts, tflops);
  return {.step_time_s = step_s,
          .tokens_per_s = tokens,
          .tokens_per_s_per_gpu = tokens ? std::optional(*tokens / gpus) : std::nullopt,
          .model_tflops_per_gpu = tflops(facts.model_flops),
          .hardware_tflops_per_gpu = tflops(facts.hardware_flops),
          .mfu = rows.empty() ? std::nullopt : std::optional(rows.front().mfu),
          .hfu = rows.empty() ? std::nullopt : std::optional(rows.front().hfu),
          .utilisation = std::move(rows)};
}

std::optional<TrainingTotal> training_total(const RunView& view) {
  constexpr double kHour = 3600.0, kDay = 24.0 * kHour;
  const RunFacts& facts = view.facts;
  if (facts.token_budget <= 0.0 || facts.tokens_per_step <= 0.0) return {};
  const double seconds = facts.token_budget / facts.tokens_per_step * view.step_s();
  const double gpu_hours = seconds / kHour * static_cast<double>(view.workload.ranks.size());
  TrainingTotal total{.tokens = facts.token_budget, .days = seconds / kDay, .gpu_hours = gpu_hours};
  if (facts.gpu_hour_price) total.cost = *facts.gpu_hour_price * gpu_hours;
  return total;
}

CostSummary cost_summary(const RunView& view, std::size_t shapes) {
  TY_CHECK(view.kernel_costs.size() == view.workload.kernels.size(), view.kernel_costs.size(),
           view.workload.kernels.size());
  const std::vector<double> seconds = kernel_time(view);
  CostSummary summary;
  for (const double time_s : seconds) summary.busy_s += time_s;
  if (summary.busy_s <= 0.0) return summary;
  for (std::uint32_t kernel = 0; kernel < seconds.size(); ++kernel) {
    const Provenance provenance = view.kernel_costs[kernel].provenance;
    const double share = seconds[kernel] / summary.busy_s;
    summary.share[static_cast<std::size_t>(provenance)] += share;
    if (provenance == Provenance::Measured || share <= 0.0) continue;
    summary.worth_measuring.push_back(
        {.kernel = kernel, .provenance = provenance, .time_s = seconds[kernel], .share = share});
  }
  // A stable sort keeps the order of the workload among equals, so reports are reproducible.
  std::stable_sort(summary.worth_measuring.begin(), summary.worth_measuring.end(),
                   [](const KernelUse& a, const KernelUse& b) { return a.time_s > b.time_s; });
  if (summary.worth_measuring.size() > shapes) summary.worth_measuring.resize(shapes);
  return summary;
}

}  // namespace trainyard
