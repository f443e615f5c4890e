// The sentence for a run that cannot go on: what is blocked, and on whom.
#pragma once

#include <string>

#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/rendezvous.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// An engine throws it where nothing can proceed; a caller who knows why says so instead.
struct Deadlock : RunError {
  using RunError::RunError;
};

// One line per communication that was reached and never began, the longest waiting first, each with
// the member it misses and the operation that member stands at; at most eight lines, then how many
// more. REQUIRES: times of what has not happened are NaN.
[[nodiscard]] std::string deadlock_text(const EngineInput& input, const Rendezvous& rendezvous,
                                        const Timeline& timeline, double now_s);

}  // namespace trainyard
