// Why a step takes as long as it does: the chain of operations, each begun the moment the one
// before ended, that leads from the start of the step to its end; and how much later every other
// operation could have ended without making the step longer.
//
// The chain is found from the end: before an operation comes what it waited for last in its rank;
// for communication that is asked of the member that came last, so the chain changes ranks there.
// Its pieces cover the step without holes. Time that no operation explains (the CPU had not issued
// the next one) is a piece of its own.
//
//   for (const PathPiece& piece : critical_path(EventGraph(workload, partition), timeline))
//   piece.seconds();
//
// Worked: rank 0 computes 2 s and reduces with rank 1, which computed 3 s; the call takes 1 s: the
// path is rank 1's 3 s and the call; rank 0's computation has 1 s of slack
// (tests/sim/timeline/critical_path_test.cpp).
#pragma once

#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/timeline/event_graph.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct PathPiece {
  Event event;  // whose time it is; of a gap, the operation that came after it
  bool gap = false;
  double start_s = 0.0;
  double end_s = 0.0;
  [[nodiscard]] double seconds() const { return end_s - start_s; }
};

// In order of time, from 0 to the makespan. Pieces without length are left out. Empty for a step
// without operations.
[[nodiscard]] std::vector<PathPiece> critical_path(const EventGraph& graph,
                                                   const Timeline& timeline);

// Total slack of every operation, [rank class][operation]: the makespan stays as it is when this
// one alone ends later by that much, all durations and the order on each stream staying as they
// were. At least 0 up to rounding; 0 all along the critical path where no gap lies behind.
[[nodiscard]] std::vector<std::vector<double>> slack_seconds(const EventGraph& graph,
                                                             const Partition& partition,
                                                             const Timeline& timeline);

}  // namespace trainyard
