#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/memory/memory_report.hpp"
#include "scenarios/memory/rule_of_thumb.hpp"
#include "sim/report/sections.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/report/svg.hpp"

namespace trainyard {

namespace {

constexpr double kWidth = 900.0;
constexpr double kHeight = 220.0;
constexpr double kGib = 1073741824.0;
struct Scale {
  double step_s = 1.0;
  double most_bytes = 1.0;
  [[nodiscard]] double x(double time_s) const { return time_s / step_s * kWidth; }
  [[nodiscard]] double y(double bytes) const { return kHeight * (1.0 - bytes / most_bytes); }
};

// Everything up to and including a category, as one filled outline; later ones are drawn beneath.
std::string area(const std::vector<MemoryPoint>& curve, std::size_t category, const Scale& scale) {
  std::string path = fmt::format("M0,{:.1f}", kHeight);
  double last_y = kHeight;
  for (const MemoryPoint& point : curve) {
    const auto end = point.by_category.begin() + static_cast<std::ptrdiff_t>(category) + 1;
    const auto bytes = std::accumulate(point.by_category.begin(), end, std::int64_t{0});
    const double x = scale.x(point.time_s);
    const double y = scale.y(static_cast<double>(bytes));
    if (y == last_y) continue;
    path += fmt::format("L{:.1f},{:.1f}L{:.1f},{:.1f}", x, last_y, x, y);
    last_y = y;
  }
  path += fmt::format("L{:.1f},{:.1f}L{:.1f},{:.1f}Z", kWidth, last_y, kWidth, kHeight);
  return fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, svg_colour(category));
}

std::string picture(const RunView& view, const StageMemory& stage, const Scale& scale) {
  const auto curve = memory_curve(view.workload, view.partition, view.timeline, stage.rank_class);
  std::string svg =
      fmt::format("<svg viewBox=\"0 -12 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" role=\"img\">\n",
                  kWidth, kHeight + 14.0);
  for (std::size_t category = view.workload.categories.size(); category-- > 0;)
    svg += area(curve, category, scale);
  if (stage.capacity_bytes > 0) {
    const double y = scale.y(static_cast<double>(stage.capacity_bytes));
    svg += fmt::format(
        "<line x1=\"0\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#000\" "
        "stroke-dasharray=\"6 4\"/>\n<text x=\"4\" y=\"{:.1f}\" font-size=\"11\">{:.1f} "
        "GiB</text>\n",
        kWidth, y, y, y - 3.0, static_cast<double>(stage.capacity_bytes) / kGib);
  }
  return svg + "</svg>\n";
}

std::string legend(const std::vector<std::string>& categories) {
  std::string html = "<p>";
  for (std::size_t category = 0; category < categories.size(); ++category) {
    html += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp; ", svg_colour(category),
                        svg_escaped(categories[category]));
  }
  return html + "</p>\n";
}

std::string ways_table(const FitSearch& search, double step_s) {
  std::string html =
      "<h2>What would fit</h2>\n<table><tr><th>change</th><th>peak GiB</th><th>step</th>"
      "<th>against now</th></tr>\n";
  for (const Way& way : search.ways) {
    html +=
        fmt::format("<tr><td>{}</td><td>{:.1f}</td><td>{:.4g} s</td><td>{:+.1f} %</td></tr>\n",
                    svg_escaped(to_text(way.changes)), static_cast<double>(way.peak_bytes) / kGib,
                    way.step_time_s, 100.0 * (way.step_time_s / step_s - 1.0));
  }
  if (search.ways.empty()) html += "<tr><td colspan=\"4\">nothing that was tried</td></tr>\n";
  return html + "</table>\n";
}

}  // namespace

std::string memory_page(const MemoryReport& report) {
  const RunView view = report.run.view();
  const std::vector<StageMemory> stages = stage_memory(view);
  Scale scale{.step_s = std::max(view.timeline.makespan_s, 1e-12)};
  for (const StageMemory& stage : stages) {
    const std::int64_t most = std::max(stage.peak.bytes, stage.capacity_bytes);
    scale.most_bytes = std::max(scale.most_bytes, static_cast<double>(most));
  }
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Memory: {0}</title>\n"
      "<style>body{{font:14px sans-serif;margin:2em;max-width:960px}}"
      "td,th{{padding:2px 10px;text-align:left}}</style>\n<h1>{0}</h1>\n<p>{1}</p>\n<p>{2}</p>\n",
      svg_escaped(view.facts.title), svg_escaped(verdict_line(view)),
      svg_escaped(rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory)));
  html += legend(view.workload.categories);
  for (const StageMemory& stage : stages) {
    html += fmt::format("<h2>Stage {}: {:.2f} GiB at {:.4g} s ({})</h2>\n", stage.stage,
                        static_cast<double>(stage.peak.bytes) / kGib, stage.peak.at_s,
                        svg_escaped(peak_operation(view, stage)));
    html += picture(view, stage, scale);
  }
  if (report.search) html += ways_table(*report.search, view.timeline.makespan_s);
  return html + "</html>\n";
}

}  // namespace trainyard
