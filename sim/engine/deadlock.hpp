// The error text for a run that cannot go on: which operations are blocked, and by whom.
#pragma once

#include <string>

#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/rendezvous.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// An engine throws it where nothing can proceed. A caller who knows the reason throws its own error
// instead.
struct Deadlock : RunError {
  using RunError::RunError;
};

// One line per communication that was reached and never began, the longest waiting first. Each line
// names the member that is missing and the operation where that member is. At most eight lines,
// then the number of further ones. REQUIRES: times of events that have not happened are NaN.
[[nodiscard]] std::string deadlock_text(const EngineInput& input, const Rendezvous& rendezvous,
                                        const Timeline& timeline, double now_s);

}  // namespace trainyard
