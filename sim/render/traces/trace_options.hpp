// Which ranks a trace shows, and by which classes their spans are written.
//
// Ranks of a class have the same spans, so a trace is made class by class: everything that its
// ranks share is worked out once, however many are shown.
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
  // Nothing: one rank of each class; of each program (a pipeline stage) where there are more than
  // kTraceClassesMax classes. TraceCounts::classes_left_out says how many are then not shown.
  std::vector<RankId> ranks{};
  bool all_ranks = false;  // whatever `ranks` says
  bool memory_counters = true;
  bool link_counters = true;  // of the kTraceLinkClassesMax classes that carry most
};

// The parts that were written; a checker compares them with what a viewer found.
struct TraceCounts {
  std::uint64_t processes = 0;
  std::uint64_t threads = 0;
  std::uint64_t slices = 0;
  std::int64_t slice_ns = 0;           // their durations, summed
  std::uint64_t flows = 0;             // arrows, each with a start and an end
  std::uint64_t counters = 0;          // counter events
  std::uint64_t classes_left_out = 0;  // rank classes without a shown rank
};

// Times of a trace are whole nanoseconds.
[[nodiscard]] std::int64_t trace_ns(double seconds);

// The shown ranks in ascending order. Throws InputError when a rank does not exist.
[[nodiscard]] std::set<RankId> shown_ranks(const RunView& view, const TraceOptions& options);

struct ShownClass {
  std::uint32_t rank_class = 0;
  std::vector<RankId> ranks;  // ascending, at least one
};
// The shown ranks by class, in the order of the lowest shown rank of each.
[[nodiscard]] std::vector<ShownClass> by_class(const RunView& view, const std::set<RankId>& ranks);

}  // namespace trainyard
