#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "sim/render/text_table.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/memory/memory_report.hpp"
#include "tools/studies/memory/rule_of_thumb.hpp"

namespace trainyard {

namespace {

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

std::int64_t sum(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// The most that the stage holds in each of `columns` equal parts of the step.
std::vector<std::int64_t> peaks_over_time(const RunView& view, std::uint32_t rank_class,
                                          std::size_t columns) {
  const auto curve = view.memory_curve_of(rank_class);
  const double step_s = view.timeline.makespan_s;
  std::vector<std::int64_t> peaks(columns, 0);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double end_s = i + 1 < curve.size() ? curve[i + 1].time_s : step_s;
    const auto column = [&](double time_s) {
      const double part = step_s > 0.0 ? time_s / step_s : 0.0;
      return std::min(columns - 1, static_cast<std::size_t>(part * static_cast<double>(columns)));
    };
    for (std::size_t at = column(curve[i].time_s); at <= column(end_s); ++at)
      peaks[at] = std::max(peaks[at], sum(curve[i].by_category));
  }
  return peaks;
}

// One digit for each part of the step: tenths of the GPU's memory, '!' beyond it.
std::string over_time(const RunView& view) {
  constexpr std::size_t kColumns = 80;
  std::string text = "Memory over the step, in tenths of the GPU's (! is more than it has)\n";
  for (const StageMemory& stage : stage_memory(view)) {
    if (stage.capacity_bytes <= 0) return "";
    std::string line;
    for (const std::int64_t bytes : peaks_over_time(view, stage.rank_class, kColumns)) {
      const std::int64_t tenth = bytes * 10 / stage.capacity_bytes;
      line += bytes > stage.capacity_bytes
                  ? '!'
                  : static_cast<char>('0' + std::min<std::int64_t>(tenth, 9));
    }
    text += fmt::format("  stage {:>3}  {}\n", stage.stage, line);
  }
  return text;
}

std::string categories(const RunView& view) {
  std::vector<std::string> titles{"GiB at the peak"};
  const std::vector<StageMemory> stages = stage_memory(view);
  std::vector<std::size_t> shown;
  for (std::size_t category = 0; category < view.workload.categories.size(); ++category) {
    const bool used = std::any_of(stages.begin(), stages.end(), [&](const StageMemory& stage) {
      return stage.peak.by_category[category] > 0;
    });
    if (!used) continue;
    shown.push_back(category);
    titles.push_back(view.workload.categories[category]);
  }
  TextTable table(titles);
  for (const StageMemory& stage : stages) {
    std::vector<std::string> cells{fmt::format("stage {}", stage.stage)};
    for (const std::size_t category : shown) {
      cells.push_back(fmt::format(
          "{:.2f}", static_cast<double>(stage.peak.by_category[category]) / 1073741824.0));
    }
    table.row(std::move(cells));
  }
  return table.text();
}

constexpr std::size_t kShown = 8;

// Each way in two lines: its figures below the titles, and its changes, which may be long. GPU
// time: step time x GPUs, which a change may double.
std::string way_table(const FitSearch& search, const std::vector<WayToFit>& ways) {
  TextTable table({"peak", "frees", "step", "against now", "GPU time"});
  const FitFigures& now = search.now;
  for (const WayToFit& way : ways) {
    const FitFigures& figures = way.figures;
    if (!way.simulated) {
      table.row({"over " + bytes_text(figures.peak_bytes), "", "", "", ""});
      continue;
    }
    table.row({bytes_text(figures.peak_bytes), bytes_text(now.peak_bytes - figures.peak_bytes),
               to_text(Seconds{figures.step_time_s}),
               signed_percent(figures.step_time_s / now.step_time_s - 1.0),
               signed_percent(figures.gpu_seconds() / now.gpu_seconds() - 1.0)});
  }
  std::istringstream lines(table.text());
  std::string text;
  std::string line;
  std::getline(lines, line);
  text += line + "\n";
  for (const WayToFit& way : ways) {
    std::getline(lines, line);
    text += line + "\n" + wrapped("      " + to_text(way.changes), 6);
  }
  return text;
}

std::string ways(const FitSearch& search) {
  if (search.ways.empty()) {
    return fmt::format(
               "Nothing that was tried fits ({} simulations, up to {} changes at once). Alone:\n",
               search.runs, search.changes_at_once) +
           way_table(search, search.singles);
  }
  const std::size_t shown = std::min(kShown, search.ways.size());
  const std::size_t others = search.ways.size() - shown;
  const auto first = search.ways.begin();
  return fmt::format("What fits, with {} at once ({} simulations)\n",
                     search.changes_at_once == 1
                         ? std::string("one change")
                         : fmt::format("{} changes", search.changes_at_once),
                     search.runs) +
         way_table(search, {first, first + static_cast<std::ptrdiff_t>(shown)}) +
         (others > 0 ? fmt::format("  and {} more (--json)\n", others) : "");
}

}  // namespace

std::string memory_text(const MemoryReport& report) {
  const RunView view = report.run.view();
  std::string text = verdict_line(view);
  text += rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory);
  text += "\n" + memory_section(view) + "\n" + categories(view) + "\n" + over_time(view);
  if (report.search) text += "\n" + ways(*report.search);
  return text;
}

}  // namespace trainyard
