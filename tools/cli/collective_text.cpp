#include "tools/cli/collective_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/collective/comparison.hpp"
#include "scenarios/collective/rows.hpp"
#include "scenarios/collective/sizes.hpp"
#include "sim/report/text_table.hpp"

namespace trainyard {

namespace {

// As nccl-tests names them.
std::string_view type_name(DataType dtype) {
  switch (dtype) {
    case DataType::Bf16:
      return "bfloat16";
    case DataType::Fp16:
      return "half";
    case DataType::Fp8:
      return "f8e4m3";
    case DataType::Fp32:
    case DataType::Tf32:
      return "float";
  }
  return "float";
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::AllReduce || op == CollectiveOp::ReduceScatter ||
         op == CollectiveOp::Reduce;
}

bool has_root(CollectiveOp op) {
  return op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce;
}

std::string table_of(const CollectiveStudy& study, const AlgorithmStudy& algorithm) {
  const bool chooses = std::any_of(algorithm.rows.begin(), algorithm.rows.end(),
                                   [](const CollectiveRow& row) { return !row.choice.empty(); });
  std::vector<std::string> titles{"size (B)", "count",        "type",         "redop",
                                  "root",     "time (us)",    "algbw (GB/s)", "busbw (GB/s)",
                                  "latency",  "busiest link", "load"};
  if (chooses) titles.emplace_back("choice");
  TextTable table(std::move(titles));
  for (const CollectiveRow& row : algorithm.rows) {
    std::vector<std::string> cells{fmt::format("{}", row.bytes),
                                   fmt::format("{}", element_count(study, row.bytes)),
                                   std::string(type_name(study.dtype)),
                                   reduces(study.op) ? "sum" : "none",
                                   has_root(study.op) ? "0" : "-1",
                                   fmt::format("{:.2f}", row.time_s * 1e6),
                                   fmt::format("{:.2f}", row.algbw * 1e-9),
                                   fmt::format("{:.2f}", row.busbw * 1e-9),
                                   percent(row.latency_s / row.time_s),
                                   row.link ? std::string(to_string(row.link->kind)) : "-",
                                   row.link ? percent(row.link->load) : "-"};
    if (chooses) cells.push_back(row.choice);
    table.row(std::move(cells));
  }
  return fmt::format("{}\n{}\n", algorithm.algorithm, table.text());
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

std::string collective_text(const CollectiveStudy& study, const std::string& place) {
  std::string text =
      fmt::format("{} over {} ranks of {}\n\n", to_string(study.op), study.ranks, place);
  std::string refused;
  bool any = false;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    if (algorithm.refusal) {
      refused +=
          wrapped(fmt::format("  {}: {}", algorithm.algorithm, *algorithm.refusal), 4) + "\n";
    } else {
      text += table_of(study, algorithm);
      any = true;
    }
  }
  if (any) text += winners_text(study) + crossovers_text(study);
  if (!refused.empty()) text += (any ? "\n" : "") + std::string("Not for this group\n") + refused;
  return text;
}

}  // namespace trainyard
