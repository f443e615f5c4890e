#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/render/svg.hpp"
#include "tools/studies/validate/report.hpp"

namespace trainyard {

namespace {

// Sizes of the picture in pixels.
constexpr double kLeft = 70.0, kTop = 40.0, kSide = 520.0;
constexpr double kBand = 0.10;  // drawn on both sides of the diagonal

constexpr std::size_t kColours = 8;  // of svg_colour; further sources reuse them with another mark

// Powers of ten around all times.
struct Frame {
  double least = 0.0;  // exponents
  double most = 1.0;

  [[nodiscard]] double share(double seconds) const {
    return (std::log10(seconds) - least) / (most - least);
  }
  [[nodiscard]] double x(double seconds) const { return kLeft + kSide * share(seconds); }
  [[nodiscard]] double y(double seconds) const { return kTop + kSide * (1.0 - share(seconds)); }
};

Frame frame_of(const std::vector<const Outcome*>& shown) {
  if (shown.empty()) return {};
  double least = 1e300, most = 0.0;
  for (const Outcome* outcome : shown) {
    least = std::min({least, outcome->row.step_time_s, outcome->predicted_s});
    most = std::max({most, outcome->row.step_time_s, outcome->predicted_s});
  }
  Frame frame{.least = std::floor(std::log10(least)), .most = std::ceil(std::log10(most))};
  if (frame.most <= frame.least) frame.most = frame.least + 1.0;
  return frame;
}

// The part of the line predicted = factor * measured inside the frame.
std::string ratio_line(const Frame& frame, double factor, std::string_view stroke) {
  const double first = std::pow(10.0, frame.least) * std::max(1.0, 1.0 / factor);
  const double last = std::pow(10.0, frame.most) * std::min(1.0, 1.0 / factor);
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\"/>\n", frame.x(first),
                     frame.y(first * factor), frame.x(last), frame.y(last * factor), stroke);
}

std::string axes(const Frame& frame) {
  std::string text;
  for (double power = frame.least; power <= frame.most; power += 1.0) {
    const double seconds = std::pow(10.0, power);
    text += fmt::format("<path d=\"M{:.1f} {:.1f}v{:.1f}\" stroke=\"#ddd\"/>\n", frame.x(seconds),
                        kTop, kSide);
    text += fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
                        frame.y(seconds), kSide);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g} s</text>\n",
                        frame.x(seconds), kTop + kSide + 18.0, seconds);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g} s</text>\n",
                        kLeft - 6.0, frame.y(seconds) + 4.0, seconds);
  }
  text += ratio_line(frame, 1.0, "#333") + ratio_line(frame, 1.0 + kBand, "#aaa") +
          ratio_line(frame, 1.0 - kBand, "#aaa");
  text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured</text>\n",
                      kLeft + kSide / 2.0, kTop + kSide + 36.0);
  return text + fmt::format(
                    "<text transform=\"translate(16 {:.1f}) rotate(-90)\" "
                    "text-anchor=\"middle\">predicted</text>\n",
                    kTop + kSide / 2.0);
}

// The mark of a source: a filled circle, or a ring for the sources after the eighth.
std::string mark(double x, double y, std::size_t source) {
  const std::string_view colour = svg_colour(source);
  const bool ring = source >= kColours;
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" stroke=\"{}\">", x, y,
                     ring ? "none" : colour, colour);
}

}  // namespace

std::string scatter_svg(const std::vector<Outcome>& outcomes) {
  const std::vector<const Outcome*> shown = worst_first(outcomes);
  const Frame frame = frame_of(shown);
  std::map<std::string, std::size_t> sources;
  for (const Outcome* outcome : shown) sources.try_emplace(outcome->row.source, 0);
  std::size_t number = 0;
  for (auto& [source, index] : sources) index = number++;
  std::string points, legend;
  for (const Outcome* outcome : shown) {
    points += mark(frame.x(outcome->row.step_time_s), frame.y(outcome->predicted_s),
                   sources.at(outcome->row.source)) +
              fmt::format("<title>{}: {:+.1f} %</title></circle>\n", svg_escaped(outcome->row.id),
                          100.0 * outcome->error());
  }
  for (const auto& [source, index] : sources) {
    const double y = kTop + 10.0 + 20.0 * static_cast<double>(index);
    legend += mark(kLeft + kSide + 20.0, y, index) + "</circle>" +
              fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLeft + kSide + 32.0,
                          y + 4.0, svg_escaped(source));
  }
  return svg_page({.title = fmt::format("Step time, predicted and measured: {} runs", shown.size()),
                   .width = kLeft + kSide + 180.0,
                   .height = kTop + kSide + 60.0,
                   .body = axes(frame) + points + legend});
}

}  // namespace trainyard
