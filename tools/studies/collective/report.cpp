#include "tools/studies/collective/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/csv.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/interference.hpp"

namespace trainyard {

namespace {

// Relative difference below which two times are equal; the first algorithm then wins.
constexpr double kEqual = 1e-9;

// The index of the quickest algorithm at one size, optionally without one of them.
std::optional<std::size_t> quickest(const CollectiveStudy& study, std::size_t size,
                                    std::optional<std::size_t> without) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    if (study.algorithms[i].refusal || i == without) continue;
    const double time_s = study.algorithms[i].rows[size].time_s;
    if (!best || time_s < study.algorithms[*best].rows[size].time_s * (1.0 - kEqual)) best = i;
  }
  return best;
}

// The time by which algorithm `a` is slower than `b`.
double lead_s(const CollectiveStudy& study, std::size_t a, std::size_t b, std::size_t size) {
  return study.algorithms[a].rows[size].time_s - study.algorithms[b].rows[size].time_s;
}

}  // namespace

std::vector<Winner> winners(const CollectiveStudy& study) {
  std::vector<Winner> result;
  for (std::size_t size = 0; size < study.sizes.size(); ++size) {
    const std::optional<std::size_t> best = quickest(study, size, {});
    if (!best) return {};
    result.push_back(
        {.bytes = study.sizes[size], .algorithm = *best, .second = quickest(study, size, best)});
  }
  return result;
}

// A crossover lies between two neighbouring sizes with different winners. On this interval both
// times are taken as straight lines, whose intersection is the crossover.
std::vector<Crossover> crossovers(const CollectiveStudy& study) {
  const std::vector<Winner> best = winners(study);
  std::vector<Crossover> result;
  for (std::size_t size = 1; size < best.size(); ++size) {
    const std::size_t from = best[size - 1].algorithm;
    const std::size_t to = best[size].algorithm;
    if (from == to) continue;
    const double before = lead_s(study, from, to, size - 1);  // at most 0
    const double after = lead_s(study, from, to, size);       // above 0
    const auto below = static_cast<double>(best[size - 1].bytes);
    const auto above = static_cast<double>(best[size].bytes);
    result.push_back({.from = from,
                      .to = to,
                      .below = best[size - 1].bytes,
                      .above = best[size].bytes,
                      .bytes = below + (above - below) * before / (before - after)});
  }
  return result;
}

namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

void add_measured(nlohmann::ordered_json& object, const CollectiveRow& row,
                  const MeasuredTime* time) {
  object["measured_time_us"] = nullptr;
  object["measured_busbw_GBps"] = nullptr;
  object["error"] = nullptr;
  if (time == nullptr) return;
  object["measured_time_us"] = time->time_s * kMicro;
  object["measured_busbw_GBps"] = time->busbw * kGiga;
  object["error"] = row.time_s / time->time_s - 1.0;
}

// The three measured cells of a CSV line, each with a comma before it.
std::string measured_cells(const CollectiveRow& row, const MeasuredTime* time) {
  if (time == nullptr) return ",,,";
  return fmt::format(",{},{},{}", time->time_s * kMicro, time->busbw * kGiga,
                     row.time_s / time->time_s - 1.0);
}

}  // namespace

// The elements as nccl-tests counts them: those of one rank's part where the operation divides the
// buffer among the ranks.
std::int64_t element_count(const CollectiveStudy& study, std::int64_t bytes) {
  const bool parts = study.op == CollectiveOp::AllGather ||
                     study.op == CollectiveOp::ReduceScatter || study.op == CollectiveOp::AllToAll;
  const auto width = static_cast<std::int64_t>(element_bytes(study.dtype));
  return bytes / width / (parts ? study.ranks : 1);
}

nlohmann::ordered_json study_json(const CollectiveStudy& study, const MeasuredTimes* measured) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      nlohmann::ordered_json object;
      object["op"] = to_string(study.op);
      object["algorithm"] = algorithm.algorithm;
      object["protocol"] = nullptr;
      if (!row.choice.empty()) object["protocol"] = row.choice;
      object["ranks"] = study.ranks;
      object["size_bytes"] = row.bytes;
      object["time_us"] = row.time_s * kMicro;
      object["algbw_GBps"] = row.algbw * kGiga;
      object["busbw_GBps"] = row.busbw * kGiga;
      object["bottleneck"] = row.bottleneck();
      object["interval_us"] = nullptr;
      if (row.spread)
        object["interval_us"] = {row.time_s * row.spread->low * kMicro,
                                 row.time_s * row.spread->high * kMicro};
      if (measured != nullptr) add_measured(object, row, measured->at(row.bytes));
      rows.push_back(std::move(object));
    }
  }
  return rows;
}

std::string study_csv(const CollectiveStudy& study, const MeasuredTimes* measured) {
  std::string text =
      "op,algorithm,protocol,ranks,size_bytes,count,time_us,latency_us,algbw_GBps,busbw_GBps,"
      "bottleneck,link,link_load";
  text += measured == nullptr ? "\n" : ",measured_time_us,measured_busbw_GBps,error\n";
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}", to_string(study.op),
                          algorithm.algorithm, csv_field(row.choice), study.ranks, row.bytes,
                          element_count(study, row.bytes), row.time_s * kMicro,
                          row.latency_s * kMicro, row.algbw * kGiga, row.busbw * kGiga,
                          row.bottleneck(), row.link ? to_string(row.link->kind) : "",
                          row.link ? fmt::format("{}", row.link->load) : "");
      if (measured != nullptr) text += measured_cells(row, measured->at(row.bytes));
      text += '\n';
    }
  }
  return text;
}

