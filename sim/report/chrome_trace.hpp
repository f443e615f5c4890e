// The run as a Chrome trace with the PyTorch profiler's words, for Perfetto and chrome://tracing.
//
// One process per shown rank, one thread per stream, arrows from each send to its receive where
// both ranks are shown, counters of memory by category and of link use. A rank shows the spans of
// its class. A communication's kernel spans the time it moves; the time it awaits others stands
// before it as "wait".
//
//   write_chrome_trace(view, "trace.json.gz", {});    // one rank of each class
//
// Written piece by piece: memory does not grow with the trace (but for one record per message).
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "sim/graph/workload.hpp"
#include "sim/report/run_view.hpp"
#include "sim/report/trace_events.hpp"

namespace trainyard {

inline constexpr std::size_t kTraceClassesMax = 64;
inline constexpr std::size_t kTraceLinkClassesMax = 32;

struct TraceOptions {
  // Nothing: one rank of each class; of each program (a pipeline stage) where there are more than
  // kTraceClassesMax classes. TraceCounts::classes_left_out says how many are then not shown.
  std::vector<RankId> ranks{};
  bool memory_counters = true;
  bool link_counters = true;  // of the kTraceLinkClassesMax classes that carry most
};

// Throws InputError when a rank does not exist or the file cannot be written.
TraceCounts write_chrome_trace(const RunView& view, const std::filesystem::path& file,
                               const TraceOptions& options);

// One file per shown rank, rank_<n>.json.gz, as HolisticTraceAnalysis reads them.
void write_trace_directory(const RunView& view, const std::filesystem::path& directory,
                           const TraceOptions& options);

}  // namespace trainyard
