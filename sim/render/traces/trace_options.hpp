// Options of a trace: the ranks that it shows, grouped by class.
//
// Ranks of a class have the same spans, so a trace is made class by class: everything that the
// ranks share is computed once, however many of them are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

inline constexpr std::size_t kTraceClassesMax = 64;
inline constexpr std::size_t kTraceLinkClassesMax = 32;

struct TraceOptions {
  // Empty: one rank of each class; where there are more than kTraceClassesMax classes, one rank of
  // each program (a pipeline stage). TraceCounts::classes_left_out counts the classes that are not
  // shown.
  std::vector<RankId> ranks{};
  bool all_ranks = false;  // overrides `ranks`
  bool memory_counters = true;
  bool link_counters = true;  // of the kTraceLinkClassesMax classes that carry most
};

// The numbers of events written. A checker compares them with what a viewer found.
struct TraceCounts {
  std::uint64_t processes = 0;
  std::uint64_t threads = 0;
  std::uint64_t slices = 0;
  std::int64_t slice_ns = 0;           // sum of their durations
  std::uint64_t flows = 0;             // arrows, each with a start and an end
  std::uint64_t counters = 0;          // counter events
  std::uint64_t classes_left_out = 0;  // rank classes without a shown rank
};

// Converts to the unit of all times in traces, whole nanoseconds.
[[nodiscard]] std::int64_t trace_ns(double seconds);

// Returns the shown ranks in ascending order. Throws InputError when a rank does not exist.
[[nodiscard]] std::set<RankId> shown_ranks(const RunView& view, const TraceOptions& options);

struct ShownClass {
  std::uint32_t rank_class = 0;
  std::vector<RankId> ranks;  // ascending, at least one
};
// Groups the shown ranks by class, in the order of the lowest shown rank of each.
[[nodiscard]] std::vector<ShownClass> by_class(const RunView& view, const std::set<RankId>& ranks);

}  // namespace trainyard
