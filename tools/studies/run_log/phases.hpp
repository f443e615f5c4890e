// Splits the wall time of a logged run into the phases of `goodput`, and measures its steps.
//
// Between two counts of steps the job trains, except for checkpoints and other spans within. Steps
// that a later restart does not hold were lost, so their time is redone work. The time that no
// event explains is a phase of its own. Every second belongs to one phase.
//
//    const PhaseSplit split = split_phases(log);
//    split.phase(RunPhase::Productive) / log.wall_s();   // goodput
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/run_log/run_log.hpp"

namespace trainyard {

// The time from one interruption, or the begin of the log, to the next one, or the end of the log.
struct RunSegment {
  double begin_s = 0.0;
  double end_s = 0.0;
  std::optional<std::size_t> interruption = {};  // that begins it; nothing: the first segment
  std::optional<double> up_s = {};  // when the job trains again; nothing: interrupted before
  double steps = 0.0;               // executed, those that were lost later too
  double training_s = 0.0;          // from up_s on, without checkpoints and transient stalls
  std::array<double, kPhases> recovery_s{};  // time of each phase before up_s
  double recovery_not_explained_s = 0.0;
};

struct StepTimes {
  double p10_s = 0.0;
  double median_s = 0.0;
  double p90_s = 0.0;
  double steps = 0.0;  // that were measured
};

struct PhaseSplit {
  std::array<double, kPhases> phases_s{};
  std::map<std::string, double> others_s;  // activities that the log names, such as evaluation
  double not_explained_s = 0.0;
  std::vector<RunSegment> segments;
  std::optional<StepTimes> step_times;  // nothing: the log has no steps
  double steps_kept = 0.0;
  double last_step = 0.0;  // the count at the end of the log

  [[nodiscard]] double phase(RunPhase phase) const {
    return phases_s[static_cast<std::size_t>(phase)];
  }
  [[nodiscard]] double sum_s() const;
};

[[nodiscard]] PhaseSplit split_phases(const RunLog& log);

}  // namespace trainyard
