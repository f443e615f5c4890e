#include "tools/studies/validate/interval_coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

// Runs of a class that the table shows: the share inside of fewer runs is mostly chance.
constexpr std::size_t kClassLeast = 20;

// The standard deviation of a run's error.
double deviation_of(const UncertainShares& shares, const UncertainShares& deviation) {
  double sum = 0.0;
  for (std::size_t kind = 0; kind < kUncertainKinds; ++kind) {
    const double part = shares[kind] * deviation[kind];
    sum += part * part;
  }
  return std::sqrt(sum);
}

Coverage coverage_of(const std::string& group, const std::vector<JudgedRun>& judged) {
  const double within = deviations_of(kIntervalProbability);
  Coverage row{.group = group};
  for (const JudgedRun& run : judged) {
    if (!group.empty() && run.group != group) continue;
    ++row.runs;
    row.half_width += within * run.deviation;
    if (std::abs(run.error) <= within * run.deviation) ++row.inside;
  }
  row.inside /= static_cast<double>(row.runs);
  row.half_width /= static_cast<double>(row.runs);
  return row;
}

constexpr std::array kLeftOut{Feature::Source, Feature::Gpu,     Feature::Family,
                              Feature::Scale,  Feature::Release, Feature::Precision};

}  // namespace

LeftOutClasses leave_out_classes(const std::vector<ErrorOfRun>& runs, Feature feature) {
  const auto class_of = [&](const ErrorOfRun& run) {
    return feature_of(run.outcome->row, feature);
  };
  std::set<std::string> classes;
  for (const ErrorOfRun& run : runs) classes.insert(class_of(run));
  LeftOutClasses judged{.feature = feature};
  for (const std::string& left_out : classes) {
    std::vector<ErrorOfRun> others;
    for (const ErrorOfRun& run : runs)
      if (class_of(run) != left_out) others.push_back(run);
    // The class holds most of the runs: the others do not determine the deviations.
    if (others.size() < kIntervalRunsLeast) continue;
    const UncertainShares deviation = fit_deviations(others);
    for (const ErrorOfRun& run : runs) {
      if (!run.judged || class_of(run) != left_out) continue;
      judged.runs.push_back({.group = left_out + (run.by_data_sheet() ? ", data sheet" : ""),
                             .error = run.error,
                             .deviation = deviation_of(run.outcome->uncertain, deviation)});
    }
  }
  return judged;
}

std::vector<LeftOutClasses> leave_out_classes(const std::vector<ErrorOfRun>& runs) {
  std::vector<LeftOutClasses> all;
  for (const Feature feature : kLeftOut) all.push_back(leave_out_classes(runs, feature));
  return all;
}

std::vector<Coverage> coverage(const LeftOutClasses& classes) {
  std::set<std::string> groups;
  for (const JudgedRun& run : classes.runs) groups.insert(run.group);
  std::vector<Coverage> rows;
  if (classes.runs.empty()) return rows;
  rows.push_back(coverage_of("", classes.runs));
  for (const std::string& group : groups) rows.push_back(coverage_of(group, classes.runs));
  return rows;
}

TextTable coverage_table(const std::vector<LeftOutClasses>& features) {
  constexpr std::size_t kNameMost = 44;
  TextTable table({"left out", "runs", "inside", "half width"});
  for (const LeftOutClasses& classes : features) {
    const std::string_view feature = to_string(classes.feature);
    for (const Coverage& row : coverage(classes)) {
      if (row.runs < kClassLeast) continue;
      const std::string name = row.group.empty() ? fmt::format("each {}", feature)
                                                 : fmt::format("  {} {}", feature, row.group);
      table.row({name.substr(0, kNameMost), fmt::format("{}", row.runs), percent(row.inside),
                 percent(row.half_width)});
    }
  }
  return table;
}

namespace {

constexpr double kPlotLeft = 70.0, kPlotTop = 50.0, kPlotSide = 420.0;

double x_of(double share) { return kPlotLeft + kPlotSide * share; }
double y_of(double share) { return kPlotTop + kPlotSide * (1.0 - share); }

std::string coverage_axes() {
  std::string text;
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double share = 0.1 * tenth;
    text += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}v{2:.1f}M{3:.1f} {4:.1f}h{2:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{5:.1f}\" text-anchor=\"middle\">{6} %</text>\n"
        "<text x=\"{7:.1f}\" y=\"{8:.1f}\" text-anchor=\"end\">{6} %</text>\n",
        x_of(share), kPlotTop, kPlotSide, kPlotLeft, y_of(share), kPlotTop + kPlotSide + 18.0,
        10 * tenth, kPlotLeft - 6.0, y_of(share) + 4.0);
  }
  text += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#333\"/>\n", x_of(0.0),
                      y_of(0.0), x_of(1.0), y_of(1.0));
  text += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">probability of the interval</text>\n",
      x_of(0.5), kPlotTop + kPlotSide + 38.0);
  return text + fmt::format(
                    "<text transform=\"translate(18 {:.1f}) rotate(-90)\" "
                    "text-anchor=\"middle\">measured runs inside</text>\n",
                    y_of(0.5));
}

// The share of runs inside, for probabilities from 0 to 99 %.
std::string coverage_curve(const std::vector<JudgedRun>& judged, std::string_view colour) {
  std::string path;
  for (int hundredth = 1; hundredth < 100; ++hundredth) {
    const double probability = 0.01 * hundredth;
    const double within = deviations_of(probability);
    const auto inside = std::ranges::count_if(judged, [&](const JudgedRun& run) {
      return std::abs(run.error) <= within * run.deviation;
    });
    const double share = static_cast<double>(inside) / static_cast<double>(judged.size());
    path +=
        fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(probability), y_of(share));
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                     colour);
}

}  // namespace

std::string coverage_svg(const std::vector<LeftOutClasses>& features) {
  std::string body = coverage_axes();
  std::size_t number = 0;
  for (const auto& [feature, judged] : features) {
    if (judged.empty()) continue;
    const double y = kPlotTop + 20.0 + 20.0 * static_cast<double>(number);
    const std::string_view colour = svg_colour(number++);
    body += coverage_curve(judged, colour);
    body += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h24\" stroke=\"{}\" stroke-width=\"2\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">each {} left out</text>\n",
        kPlotLeft + kPlotSide + 20.0, y, colour, kPlotLeft + kPlotSide + 52.0, y + 4.0,
        to_string(feature));
  }
  return svg_page({.title = "Measured runs within the intervals of their predictions",
                   .width = kPlotLeft + kPlotSide + 220.0,
                   .height = kPlotTop + kPlotSide + 60.0,
                   .body = body});
}

}  // namespace trainyard
