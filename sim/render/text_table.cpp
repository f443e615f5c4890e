#include "sim/render/text_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr double kBarPerWhole = 50.0;

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void TextTable::row(std::vector<std::string> cells) {
  TY_CHECK(cells.size() == titles_.size(), cells.size(), titles_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < titles_.size(); ++column) {
    std::size_t width = titles_[column].size();
    for (const auto& cells : rows_) width = std::max(width, cells[column].size());
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      text += kIndent;
      text += column == 0 ? fmt::format("{:<{}}", cells[column], widths[column])
                          : fmt::format("{:>{}}", cells[column], widths[column]);
    }
    text = without_trailing_spaces(std::move(text));
    text.push_back('\n');
    return text;
  };
  const bool titled =
      std::any_of(titles_.begin(), titles_.end(), [](const auto& t) { return !t.empty(); });
  std::string text = titled ? line(titles_) : "";
  for (const auto& cells : rows_) text += line(cells);
  return text;
}

std::string TextTable::markdown() const {
  std::string text = fmt::format("| {} |\n|---", fmt::join(titles_, " | "));
  for (std::size_t column = 1; column < titles_.size(); ++column) text += "|--:";
  text += "|\n";
  for (const auto& row : rows_) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text;
}

std::string wrapped(std::string_view text, std::size_t indent) {
  const std::size_t leading = std::min(text.find_first_not_of(' '), text.size());
  std::string result(leading, ' ');
  text.remove_prefix(leading);
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    // Column 0 means that no word is written yet: the first word follows the leading spaces and
    // never moves to a line of its own.
    if (column > 0 && column + 1 + word.size() > kTextWidth) {
      result.push_back('\n');
      result.append(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result.push_back(' ');
      ++column;
    }
    result += word;
    column = column == 0 ? leading + word.size() : column + word.size();
  }
  result.push_back('\n');
  return result;
}

std::string percent(double fraction) {
  TY_CHECK(std::isfinite(fraction), fraction);
  return fmt::format("{:.1f} %", 100.0 * fraction);
}

std::string signed_percent(double fraction) {
  TY_CHECK(std::isfinite(fraction), fraction);
  return fmt::format("{:+.1f} %", 100.0 * fraction);
}

std::string grouped(double count) {
  const std::string digits = fmt::format("{:.0f}", count);
  std::string text;
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at > 0 && (digits.size() - at) % 3 == 0) text.push_back(' ');
    text.push_back(digits[at]);
  }
  return text;
}

std::string short_count(double count) {
  for (const auto& [unit, name] : {std::pair{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}})
    if (count >= unit) return fmt::format("{:.3g}{}", count / unit, name);
  return fmt::format("{:.0f}", count);
}

std::string bar(double fraction) {
  return std::string(
      static_cast<std::size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * kBarPerWhole)), '#');
}

}  // namespace trainyard
