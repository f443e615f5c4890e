#include "sim/render/traces/trace_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

// Returns one rank of each class. Where there are too many classes, it returns the lowest rank of
// each program (a pipeline stage).
std::set<RankId> default_ranks(const RunView& view) {
  std::set<RankId> ranks;
  std::set<std::uint32_t> programs;
  const bool all = view.partition.ranks.size() <= kTraceClassesMax;
  for (const RankClass& one : view.partition.ranks) {
    const bool first = programs.insert(one.program).second;
    if ((all || first) && ranks.size() < kTraceClassesMax) ranks.insert(one.representative);
  }
  return ranks;
}

}  // namespace

std::int64_t trace_ns(double seconds) { return std::llround(seconds * 1e9); }

std::set<RankId> shown_ranks(const RunView& view, const TraceOptions& options) {
  std::set<RankId> ranks(options.ranks.begin(), options.ranks.end());
  if (options.all_ranks) {
    for (RankId rank = 0; rank < view.workload.ranks.size(); ++rank) ranks.insert(rank);
  }
  if (!ranks.empty() && *ranks.rbegin() >= view.workload.ranks.size()) {
    throw InputError(
        Problem{.file = "",
                .pointer = "--trace-ranks",
                .problem = fmt::format("rank {} does not exist", *ranks.rbegin()),
                .hint = fmt::format("the run has ranks 0 to {}", view.workload.ranks.size() - 1)});
  }
  return ranks.empty() ? default_ranks(view) : ranks;
}

std::vector<ShownClass> by_class(const RunView& view, const std::set<RankId>& ranks) {
  std::vector<ShownClass> classes;
  std::map<std::uint32_t, std::size_t> places;
  for (const RankId rank : ranks) {
    const std::uint32_t rank_class = view.partition.class_of_rank.at(rank);
    const auto [place, first] = places.emplace(rank_class, classes.size());
    if (first) classes.push_back({.rank_class = rank_class, .ranks = {}});
    classes[place->second].ranks.push_back(rank);
  }
  return classes;
}

}  // namespace trainyard
