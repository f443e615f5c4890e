#include "tools/studies/collective/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "sim/collectives/collective.hpp"

namespace trainyard {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr double kKibi = 1024.0;
// One letter is a binary unit, as in nccl-tests, which takes it in either case; KB, MB, GB and TB
// are decimal.
constexpr std::array kUnits{Unit{"k", kKibi},
                            Unit{"m", kKibi* kKibi},
                            Unit{"g", kKibi* kKibi* kKibi},
                            Unit{"t", kKibi* kKibi* kKibi* kKibi},
                            Unit{"", 1.0},
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

[[noreturn]] void refuse(std::string option, std::string problem, std::string hint) {
  throw InputError(Problem{.file = std::move(option),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// The number at the start of a text and the rest of the text. Without a number it is NaN, and the
// rest is empty.
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

// Parses one size. `examples` are for the error message.
std::int64_t size_of(std::string_view text, const std::string& option, const char* examples) {
  const Leading leading = leading_number(text);
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
    return candidate.name == leading.rest;
  });
  if (std::isnan(leading.number) || unit == kUnits.end()) {
    refuse(option, fmt::format("\"{}\" is not a size", text),
           fmt::format("write a number with B, KiB, MiB or GiB, such as {}", examples));
  }
  const double bytes = leading.number * unit->bytes;
  if (!(bytes >= 1.0 && bytes <= kBytesMost) || bytes != std::floor(bytes)) {
    refuse(option, fmt::format("\"{}\" is not a whole number of bytes from 1 to 10^15", text),
           "the sizes of nccl-tests go from 8B to 8GiB");
  }
  return static_cast<std::int64_t>(bytes);
}

double parse_factor(std::string_view text) {
  const Leading leading = leading_number(text);
  if (leading.rest.empty() && leading.number > 1.0 && leading.number <= kBytesMost)
    return leading.number;
  refuse(kSizes, fmt::format("\"{}\" is not a factor", text),
         "it must be above 1, such as 2 in 8B:8GiB:2");
}

// A text without the mark is one part. "8," has an empty second part, which its reader refuses.
std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::int64_t> parse_range(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() > 3) {
    refuse(kSizes, fmt::format("\"{}\" has {} parts", text, parts.size()),
           "write FROM:TO or FROM:TO:FACTOR, such as 8B:8GiB:2");
  }
  constexpr const char* kExamples = "8B:8GiB or 1MiB:1GiB:4";
  const std::int64_t from = size_of(parts[0], kSizes, kExamples);
  const std::int64_t last = parts.size() > 1 ? size_of(parts[1], kSizes, kExamples) : from;
  const double factor = parts.size() > 2 ? parse_factor(parts[2]) : 2.0;
  if (last < from) {
    refuse(kSizes, fmt::format("\"{}\" ends below its start", text), "put the smaller size first");
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = from; size <= last;) {
    sizes.push_back(size);
    if (sizes.size() > kSizesMost) {
      refuse(kSizes, fmt::format("\"{}\" are more than {} sizes", text, kSizesMost),
             "use a larger factor");
    }
    // A factor close to 1 still advances by at least one byte, and a large one ends the range.
    const double next = static_cast<double>(size) * factor;
    if (next > static_cast<double>(last) + 1.0) break;
    size = std::max(size + 1, std::int64_t{std::llround(next)});
  }
  return sizes;
}

}  // namespace

std::vector<std::int64_t> parse_sizes(std::string_view text) {
  std::set<std::int64_t> sizes;
  for (const std::string_view range : split(text, ','))
    for (const std::int64_t size : parse_range(range)) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

// The largest binary unit that gives a whole number.
std::string size_text(std::int64_t bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < kNames.size() && bytes % 1024 == 0 && bytes != 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames.at(unit));
}

namespace {

std::optional<std::uint32_t> whole_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::uint32_t rank_of(std::string_view text, std::size_t gpus, const std::string& option) {
  const auto rank = whole_number(text);
  if (rank && *rank < gpus) return *rank;
  refuse(option, fmt::format("\"{}\" is not a rank of the cluster, which has {} GPUs", text, gpus),
         fmt::format("use 0 to {}, or more nodes", gpus - 1));
}

// A range of ranks: "A", "A-B" or "A-B/STEP".
struct Range {
  std::uint32_t first = 0, last = 0, step = 1;
};
Range range_of(std::string_view text, std::size_t gpus, const std::string& option) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos || dash == 0) {
    const std::uint32_t rank = rank_of(text, gpus, option);
    return {.first = rank, .last = rank};
  }
  const std::size_t slash = text.find('/', dash);
  Range range{.first = rank_of(text.substr(0, dash), gpus, option)};
  range.last = rank_of(text.substr(dash + 1, slash - dash - 1), gpus, option);
  if (slash != std::string_view::npos)
    range.step = whole_number(text.substr(slash + 1)).value_or(0);
  if (range.step == 0 || range.last < range.first)
    refuse(option, fmt::format("\"{}\" is not a range of ranks", text),
           "write FIRST-LAST or FIRST-LAST/STEP, such as 0-56/8");
  return range;
}

}  // namespace

