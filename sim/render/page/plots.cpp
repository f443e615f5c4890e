#include "sim/render/page/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

constexpr double kHeight = 300.0;
constexpr double kBarRow = 26.0;
constexpr double kBar = 18.0;

// An SVG element as wide as its box, less the space for texts around it. Texts may lie in that
// space.
std::string chart_svg(std::string_view title, double height, std::string_view space,
                      const std::string& body) {
  return fmt::format(
      "<svg class=\"chart\" role=\"img\" height=\"{:.0f}\" style=\"{}\" data-chart>\n"
      "<title>{}</title>\n{}</svg>\n",
      height, space, svg_escaped(title), body);
}

// A box of its own that scrolls sideways where the page is narrower than `least` pixels.
std::string in_box(const std::string& html, double least) {
  return fmt::format("<div class=\"scroll\"><div style=\"min-width:{:.0f}px\">\n{}</div></div>\n",
                     least, html);
}

// About a fifth of the range: 1, 2 or 5 times a power of ten, rounded up.
double nice_step(double range) {
  const double rough = range / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power * (1.0 + 1e-9)) return factor * power;
  return 10.0 * power;
}

// ---- scales

// About `kNarrow` labels have room on a phone; the others are hidden there.
std::string tick_class(std::size_t tick, std::size_t ticks, bool listed) {
  constexpr std::size_t kNarrow = 4;
  const std::size_t every = (ticks + kNarrow - 1) / kNarrow;
  return listed || tick % std::max<std::size_t>(every, 1) == 0 ? "" : " class=\"minor\"";
}

std::string x_axis(const ChartScale& scale) {
  std::string body;
  for (std::size_t i = 0; i < scale.ticks.size(); ++i) {
    const double x = 100.0 * scale.place(scale.ticks[i].value);
    body += fmt::format(
        "<line class=\"grid\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"0\" y2=\"{1:.0f}\"/>"
        "<text{2} x=\"{0:.2f}%\" y=\"{3:.0f}\" text-anchor=\"middle\">{4}</text>\n",
        x, kHeight, tick_class(i, scale.ticks.size(), scale.listed), kHeight + 18.0,
        svg_escaped(scale.ticks[i].text));
  }
  return body + fmt::format("<text x=\"50%\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                            kHeight + 38.0, svg_escaped(scale.title));
}

std::string y_axis(const ChartScale& scale) {
  std::string body;
  for (const ChartTick& tick : scale.ticks) {
    const double y = kHeight * (1.0 - scale.place(tick.value));
    body += fmt::format(
        "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
        "<text x=\"-8\" y=\"{1:.1f}\" text-anchor=\"end\">{2}</text>\n",
        y, y + 4.0, svg_escaped(tick.text));
  }
  return body;
}

// ---- curves

constexpr std::array<std::string_view, 6> kDashes{"", "7 4", "2 3", "10 3 2 3", "14 5", "5 2 1 2"};
constexpr std::array<std::string_view, 5> kForms{"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
                                                 "M-4 -4h8v8h-8z", "M0 -5l5 9h-10z",
                                                 "M0 -5l5 5l-5 5l-5 -5z", "M0 5l5 -9h-10z"};

// A form around the origin, whose place the caller sets.
std::string form(std::size_t number, bool hollow) {
  const std::string colour = series_colour(number);
  return fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"1.5\" fill=\"{}\"/>",
                     kForms[number % kForms.size()], colour,
                     hollow ? std::string("var(--paper)") : colour);
}

std::string dash_of(std::size_t number) {
  const std::string_view dash = kDashes[number % kDashes.size()];
  return dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash);
}

std::string line_of(const XyChart& chart, std::size_t number) {
  const ChartSeries& series = chart.series[number];
  if (!series.joined || series.points.size() < 2) return "";
  std::string path;
  for (const ChartPoint& point : series.points)
    path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", 100.0 * chart.x.place(point.x),
                        kHeight * (1.0 - chart.y.place(point.y)));
  return fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
      "vector-effect=\"non-scaling-stroke\"{}/>\n",
      path, series_colour(number), dash_of(number));
}

std::string points_of(const XyChart& chart, std::size_t number) {
  std::string body;
  for (const ChartPoint& point : chart.series[number].points)
    body += fmt::format(
        "<svg x=\"{:.2f}%\" y=\"{:.1f}\" overflow=\"visible\" class=\"point\" data-tip=\"{}\">"
        "{}</svg>\n",
        100.0 * chart.x.place(point.x), kHeight * (1.0 - chart.y.place(point.y)),
        html_escaped(point.tip), form(number, point.hollow));
  return body;
}

