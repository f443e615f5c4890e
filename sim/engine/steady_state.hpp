// The steady state of a pipeline. Once the pipeline is full, every microbatch (of an interleaved
// schedule: every round of microbatches) takes the same time as the one before it.
//
// The engine plays such a step without most of its microbatches. Where the times show that the
// pipeline was periodic before its last microbatches began, they are the times of the whole step:
// everything before that date stays, the last period is repeated once for each period that was
// left out, and everything after that date follows. The dates are those of the whole run, up to
// its ticks. Where the times show no period, the engine plays the whole step.
//
// Why that is exact: the state of a run is what has started and not ended, and when it started. If
// all that happens in one period happens again in the next one, and nothing is alive longer than
// that, then both periods end in the same state. The operations that follow are the same, so the
// next period is the same, and so on until the repetition of the programs ends.
//
//    const std::unique_ptr<ShortStep> step = shortened(workload);
//    Timeline played = play(step->workload);
//    std::optional<Timeline> whole = lengthened(workload, partition, *step, std::move(played));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/engine_programs.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The part of a shortened program that repeats, in operations of the shortened program.
struct PeriodicPart {
  OpIndex begin = 0;   // its first operation
  OpIndex end = 0;     // the first operation that differs from the one a period earlier
  OpIndex period = 0;  // operations per period; 0: no rank runs the program
};

// A workload without some periods of its microbatches, and all that the engine knows of it.
struct ShortStep {
  explicit ShortStep(Workload of, std::vector<PeriodicPart> periodic, std::uint32_t repeats)
      : workload(std::move(of)), parts(std::move(periodic)), left_out(repeats) {}

  Workload workload;
  std::vector<PeriodicPart> parts;  // by program
  std::uint32_t left_out;           // periods
  ProgramAnalysis analysis{workload};
  std::unique_ptr<EnginePrograms> programs = std::make_unique<EnginePrograms>(workload, analysis);
};

// Returns the workload without the periods that a steady state is likely to repeat. Returns null
// where a program has no periodic part, or where little can be left out.
[[nodiscard]] std::unique_ptr<ShortStep> shortened(const Workload& workload);

// The operations of all rank classes that the shortened step does not have.
[[nodiscard]] std::uint64_t operations_left_out(const ShortStep& step, const Partition& partition);

// Returns the timeline of the whole step from that of the shortened one; nothing where the pipeline
// was not periodic when its last microbatches began. REQUIRES: `played` has recorded all times.
[[nodiscard]] std::optional<Timeline> lengthened(const Workload& whole, const Partition& partition,
                                                 const ShortStep& step, Timeline played);

}  // namespace trainyard