std::vector<std::uint32_t> parse_ranks(std::string_view text, std::size_t gpus,
                                       const std::string& option) {
  std::vector<std::uint32_t> ranks;
  std::set<std::uint32_t> seen;
  for (const std::string_view part : split(text, ',')) {
    const Range range = range_of(part, gpus, option);
    // In 64 bits, where a large step does not pass the last rank by starting anew at 0.
    for (std::uint64_t at = range.first; at <= range.last; at += range.step) {
      const auto rank = static_cast<std::uint32_t>(at);
      ranks.push_back(rank);
      if (!seen.insert(rank).second)
        refuse(option, fmt::format("{} is there twice", rank), "name each rank once");
    }
  }
  return ranks;
}

// Parses OP[/ALGORITHM]:RANKS[@SIZE].
CollectiveGroup parse_group(std::string_view text, std::size_t gpus) {
  const std::string option = "--group";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    refuse(option, fmt::format("\"{}\" is not OP[/ALGORITHM]:RANKS[@SIZE]", text),
           "write for example all_reduce:0-56/8 or all_to_all/pairwise:0-7@64MiB");
  std::string_view ranks = text.substr(colon + 1);
  CollectiveGroup group;
  if (const std::size_t at = ranks.find('@'); at != std::string_view::npos) {
    group.bytes = size_of(ranks.substr(at + 1), option, "64MiB");
    ranks = ranks.substr(0, at);
  }
  const std::string_view head = text.substr(0, colon);
  const std::size_t slash = std::min(head.find('/'), head.size());
  group.op = collective_named(std::string(head.substr(0, slash)), option);
  if (slash < head.size()) group.algorithm = head.substr(slash + 1);
  group.gpus = parse_ranks(ranks, gpus, option);
  if (group.gpus.size() < 2)
    refuse(option, fmt::format("\"{}\" has one rank", text), "a collective needs 2 or more");
  if (group.op == CollectiveOp::SendRecv && group.gpus.size() != 2)
    refuse(option, fmt::format("send_recv is between 2 ranks, not {}", group.gpus.size()),
           "name the sender and the receiver: send_recv:0,8");
  return group;
}

// tensor=N makes groups of N neighbouring ranks. data=N makes the N groups across such neighbours.
std::vector<std::vector<std::uint32_t>> split_groups(std::string_view text,
                                                     std::span<const std::uint32_t> ranks) {
  const std::string option = "--split";
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view kind = text.substr(0, equals);
  const auto count =
      whole_number(equals < text.size() ? text.substr(equals + 1) : std::string_view());
  if ((kind != "tensor" && kind != "data") || !count || *count == 0)
    refuse(option, fmt::format("\"{}\" is not tensor=N or data=N", text),
           "tensor=8 makes groups of 8 neighbours, data=8 the 8 groups across them");
  const std::size_t blocks = ranks.size() / *count;
  if (ranks.size() % *count != 0)
    refuse(option, fmt::format("{} does not divide {} ranks", *count, ranks.size()),
           "use a divisor of the ranks");
  const bool neighbours = kind == "tensor";
  if ((neighbours ? *count : blocks) < 2)
    refuse(option, fmt::format("\"{}\" of {} ranks makes groups of one", text, ranks.size()),
           "a collective needs 2 ranks or more");
  std::vector<std::vector<std::uint32_t>> groups(neighbours ? blocks : *count);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    groups[neighbours ? i / *count : i % *count].push_back(ranks[i]);
  return groups;
}

std::string ranks_text(std::span<const std::uint32_t> ranks) {
  bool neighbours = ranks.size() > 2;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    neighbours = neighbours && ranks[i] == ranks[i - 1] + 1;
  if (neighbours) return fmt::format("{}-{}", ranks.front(), ranks.back());
  if (ranks.size() <= 4) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},{},...,{}", ranks[0], ranks[1], ranks.back());
}

CollectiveOp collective_named(const std::string& name, const std::string& option) {
  std::vector<std::string> names;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (to_string(algorithm->op()) == name) return algorithm->op();
    const std::string known(to_string(algorithm->op()));
    if (std::find(names.begin(), names.end(), known) == names.end()) names.push_back(known);
  }
  refuse(option, fmt::format("there is no collective \"{}\"", name), suggestion(name, names));
}

}  // namespace trainyard
