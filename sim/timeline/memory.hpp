// Memory of a rank over the step, on the clock of the timeline (decision D8).
//
// A class starts with its program's resident memory. Operations allocate and free when they start
// or end. At one instant frees come before allocations, because a caching allocator reuses a block
// that an earlier kernel of the stream has released; among frees, and among allocations, program
// order holds. Dates less than 1e-11 s apart are one instant; otherwise rounding would decide their
// order.
//
//    MemoryPeak peak = memory_peak(workload, partition, timeline, /*rank_class=*/0);
//    peak.bytes; peak.at_s; peak.by_category;   // how much, when, of what
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// One effect of an operation, with its time.
struct MemoryChange {
  double time_s = 0.0;
  OpIndex operation = 0;
  std::uint16_t category = 0;
  std::int64_t bytes = 0;
};

// All effects of a rank class: by time, frees first, then program order.
[[nodiscard]] std::vector<MemoryChange> memory_changes(const Workload& workload,
                                                       const Partition& partition,
                                                       const Timeline& timeline,
                                                       std::size_t rank_class);

// The bytes that the program holds through the whole step, by category.
[[nodiscard]] std::vector<std::int64_t> resident_bytes(const Workload& workload,
                                                       const Program& program);

// The bytes that the program's operations allocate and do not free, by category. All are zero when
// the curve returns to its start.
[[nodiscard]] std::vector<std::int64_t> unreturned_bytes(const Workload& workload,
                                                         const Program& program);

// The most bytes that a rank of the class holds in the memory of its CPU. These are the bytes of
// kHostCategory. No other function of this file counts them, except `unreturned_bytes`.
[[nodiscard]] std::int64_t host_memory_peak(const Workload& workload, const Partition& partition,
                                            const Timeline& timeline, std::size_t rank_class);

struct MemoryPeak {
  std::int64_t bytes = 0;
  double at_s = 0.0;  // the first instant at which it is reached
  // The operation whose allocation reached it; kNone: resident memory alone.
  OpIndex operation = kNone;
  std::vector<std::int64_t> by_category;  // at that instant
};
[[nodiscard]] MemoryPeak memory_peak(const Workload& workload, const Partition& partition,
                                     const Timeline& timeline, std::size_t rank_class);

// The curve, with one point per instant at which it changes. The first point is the start of the
// step.
struct MemoryPoint {
  double time_s = 0.0;
  std::vector<std::int64_t> by_category;
};
[[nodiscard]] std::vector<MemoryPoint> memory_curve(const Workload& workload,
                                                    const Partition& partition,
                                                    const Timeline& timeline,
                                                    std::size_t rank_class);

}  // namespace trainyard
