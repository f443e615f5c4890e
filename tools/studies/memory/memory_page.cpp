#include <fmt/format.h>

#include "sim/render/page/charts.hpp"
#include "sim/render/svg.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/memory/memory_report.hpp"
#include "tools/studies/memory/rule_of_thumb.hpp"

namespace trainyard {

namespace {

constexpr double kGib = 1073741824.0;

std::string ways_table(const FitSearch& search) {
  std::string html =
      "<h2>What would fit</h2>\n<table><tr><th>change</th><th>peak GiB</th><th>step</th>"
      "<th>against now</th><th>GPU time</th></tr>\n";
  const FitFigures& now = search.now;
  for (const WayToFit& way : search.ways) {
    const FitFigures& figures = way.figures;
    html += fmt::format(
        "<tr><td>{}</td><td>{:.1f}</td><td>{:.4g} s</td><td>{:+.1f} %</td><td>{:+.1f} "
        "%</td></tr>\n",
        svg_escaped(to_text(way.changes)), static_cast<double>(figures.peak_bytes) / kGib,
        figures.step_time_s, 100.0 * (figures.step_time_s / now.step_time_s - 1.0),
        100.0 * (figures.gpu_seconds() / now.gpu_seconds() - 1.0));
  }
  if (search.ways.empty()) html += "<tr><td colspan=\"5\">nothing that was tried</td></tr>\n";
  return html + "</table>\n";
}

}  // namespace

std::string memory_page(const MemoryReport& report) {
  const RunView view = report.run.view();
  const std::vector<StageMemory> stages = stage_memory(view);
  const std::int64_t most_bytes = memory_scale(stages);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Memory: {0}</title>\n"
      "<style>body{{font:14px sans-serif;margin:2em;max-width:960px}}"
      "svg{{width:100%}}td,th{{padding:2px 10px;text-align:left}}</style>\n<h1>{0}</h1>\n"
      "<p>{1}</p>\n<p>{2}</p>\n",
      svg_escaped(view.facts.title), svg_escaped(verdict_line(view)),
      svg_escaped(rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory)));
  html += memory_legend(view.workload.categories);
  for (const StageMemory& stage : stages) {
    html += fmt::format("<h2>Stage {}: {:.2f} GiB at {:.4g} s ({})</h2>\n", stage.stage,
                        static_cast<double>(stage.peak.bytes) / kGib, stage.peak.at_s,
                        svg_escaped(peak_operation(view, stage)));
    html += memory_chart(view, stage, most_bytes);
  }
  if (report.search) html += ways_table(*report.search);
  return html + "</html>\n";
}

}  // namespace trainyard