std::string series_keys(const XyChart& chart) {
  if (chart.series.size() < 2) return "";
  std::string html = "<p class=\"keys\">";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string line =
        chart.series[i].joined
            ? fmt::format("<path d=\"M-14 0h28\" stroke=\"{}\" stroke-width=\"2\"{}/>",
                          series_colour(i), dash_of(i))
            : "";
    html += fmt::format(
        "<span class=\"key\"><svg class=\"sample\" viewBox=\"-15 -7 30 14\" width=\"30\" "
        "height=\"14\" aria-hidden=\"true\"><title>sample</title>{}{}</svg>{}</span>\n",
        line, form(i, false), svg_escaped(chart.series[i].name));
  }
  return html + "</p>\n";
}

// ---- bars

double total_of(const BarRow& row) {
  double total = 0.0;
  for (const BarPart& part : row.parts) total += part.value;
  return total;
}

std::string bar_part(const BarRow& row, const BarPart& part, double from, double percent,
                     double y) {
  constexpr double kFits = 8.0, kFitsOnPhone = 20.0;  // percent of the width that a text needs
  std::string body = fmt::format(
      "<rect x=\"{:.3f}%\" y=\"{:.1f}\" width=\"{:.3f}%\" height=\"{}\" fill=\"{}\" "
      "data-tip=\"{}\"/>",
      from, y, percent, kBar, part.colour,
      html_escaped(fmt::format("{}\n{}: {}", row.label, part.name, part.text)));
  // A text that equals the total at the end of the row is not repeated.
  if (percent >= kFits && part.text != row.total) {
    body += fmt::format(
        "<text{} x=\"{:.3f}%\" y=\"{:.1f}\" fill=\"{}\" font-size=\"11\" "
        "text-anchor=\"middle\">{}</text>",
        percent < kFitsOnPhone ? " class=\"minor\"" : "", from + percent / 2.0, y + 13.0,
        text_colour_on(part.colour), svg_escaped(part.text));
  }
  return body + "\n";
}

std::vector<PageKey> keys_of(const std::vector<BarRow>& rows) {
  std::vector<PageKey> keys;
  for (const BarRow& row : rows) {
    for (const BarPart& part : row.parts) {
      const auto same = [&](const PageKey& key) { return key.name == part.name; };
      if (std::ranges::none_of(keys, same)) keys.push_back({part.name, part.colour});
    }
  }
  return keys;
}

std::size_t longest(const std::vector<std::string>& texts) {
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, text.size());
  return most;
}

constexpr double kLetter = 7.0;  // width of a letter in pixels, with some room

double width_of(std::size_t letters) { return kLetter * static_cast<double>(letters) + 16.0; }

// ---- parallel coordinates

// Where the axes stand: each takes as much room as its texts.
struct ParallelPlaces {
  std::vector<double> percent;  // of the space between the first axis and the last, by axis
  double left = 0.0, right = 0.0, width = 0.0;  // pixels beside these two, and of the whole
};

ParallelPlaces parallel_places(const std::vector<ChartScale>& axes) {
  ParallelPlaces places;
  double at = 0.0, before = 0.0;
  for (const ChartScale& axis : axes) {
    // The room on each side of the axis: the title is centred on it, and the texts of ticks begin
    // at it.
    double half = width_of(axis.title.size()) / 2.0;
    for (const ChartTick& tick : axis.ticks)
      half = std::max(half, width_of(tick.text.size()) - 8.0);
    at += places.percent.empty() ? 0.0 : before + half;
    places.percent.push_back(at);
    if (places.percent.size() == 1) places.left = width_of(axis.title.size()) / 2.0;
    before = half;
  }
  places.right = before;
  places.width = places.left + at + places.right;
  for (double& place : places.percent) place *= 100.0 / at;
  return places;
}

std::string parallel_axis(const ChartScale& axis, double percent) {
  std::string body = fmt::format(
      "<line class=\"frame\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"0\" y2=\"{1:.0f}\"/><text "
      "x=\"{0:.2f}%\" y=\"{2:.0f}\" text-anchor=\"middle\" font-weight=\"600\">{3}</text>\n",
      percent, kHeight, kHeight + 24.0, svg_escaped(axis.title));
  // Above the point, so that no line strikes it through.
  for (const ChartTick& tick : axis.ticks)
    body += fmt::format(
        "<text class=\"halo\" x=\"{:.2f}%\" dx=\"4\" y=\"{:.1f}\" font-size=\"11\">{}</text>\n",
        percent, kHeight * (1.0 - axis.place(tick.value)) - 4.0, svg_escaped(tick.text));
  return body;
}

}  // namespace

