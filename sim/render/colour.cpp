#include "sim/render/colour.hpp"

#include <array>
#include <cctype>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kGreen = "\x1b[1;32m";
constexpr std::string_view kBlue = "\x1b[34m";

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kVerdicts{
    {{"fits:", kGreen}, {"DOES NOT FIT:", kRed}}};

std::string painted(std::string_view text, std::string_view colour) {
  return std::string(colour) + std::string(text) + std::string(kReset);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool is_title(std::string_view line, std::string_view next) {
  return !line.empty() && std::isupper(static_cast<unsigned char>(line.front())) != 0 &&
         next.starts_with("  ");
}

std::string coloured_line(std::string_view line, std::string_view next) {
  for (const auto& [word, colour] : kVerdicts)
    if (line.starts_with(word))
      return painted(line.substr(0, word.size() - 1), colour) +
             std::string(line.substr(word.size() - 1));
  if (is_title(line, next)) return painted(line, kBold);
  const std::size_t bar = line.find_last_not_of('#') + 1;
  if (bar == line.size() || bar == 0 || line[bar - 1] != ' ') return std::string(line);
  return std::string(line.substr(0, bar)) + painted(line.substr(bar), kBlue);
}

}  // namespace

std::string coloured(std::string_view report) {
  const std::vector<std::string_view> lines = lines_of(report);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += coloured_line(lines[i], i + 1 < lines.size() ? lines[i + 1] : std::string_view());
    if (i + 1 < lines.size() || report.ends_with('\n')) text += '\n';
  }
  return text;
}

}  // namespace trainyard
