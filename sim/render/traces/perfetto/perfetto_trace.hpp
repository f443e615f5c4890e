// Writes a run as a trace in Perfetto's own format, for any number of ranks.
//
// The trace shows what the Chrome trace shows (chrome_trace.hpp), in a hundredth of its bytes, and
// is written in seconds where that takes minutes: the packets that ranks of one class share are
// encoded and compressed once and copied for each rank. It omits the arguments that the track
// implies (device, context, stream) and the correlation numbers. A message that takes no time has
// no arrow.
//
//    write_perfetto_trace(view, "trace.pftrace", {.all_ranks = true});
#pragma once

#include <filesystem>

#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Returns whether the file name selects this format: ".pftrace" or ".perfetto-trace", with or
// without ".gz".
[[nodiscard]] bool is_perfetto_trace(const std::filesystem::path& file);

// Throws InputError when a rank does not exist or the file cannot be written. The counts include
// every value of a counter.
TraceCounts write_perfetto_trace(const RunView& view, const std::filesystem::path& file,
                                 const TraceOptions& options);

}  // namespace trainyard
