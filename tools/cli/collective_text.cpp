#include "tools/cli/collective_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/render/text_table.hpp"
#include "tools/studies/collective/comparison.hpp"
#include "tools/studies/collective/groups.hpp"
#include "tools/studies/collective/rows.hpp"
#include "tools/studies/collective/sizes.hpp"

namespace trainyard {

namespace {

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::AllReduce || op == CollectiveOp::ReduceScatter ||
         op == CollectiveOp::Reduce;
}

bool has_root(CollectiveOp op) {
  return op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce;
}

// "-" where the size was not measured.
void add_measured(std::vector<std::string>& cells, const CollectiveRow& row,
                  const MeasuredTime* time) {
  if (time == nullptr) {
    cells.insert(cells.end(), {"-", "-", "-"});
    return;
  }
  cells.push_back(fmt::format("{:.2f}", time->time_s * 1e6));
  cells.push_back(fmt::format("{:.2f}", time->busbw * 1e-9));
  cells.push_back(signed_percent(row.time_s / time->time_s - 1.0));
}

std::string agreement_text(const AlgorithmStudy& algorithm, const MeasuredTimes& measured) {
  const Agreement agreement = agreement_of(algorithm, measured);
  if (agreement.sizes == 0) return "  no size of the log is among those asked for\n";
  return fmt::format("  against {}: mean absolute error {} over {} sizes, bias {}\n", measured.file,
                     percent(agreement.mape), agreement.sizes, signed_percent(agreement.bias));
}

std::string table_of(const CollectiveStudy& study, const AlgorithmStudy& algorithm,
                     const MeasuredTimes* measured) {
  const bool chooses = std::any_of(algorithm.rows.begin(), algorithm.rows.end(),
                                   [](const CollectiveRow& row) { return !row.choice.empty(); });
  std::vector<std::string> titles{"size (B)", "count",        "type",         "redop",
                                  "root",     "time (us)",    "algbw (GB/s)", "busbw (GB/s)",
                                  "latency",  "busiest link", "load"};
  if (measured != nullptr) titles.insert(titles.end(), {"measured (us)", "busbw (GB/s)", "error"});
  if (chooses) titles.emplace_back("choice");
  TextTable table(std::move(titles));
  for (const CollectiveRow& row : algorithm.rows) {
    std::vector<std::string> cells{fmt::format("{}", row.bytes),
                                   fmt::format("{}", element_count(study, row.bytes)),
                                   std::string(nccl_type_name(study.dtype)),
                                   reduces(study.op) ? "sum" : "none",
                                   has_root(study.op) ? "0" : "-1",
                                   fmt::format("{:.2f}", row.time_s * 1e6),
                                   fmt::format("{:.2f}", row.algbw * 1e-9),
                                   fmt::format("{:.2f}", row.busbw * 1e-9),
                                   percent(row.latency_s / row.time_s),
                                   row.link ? std::string(to_string(row.link->kind)) : "-",
                                   row.link ? percent(row.link->load) : "-"};
    if (measured != nullptr) add_measured(cells, row, measured->at(row.bytes));
    if (chooses) cells.push_back(row.choice);
    table.row(std::move(cells));
  }
  return fmt::format("{}\n{}{}\n", algorithm.algorithm, table.text(),
                     measured != nullptr ? agreement_text(algorithm, *measured) : "");
}

std::string winners_text(const CollectiveStudy& study) {
  TextTable table({"size", "quickest", "time (us)", "bottleneck", "next", "slower by"});
  for (std::size_t i = 0; const Winner& winner : winners(study)) {
    const CollectiveRow& best = study.algorithms[winner.algorithm].rows[i];
    const AlgorithmStudy* next = winner.second ? &study.algorithms[*winner.second] : nullptr;
    table.row({size_text(winner.bytes), study.algorithms[winner.algorithm].algorithm,
               fmt::format("{:.2f}", best.time_s * 1e6), best.bottleneck(),
               next ? next->algorithm : "-",
               next ? percent(next->rows[i].time_s / best.time_s - 1.0) : "-"});
    ++i;
  }
  return "Quickest by size\n" + table.text() + "\n";
}

std::string crossovers_text(const CollectiveStudy& study) {
  std::string text;
  for (const Crossover& at : crossovers(study)) {
    text += fmt::format("  {} overtakes {} at about {} (between {} and {})\n",
                        study.algorithms[at.to].algorithm, study.algorithms[at.from].algorithm,
                        to_text(Bytes{at.bytes}), size_text(at.below), size_text(at.above));
  }
  if (text.empty()) text = "  none: one algorithm is the quickest at every size\n";
  return "Crossovers\n" + text;
}

}  // namespace

std::string collective_text(const CollectiveStudy& study, const std::string& place,
                            const MeasuredTimes* measured) {
  std::string text =
      fmt::format("{} over {} ranks of {}\n\n", to_string(study.op), study.ranks, place);
  std::string refused;
  bool any = false;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    if (algorithm.refusal) {
      refused +=
          wrapped(fmt::format("  {}: {}", algorithm.algorithm, *algorithm.refusal), 4) + "\n";
    } else {
      text += table_of(study, algorithm, measured);
      any = true;
    }
  }
  if (any) text += winners_text(study) + crossovers_text(study);
  if (!refused.empty()) text += (any ? "\n" : "") + std::string("Not for this group\n") + refused;
  return text;
}

std::string interference_text(const InterferenceStudy& study, const std::string& place) {
  TextTable table({"size", "groups", "collective", "algorithm", "ranks of one", "alone (us)",
                   "together (us)", "slower by", "busbw (GB/s)", "shared link", "groups on it",
                   "load"});
  for (const GroupRow& row : study.rows) {
    table.row({size_text(row.bytes), fmt::format("{}", row.groups), std::string(to_string(row.op)),
               row.algorithm, ranks_text(row.ranks), fmt::format("{:.2f}", row.alone_s * 1e6),
               fmt::format("{:.2f}", row.together_s * 1e6), percent(row.slowdown() - 1.0),
               fmt::format("{:.2f}", row.busbw_together() * 1e-9),
               row.shared ? row.shared->name : "-",
               row.shared ? fmt::format("{}", row.shared->groups) : "-",
               row.shared ? percent(row.shared->load) : "-"});
  }
  return fmt::format("Groups at once on {}\n\n{}", place, table.text());
}

}  // namespace trainyard