double ChartScale::place(double value) const {
  if (!(most > least)) return 0.5;
  if (logarithmic) return std::log(value / least) / std::log(most / least);
  return (value - least) / (most - least);
}

ChartScale linear_scale(std::string title, double most, double least) {
  ChartScale scale{.title = std::move(title), .least = least, .most = most};
  if (!(most > least)) scale.most = least + (least != 0.0 ? std::abs(least) : 1.0);
  const double step = nice_step(scale.most - least);
  // The small terms keep a bound that is a multiple of the step up to rounding errors from moving a
  // whole step.
  scale.least = std::floor(least / step + 1e-9) * step;
  scale.most = std::ceil(scale.most / step - 1e-9) * step;
  for (double value = scale.least; value <= scale.most + 0.5 * step; value += step)
    scale.ticks.push_back(
        {value, fmt::format("{:.6g}", std::abs(value) < 1e-9 * step ? 0.0 : value)});
  return scale;
}

ChartScale log_scale(std::string title, double least, double most, double base,
                     const std::function<std::string(double)>& print) {
  constexpr double kTicksMost = 9.0;
  const auto power = [base](double value) { return std::log(value) / std::log(base); };
  const double from = std::floor(power(least) + 1e-9);
  // The scale has at least one whole power, also where all values are equal.
  const double to = std::max(std::ceil(power(most) - 1e-9), from + 1.0);
  ChartScale scale{.title = std::move(title),
                   .least = std::pow(base, from),
                   .most = std::pow(base, to),
                   .logarithmic = true};
  const double step = std::max(1.0, std::ceil((to - from) / kTicksMost));
  for (double at = from; at <= to + 1e-9; at += step)
    scale.ticks.push_back({std::pow(base, at), print(std::pow(base, at))});
  return scale;
}

ChartScale listed_scale(std::string title, const std::vector<std::string>& values) {
  // Half a step stays free at both ends.
  ChartScale scale{.title = std::move(title),
                   .least = -0.5,
                   .most = static_cast<double>(values.size()) - 0.5,
                   .listed = true};
  for (std::size_t i = 0; i < values.size(); ++i)
    scale.ticks.push_back({static_cast<double>(i), values[i]});
  return scale;
}

std::string xy_chart(const XyChart& chart) {
  std::string lines, points;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    lines += line_of(chart, i);
    points += points_of(chart, i);
  }
  // The nested SVG scales the lines of the series to the width of the page, with the same stroke
  // width. Points and texts are outside of it, so that they keep their form.
  const std::string body =
      y_axis(chart.y) + x_axis(chart.x) +
      fmt::format(
          "<rect class=\"frame\" width=\"100%\" height=\"{0:.0f}\"/>\n<svg width=\"100%\" "
          "height=\"{0:.0f}\" viewBox=\"0 0 100 {0:.0f}\" preserveAspectRatio=\"none\" "
          "overflow=\"visible\">\n{1}</svg>\n",
          kHeight, lines) +
      points;
  std::vector<std::string> across, up;
  for (const ChartTick& tick : chart.x.ticks) across.push_back(tick.text);
  for (const ChartTick& tick : chart.y.ticks) up.push_back(tick.text);
  const double left = width_of(longest(up));
  const double least = chart.x.listed
                           ? left + width_of(longest(across)) * static_cast<double>(across.size())
                           : 280.0;
  return series_keys(chart) +
         in_box(
             "<p class=\"axis\">" + help_term(chart.y.title) +
                 (chart.y.logarithmic ? ", logarithmic" : "") + "</p>\n" +
                 chart_svg(chart.title, kHeight,
                           fmt::format("--left:{:.0f}px;--right:24px;--bottom:48px", left), body),
             least);
}

