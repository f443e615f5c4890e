#include "sim/report/cost_summary.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

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

}  // namespace

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
  std::stable_sort(summary.worth_measuring.begin(), summary.worth_measuring.end(),
                   [](const KernelUse& a, const KernelUse& b) { return a.time_s > b.time_s; });
  if (summary.worth_measuring.size() > shapes) summary.worth_measuring.resize(shapes);
  return summary;
}

}  // namespace trainyard
