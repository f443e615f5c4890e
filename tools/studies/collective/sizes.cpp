#include "tools/studies/collective/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr double kKibi = 1024.0;
constexpr std::array kUnits{Unit{"", 1.0},
                            Unit{"B", 1.0},
                            Unit{"K", kKibi},
                            Unit{"M", kKibi* kKibi},
                            Unit{"G", kKibi* kKibi* kKibi},
                            Unit{"T", kKibi* kKibi* kKibi* kKibi},
                            Unit{"KiB", kKibi},
                            Unit{"MiB", kKibi* kKibi},
                            Unit{"GiB", kKibi* kKibi* kKibi},
                            Unit{"TiB", kKibi* kKibi* kKibi* kKibi},
                            Unit{"KB", 1e3},
                            Unit{"MB", 1e6},
                            Unit{"GB", 1e9},
                            Unit{"TB", 1e12}};
constexpr double kBytesMost = 1e15;
constexpr std::size_t kSizesMost = 1000;

constexpr const char* kSizes = "--sizes";
[[noreturn]] void refuse_size(const std::string& option, std::string problem, std::string hint) {
  throw InputError(Problem{
      .file = option, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

// The number at the start of a text; nothing is left of a text that has none.
struct Leading {
  double number = std::nan("");
  std::string_view rest;
};
Leading leading_number(std::string_view text) {
  Leading result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.number,
                                            std::chars_format::fixed);
  if (error != std::errc{}) return {};
  result.rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return result;
}

std::int64_t size_of(std::string_view text, const std::string& option, const char* examples) {
  const Leading leading = leading_number(text);
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
    return candidate.name == leading.rest;
  });
  if (std::isnan(leading.number) || unit == kUnits.end()) {
    refuse_size(option, fmt::format("\"{}\" is not a size", text),
                fmt::format("write a number with B, KiB, MiB or GiB, such as {}", examples));
  }
  const double bytes = leading.number * unit->bytes;
  if (!(bytes >= 1.0 && bytes <= kBytesMost) || bytes != std::floor(bytes)) {
    refuse_size(option, fmt::format("\"{}\" is not a whole number of bytes from 1 to 10^15", text),
                "the sizes of nccl-tests go from 8B to 8GiB");
  }
  return static_cast<std::int64_t>(bytes);
}

double parse_factor(std::string_view text) {
  const Leading leading = leading_number(text);
  if (leading.rest.empty() && leading.number > 1.0 && leading.number <= kBytesMost)
    return leading.number;
  refuse_size(kSizes, fmt::format("\"{}\" is not a factor", text),
              "it must be above 1, such as 2 in 8B:8GiB:2");
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::int64_t> parse_sizes(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text);
  if (parts.size() > 3) {
    refuse_size(kSizes, fmt::format("\"{}\" has {} parts", text, parts.size()),
                "write FROM:TO or FROM:TO:FACTOR, such as 8B:8GiB:2");
  }
  constexpr const char* kExamples = "8B:8GiB or 1MiB:1GiB:4";
  const std::int64_t from = size_of(parts[0], kSizes, kExamples);
  const std::int64_t last = parts.size() > 1 ? size_of(parts[1], kSizes, kExamples) : from;
  const double factor = parts.size() > 2 ? parse_factor(parts[2]) : 2.0;
  if (last < from) {
    refuse_size(kSizes, fmt::format("\"{}\" ends below its start", text),
                "put the smaller size first");
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = from; size <= last;) {
    sizes.push_back(size);
    if (sizes.size() > kSizesMost) {
      refuse_size(kSizes, fmt::format("\"{}\" are more than {} sizes", text, kSizesMost),
                  "use a larger factor");
    }
    // A factor near 1 still moves on by a byte.
    size = std::max(size + 1, std::int64_t{std::llround(static_cast<double>(size) * factor)});
  }
  return sizes;
}

std::int64_t parse_size(std::string_view text, const std::string& option) {
  return size_of(text, option, "64MiB");
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < kNames.size() && bytes % 1024 == 0 && bytes != 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames.at(unit));
}

}  // namespace trainyard
