// One rank of a Chrome trace: its process, threads, spans and memory counters.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/report/trace_events.hpp"

namespace trainyard {

// A send or a receive of a shown rank, by the call it is: the i-th on its group.
struct MessageEnd {
  GroupId group = 0;
  std::uint32_t call = 0;
  bool receives = false;
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// Writes everything of one rank and returns its messages, from which flows are drawn.
[[nodiscard]] std::vector<MessageEnd> write_rank_trace(const RunView& view, RankId rank,
                                                       bool memory_counters, TraceEvents& events);

}  // namespace trainyard
