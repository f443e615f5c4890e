// Writes a run as a Chrome trace with the PyTorch profiler's names, for Perfetto and
// chrome://tracing.
//
// The trace has one process per shown rank, one thread per stream, an arrow from each send to its
// receive where both ranks are shown, and counters of memory by category, of link use, and of power
// and timed faults where the run has them (counter_groups.hpp). A rank shows the spans of its
// class. The span of a communication kernel covers the time in which it moves data; a span "wait"
// before it covers the time in which the rank waits for the other members.
//
//    write_chrome_trace(view, "trace.json.gz", {});    // one rank of each class
//
// Ranks of one class are adjacent, and each thread is in order of time. The file is written piece
// by piece, so memory does not grow with the trace (except for one record per message). For a trace
// of many ranks the format of perfetto/perfetto_trace.hpp is smaller and much faster to write.
#pragma once

#include <filesystem>

#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Throws InputError when a rank does not exist or the file cannot be written.
TraceCounts write_chrome_trace(const RunView& view, const std::filesystem::path& file,
                               const TraceOptions& options);

// Writes one file per shown rank, rank_<n>.json.gz, as HolisticTraceAnalysis expects.
void write_trace_directory(const RunView& view, const std::filesystem::path& directory,
                           const TraceOptions& options);

}  // namespace trainyard
