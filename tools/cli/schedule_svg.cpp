#include "tools/cli/schedule_svg.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

constexpr double kLeft = 80.0;
constexpr double kTop = 50.0;
constexpr double kRow = 26.0;
constexpr double kBox = 22.0;
constexpr double kWidth = 1200.0;

std::string_view opacity(StepKind kind) {
  if (kind == StepKind::Forward) return "0.35";
  return kind == StepKind::BackwardWeight ? "0.6" : "0.85";
}

// An overlapped pair shares its time: the forward above, the backward below.
struct Half {
  bool first = false;
  bool second = false;
};

std::string box(const PlayedStep& played, const Half& half, double row, double per_s) {
  const double height = half.first || half.second ? kBox / 2.0 : kBox;
  const double x = kLeft + played.start_s * per_s;
  const double y = kTop + row * kRow + (half.second ? kBox / 2.0 : 0.0);
  const double width = (played.end_s - played.start_s) * per_s;
  std::string text = fmt::format(
      R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}" fill-opacity="{}" )"
      "stroke=\"#fff\" stroke-width=\"0.5\"/>\n",
      x, y, width, height, svg_colour(static_cast<std::size_t>(played.step.chunk)),
      opacity(played.step.kind));
  const std::string label = fmt::format("{}", played.step.microbatch);
  constexpr double kDigit = 7.0;
  if (width < kDigit * static_cast<double>(label.size()) + 2.0) return text;
  return text + fmt::format(R"(<text x="{:.2f}" y="{:.2f}" text-anchor="middle" )"
                            "font-size=\"{}\">{}</text>\n",
                            x + width / 2.0, y + height / 2.0 + 4.0, height < kBox ? 9 : 11, label);
}

}  // namespace

std::string schedule_svg(const PlayedSchedule& played, const PipelineShape& shape,
                         const std::string& title) {
  const double per_s = kWidth / std::max(played.makespan_s, 1e-12);
  std::string body;
  for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
    const auto row = static_cast<double>(rank);
    body +=
        fmt::format("<text x=\"10\" y=\"{:.0f}\">rank {}</text>\n", kTop + row * kRow + 16.0, rank);
    Half half;
    for (const PlayedStep& step : played.ranks[rank]) {
      half = {.first = step.step.overlapped, .second = half.first};
      body += box(step, half, row, per_s);
    }
  }
  const double bottom = kTop + static_cast<double>(played.ranks.size()) * kRow;
  body += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\">light: forward, dark: backward, between: weight gradient; a "
      "colour for each of {} chunk{}; makespan {:.6g} s</text>\n",
      kLeft, bottom + 20.0, shape.chunks, shape.chunks == 1 ? "" : "s", played.makespan_s);
  return svg_page({.title = title,
                   .width = kLeft + kWidth + 20.0,
                   .height = bottom + 40.0,
                   .body = std::move(body)});
}

}  // namespace trainyard
