// The ranks that a trace shows, as the command line names them: "0,8-15" or "all".
#pragma once

#include <string>
#include <vector>

#include "sim/render/traces/trace_options.hpp"

namespace trainyard {

// From what stands between the commas. Throws InputError for what is neither a rank, a range nor
// "all"; whether the ranks exist is asked when the trace is written.
[[nodiscard]] TraceOptions trace_options_of(const std::vector<std::string>& words);

}  // namespace trainyard
