#include "tools/studies/collective/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "sim/collectives/collective.hpp"
#include "tools/studies/collective/sizes.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(std::string option, std::string problem, std::string hint) {
  throw InputError(Problem{.file = std::move(option),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

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

// "A", "A-B" or "A-B/STEP".
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

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::uint32_t> parse_ranks(std::string_view text, std::size_t gpus,
                                       const std::string& option) {
  std::vector<std::uint32_t> ranks;
  std::set<std::uint32_t> seen;
  for (const std::string_view part : split(text, ',')) {
    const Range range = range_of(part, gpus, option);
    for (std::uint32_t rank = range.first; rank <= range.last; rank += range.step) {
      ranks.push_back(rank);
      if (!seen.insert(rank).second)
        refuse(option, fmt::format("{} is there twice", rank), "name each rank once");
    }
  }
  return ranks;
}

CollectiveGroup parse_group(std::string_view text, std::size_t gpus) {
  const std::string option = "--group";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    refuse(option, fmt::format("\"{}\" is not OP[/ALGORITHM]:RANKS[@SIZE]", text),
           "write for example all_reduce:0-56/8 or all_to_all/pairwise:0-7@64MiB");
  std::string_view ranks = text.substr(colon + 1);
  CollectiveGroup group;
  if (const std::size_t at = ranks.find('@'); at != std::string_view::npos) {
    group.bytes = parse_size(ranks.substr(at + 1), option);
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
