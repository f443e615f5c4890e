// The run as a Chrome trace with the PyTorch profiler's words, for Perfetto and chrome://tracing.
//
// One process per shown rank, one thread per stream, arrows from each send to its receive where
// both ranks are shown, counters of memory by category and of link use. A rank shows the spans of
// its class. A communication's kernel spans the time it moves; the time it awaits others stands
// before it as "wait".
//
//   write_chrome_trace(view, "trace.json.gz", {});    // one rank of each class
//
// Ranks of one class stand together, in order of time on each thread. Written piece by piece:
// memory does not grow with the trace (but for one record per message). For a trace of many ranks
// perfetto/perfetto_trace.hpp is smaller and much faster to write.
#pragma once

#include <filesystem>

#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Throws InputError when a rank does not exist or the file cannot be written.
TraceCounts write_chrome_trace(const RunView& view, const std::filesystem::path& file,
                               const TraceOptions& options);

// One file per shown rank, rank_<n>.json.gz, as HolisticTraceAnalysis reads them.
void write_trace_directory(const RunView& view, const std::filesystem::path& directory,
                           const TraceOptions& options);

}  // namespace trainyard