std::string bar_chart(std::string_view title, const std::vector<BarRow>& rows, double whole) {
  double most = whole;
  if (whole <= 0.0)
    for (const BarRow& row : rows) most = std::max(most, total_of(row));
  if (most <= 0.0) return "";
  std::string body;
  std::vector<std::string> labels, totals;
  double y = 0.0;
  for (const BarRow& row : rows) {
    body += fmt::format("<text x=\"-8\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", y + 13.0,
                        svg_escaped(row.label));
    double from = 0.0;
    for (const BarPart& part : row.parts) {
      const double percent = 100.0 * part.value / most;
      if (percent > 0.0) body += bar_part(row, part, from, percent, y);
      from += std::max(percent, 0.0);
    }
    if (!row.total.empty())
      body += fmt::format("<text x=\"{:.3f}%\" dx=\"6\" y=\"{:.1f}\">{}</text>\n", from, y + 13.0,
                          svg_escaped(row.total));
    labels.push_back(row.label);
    totals.push_back(row.total);
    y += kBarRow;
  }
  const double left = width_of(longest(labels));
  const double right = width_of(longest(totals));
  return html_keys(keys_of(rows)) +
         in_box(chart_svg(title, y, fmt::format("--left:{:.0f}px;--right:{:.0f}px", left, right),
                          body),
                left + right + 160.0);
}

std::string heat_table(const HeatMap& map) {
  constexpr double kDarkest = 45.0;  // percent; the text stays readable on it
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const HeatCell& cell : map.cells) {
    if (!cell.value) continue;
    least = std::min(least, *cell.value);
    most = std::max(most, *cell.value);
  }
  std::string html = fmt::format(
      "<div class=\"scroll\"><table class=\"heat\" data-chart>\n<caption>{}</caption>\n<thead>"
      "<tr><td></td><th colspan=\"{}\">{}</th></tr>\n<tr><th>{}</th>",
      svg_escaped(map.title), map.right.size(), svg_escaped(map.right_title),
      svg_escaped(map.down_title));
  for (const std::string& value : map.right) html += "<th>" + svg_escaped(value) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < map.down.size(); ++i) {
    html += "<tr><th>" + svg_escaped(map.down[i]) + "</th>";
    for (std::size_t j = 0; j < map.right.size(); ++j) {
      const HeatCell& cell = map.cells[i * map.right.size() + j];
      const double share =
          cell.value && most > least ? kDarkest * (*cell.value - least) / (most - least) : 0.0;
      html += fmt::format(
          "<td class=\"cell{}\" style=\"--heat-share:{:.0f}%\" data-tip=\"{}\">{}</td>",
          cell.crossed ? " crossed" : "", share, html_escaped(cell.tip), svg_escaped(cell.text));
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string parallel_chart(std::string_view title, const std::vector<ChartScale>& axes,
                           const std::vector<ParallelLine>& lines) {
  if (axes.size() < 2 || lines.empty()) return "";
  const ParallelPlaces places = parallel_places(axes);
  std::string paths, best;  // the best lie on the others
  for (const ParallelLine& line : lines) {
    std::string path;
    for (std::size_t i = 0; i < axes.size(); ++i)
      path += fmt::format("{}{:.2f} {:.1f}", i == 0 ? "M" : "L", places.percent[i],
                          kHeight * (1.0 - axes[i].place(line.values[i])));
    (line.best ? best : paths) += fmt::format(
        "<path class=\"run{}\" d=\"{}\" vector-effect=\"non-scaling-stroke\"{} data-tip=\"{}\"/>\n",
        line.best ? " best" : "", path, line.dashed ? " stroke-dasharray=\"4 3\"" : "",
        html_escaped(line.tip));
  }
  std::string body = fmt::format(
      "<svg width=\"100%\" height=\"{0:.0f}\" viewBox=\"0 0 100 {0:.0f}\" "
      "preserveAspectRatio=\"none\" overflow=\"visible\">\n{1}</svg>\n",
      kHeight, paths + best);
  for (std::size_t i = 0; i < axes.size(); ++i) body += parallel_axis(axes[i], places.percent[i]);
  return in_box(
      chart_svg(title, kHeight,
                fmt::format("--left:{:.0f}px;--right:{:.0f}px;--bottom:36px;margin-top:16px",
                            places.left, places.right),
                body),
      places.width);
}

std::string_view text_colour_on(std::string_view colour) {
  // Relative luminance of sRGB with a gamma of 2.2; 0.18 is as far from black as from white.
  constexpr std::array<double, 3> kWeights{0.2126, 0.7152, 0.0722};
  double luminance = 0.0;
  for (std::size_t i = 0; i < kWeights.size(); ++i) {
    int value = 0;
    const char* const begin = colour.data() + 1 + 2 * i;
    if (colour.size() == 7) std::from_chars(begin, begin + 2, value, 16);
    luminance += kWeights[i] * std::pow(value / 255.0, 2.2);
  }
  return luminance > 0.18 ? "#111" : "#fff";
}

}  // namespace trainyard
