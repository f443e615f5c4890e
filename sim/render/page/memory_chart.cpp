#include "sim/render/page/memory_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "sim/render/svg.hpp"
#include "sim/timeline/memory.hpp"

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

}  // namespace

std::int64_t memory_scale(const std::vector<StageMemory>& stages) {
  std::int64_t most = 1;
  for (const StageMemory& stage : stages)
    most = std::max({most, stage.peak.bytes, stage.capacity_bytes});
  return most;
}

std::string memory_chart(const RunView& view, const StageMemory& stage, std::int64_t most_bytes) {
  const Scale scale{.step_s = std::max(view.timeline.makespan_s, 1e-12),
                    .most_bytes = static_cast<double>(most_bytes)};
  const auto curve = view.memory_curve_of(stage.rank_class);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 -12 {:.0f} {:.0f}\" role=\"img\" fill=\"currentColor\">\n"
      "<title>Memory of stage {} over the step; at most {:.2f} GiB</title>\n",
      kWidth, kHeight + 14.0, stage.stage, static_cast<double>(stage.peak.bytes) / kGib);
  for (std::size_t category = view.workload.categories.size(); category-- > 0;)
    svg += area(curve, category, scale);
  if (stage.capacity_bytes > 0) {
    const double y = scale.y(static_cast<double>(stage.capacity_bytes));
    svg += fmt::format(
        "<line x1=\"0\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" "
        "stroke-dasharray=\"6 4\"/>\n<text x=\"4\" y=\"{:.1f}\" font-size=\"11\">{:.1f} "
        "GiB</text>\n",
        kWidth, y, y, y - 3.0, static_cast<double>(stage.capacity_bytes) / kGib);
  }
  return svg + "</svg>\n";
}

std::string memory_legend(const std::vector<std::string>& categories) {
  std::string html = "<p>";
  for (std::size_t category = 0; category < categories.size(); ++category) {
    html += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp; ", svg_colour(category),
                        svg_escaped(categories[category]));
  }
  return html + "</p>\n";
}

}  // namespace trainyard
