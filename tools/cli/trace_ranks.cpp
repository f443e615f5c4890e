#include "tools/cli/trace_ranks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

std::optional<RankId> rank_of(std::string_view text) {
  RankId rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return rank;
}

}  // namespace

TraceOptions trace_options_of(const std::vector<std::string>& words) {
  // A range up to the largest number would fill the memory before anybody asked for its ranks.
  constexpr RankId kRangeMost = 1 << 20;
  TraceOptions options;
  for (const std::string_view word : words) {
    if (word == "all") {
      options.all_ranks = true;
      continue;
    }
    const std::size_t dash = word.find('-');
    const std::optional<RankId> first = rank_of(word.substr(0, dash));
    const std::optional<RankId> last =
        dash == std::string_view::npos ? first : rank_of(word.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > kRangeMost) {
      throw InputError(Problem{.file = {},
                               .pointer = "--trace-ranks",
                               .problem = fmt::format("\"{}\" names no ranks", word),
                               .hint = "write ranks and ranges, as in 0,8-15, or all"});
    }
    for (RankId rank = *first; rank <= *last; ++rank) options.ranks.push_back(rank);
  }
  return options;
}

}  // namespace trainyard