nlohmann::ordered_json interference_json(const InterferenceStudy& study) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const GroupRow& row : study.rows) {
    nlohmann::ordered_json object;
    object["op"] = to_string(row.op);
    object["algorithm"] = row.algorithm;
    object["groups"] = row.groups;
    object["ranks"] = row.ranks;
    object["size_bytes"] = row.bytes;
    object["alone_us"] = row.alone_s * 1e6;
    object["together_us"] = row.together_s * 1e6;
    object["slowdown"] = row.slowdown();
    object["busbw_alone_GBps"] = row.busbw_alone() * 1e-9;
    object["busbw_together_GBps"] = row.busbw_together() * 1e-9;
    object["shared_link"] = nullptr;
    object["shared_by"] = nullptr;
    object["shared_link_load"] = nullptr;
    if (row.shared) {
      object["shared_link"] = row.shared->name;
      object["shared_by"] = row.shared->groups;
      object["shared_link_load"] = row.shared->load;
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string interference_csv(const InterferenceStudy& study) {
  std::string text =
      "op,algorithm,groups,ranks,size_bytes,alone_us,together_us,slowdown,busbw_alone_GBps,"
      "busbw_together_GBps,shared_link,shared_by,shared_link_load\n";
  for (const GroupRow& row : study.rows) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", to_string(row.op), row.algorithm, row.groups,
        fmt::join(row.ranks, " "), row.bytes, row.alone_s * 1e6, row.together_s * 1e6,
        row.slowdown(), row.busbw_alone() * 1e-9, row.busbw_together() * 1e-9,
        row.shared ? row.shared->name : "", row.shared ? fmt::format("{}", row.shared->groups) : "",
        row.shared ? fmt::format("{}", row.shared->load) : "");
  }
  return text;
}

namespace {

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::AllReduce || op == CollectiveOp::ReduceScatter ||
         op == CollectiveOp::Reduce;
}

bool has_root(CollectiveOp op) {
  return op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce;
}

// Adds the measured cells, or "-" if the size was not measured.
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

}  // namespace

std::string agreement_line(const AlgorithmStudy& algorithm, const MeasuredTimes& measured) {
  const Agreement agreement = agreement_of(algorithm, measured);
  if (agreement.sizes == 0) return "the log has none of the requested sizes";
  return fmt::format("against {}: mean absolute error {} over {} sizes, bias {}", measured.file,
                     percent(agreement.mape), agreement.sizes, signed_percent(agreement.bias));
}

std::vector<std::string> spread_lines(const AlgorithmStudy& algorithm) {
  std::vector<std::string> lines;
  for (const CollectiveRow& row : algorithm.rows) {
    if (!row.spread) continue;
    const nccl::CallSpread& spread = *row.spread;
    std::string line = fmt::format(
        "{}: nine of ten measured calls took {:.2f} to {:.2f} times the predicted time, on {} that "
        "were not fitted ({} calls)",
        nccl::calls_of(spread), spread.low, spread.high,
        spread.nodes_most == 1 ? fmt::format("{} tables and logs", spread.clusters)
                               : fmt::format("{} clusters", spread.clusters),
        spread.calls);
    // All sizes of a class have the same spread, which is said once.
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

TextTable algorithm_table(const CollectiveStudy& study, const AlgorithmStudy& algorithm,
                          const MeasuredTimes* measured) {
  const bool chooses = std::any_of(algorithm.rows.begin(), algorithm.rows.end(),
                                   [](const CollectiveRow& row) { return !row.choice.empty(); });
  // The first eight columns are those of nccl-tests, whose root is -1 where there is none.
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
  return table;
}

TextTable winners_table(const CollectiveStudy& study) {
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
  return table;
}

std::vector<std::string> crossover_lines(const CollectiveStudy& study) {
  std::vector<std::string> lines;
  for (const Crossover& at : crossovers(study)) {
    lines.push_back(fmt::format("{} overtakes {} at about {} (between {} and {})",
                                study.algorithms[at.to].algorithm,
                                study.algorithms[at.from].algorithm, to_text(Bytes{at.bytes}),
                                size_text(at.below), size_text(at.above)));
  }
  if (lines.empty()) lines.emplace_back("none: one algorithm is the quickest at every size");
  return lines;
}

namespace {

std::string table_of(const CollectiveStudy& study, const AlgorithmStudy& algorithm,
                     const MeasuredTimes* measured) {
  std::string text = fmt::format("{}\n{}", algorithm.algorithm,
                                 algorithm_table(study, algorithm, measured).text());
  if (measured != nullptr) text += "  " + agreement_line(algorithm, *measured) + "\n";
  for (const std::string& line : spread_lines(algorithm)) text += wrapped("  " + line, 4);
  return text + "\n";
}

std::string crossovers_text(const CollectiveStudy& study) {
  std::string text = "Crossovers\n";
  for (const std::string& line : crossover_lines(study)) text += "  " + line + "\n";
  return text;
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
  if (any)
    text += "Quickest by size\n" + winners_table(study).text() + "\n" + crossovers_text(study);
  if (!refused.empty()) text += (any ? "\n" : "") + std::string("Not for this group\n") + refused;
  return text;
}

TextTable interference_table(const InterferenceStudy& study) {
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
  return table;
}

std::string interference_text(const InterferenceStudy& study, const std::string& place) {
  return fmt::format("Groups at once on {}\n\n{}", place, interference_table(study).text());
}

}  // namespace trainyard
