// The run as a trace in Perfetto's own format, for as many ranks as there are.
//
// It shows what the Chrome trace shows (chrome_trace.hpp), in a hundredth of its bytes, and takes
// seconds where that takes minutes: what ranks of one class share is made and compressed once and
// copied for each. Left out are the arguments that the track itself says (device, context, stream)
// and the correlation numbers. A message that takes no time has no arrow.
//
//   write_perfetto_trace(view, "trace.pftrace", {.all_ranks = true});
#pragma once

#include <filesystem>

#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Does the name ask for this format? ".pftrace" and ".perfetto-trace" do, with or without ".gz".
[[nodiscard]] bool is_perfetto_trace(const std::filesystem::path& file);

// Throws InputError when a rank does not exist or the file cannot be written. Counters are counted
// value by value.
TraceCounts write_perfetto_trace(const RunView& view, const std::filesystem::path& file,
                                 const TraceOptions& options);

}  // namespace trainyard
