// The ranks of one class in a Chrome trace: processes, threads, spans and memory counters.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/render/traces/trace_events.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

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

// Writes everything of the ranks and returns their messages, from which flows are drawn. The text
// is made once for all of them, in pieces of about a mebibyte.
[[nodiscard]] std::vector<MessageEnd> write_class_trace(const RunView& view,
                                                        const ShownClass& shown,
                                                        bool memory_counters, TraceEvents& events,
                                                        OutputStream& out);

}  // namespace trainyard
