#include "tools/studies/collective/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/studies/collective/sizes.hpp"

namespace trainyard {

namespace {

// A logarithmic axis from `least` to `most`, in cells.
struct Axis {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;

  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] std::size_t cell(double value, std::size_t cells) const {
    if (most <= least) return 0;
    const double place = std::log(value / least) / std::log(most / least);
    return static_cast<std::size_t>(std::lround(place * static_cast<double>(cells - 1)));
  }
  // The value at the middle of a cell.
  [[nodiscard]] double value(std::size_t cell, std::size_t cells) const {
    const double place = static_cast<double>(cell) / static_cast<double>(cells - 1);
    return least * std::pow(most / least, place);
  }
};

struct Axes {
  Axis size, busbw;
};
Axes axes_of(const CollectiveStudy& study) {
  Axes axes;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      axes.size.include(static_cast<double>(row.bytes));
      axes.busbw.include(row.busbw);
    }
  }
  return axes;
}

// Lines of the plot, the highest bandwidth first.
std::vector<std::string> drawn(const CollectiveStudy& study, const Axes& axes,
                               const PlotArea& area) {
  const std::string letters = plot_letters(study);
  std::vector<std::string> lines(area.lines, std::string(area.columns, ' '));
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    for (const CollectiveRow& row : study.algorithms[i].rows) {
      const std::size_t x = axes.size.cell(static_cast<double>(row.bytes), area.columns);
      const std::size_t y = axes.busbw.cell(row.busbw, area.lines);
      char& place = lines[area.lines - 1 - y][x];
      place = place == ' ' || place == letters[i] ? letters[i] : '*';
    }
  }
  return lines;
}

}  // namespace

std::string plot_letters(const CollectiveStudy& study) {
  constexpr std::string_view kAny = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string letters;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    const std::string candidates = algorithm.algorithm + std::string(kAny);
    const auto free = std::find_if(candidates.begin(), candidates.end(), [&](char letter) {
      return kAny.find(letter) != std::string_view::npos &&
             letters.find(letter) == std::string::npos;
    });
    letters += free == candidates.end() ? '?' : *free;
  }
  return letters;
}

std::string plot_text(const CollectiveStudy& study, const PlotArea& area) {
  const Axes axes = axes_of(study);
  if (axes.busbw.most <= 0.0) return {};
  std::string text = "busbw (GB/s) over size, both logarithmic\n";
  const std::vector<std::string> lines = drawn(study, axes, area);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double value = axes.busbw.value(area.lines - 1 - i, area.lines) * 1e-9;
    const std::string label =
        i % 4 == 0 || i + 1 == lines.size() ? fmt::format("{:.3g}", value) : "";
    const std::string& line = lines[i];
    text += fmt::format("{:>9} |{}\n", label, line.substr(0, line.find_last_not_of(' ') + 1));
  }
  const std::string least = size_text(std::llround(axes.size.least));
  const std::string most = size_text(std::llround(axes.size.most));
  text += fmt::format("{:>9} +{:-<{}}\n", "", "", area.columns);
  text += fmt::format("{:>9}  {}{:>{}}\n", "", least, most, area.columns - least.size());
  const std::string letters = plot_letters(study);
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    if (study.algorithms[i].refusal) continue;
    text += fmt::format("{:>11}  {}\n", letters[i], study.algorithms[i].algorithm);
  }
  return text;
}

}  // namespace trainyard
