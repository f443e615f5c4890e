// One run of the profiler over its tasks, whatever measures them: what was measured before is kept,
// each new row is on disk before the next task begins, and an interruption loses nothing.
//
//   const Measuring gpu{.measure = ..., .interrupted = ..., .say = ..., .progress = ...};
//   const Outcome outcome = run_tasks(profile, tasks, "h200.json", gpu);
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/bench/measured_profile.hpp"
#include "sim/base/units.hpp"

namespace trainyard::bench {

struct Measuring {
  std::function<MeasuredRow(const Task&)> measure;   // may throw Unsupported or WrongResult
  std::function<bool()> interrupted;                 // asked before each task
  std::function<void(const std::string&)> say;       // a line that stays
  std::function<void(const std::string&)> progress;  // a line that the next one replaces
};

struct Outcome {
  std::size_t kept = 0;  // of the tasks, measured before
  std::size_t measured = 0;
  std::size_t left_out = 0;  // Unsupported
  std::size_t wrong = 0;     // WrongResult
  bool interrupted = false;
};

// Adds a row to the profile for each task that has none and writes the partial file after each. The
// progress line tells the task and the estimated seconds left; what is left out or wrong is said.
[[nodiscard]] Outcome run_tasks(MeasuredProfile& profile, const std::vector<Task>& tasks,
                                const std::filesystem::path& out, const Measuring& measuring);

// Estimated, of the tasks that have no row.
[[nodiscard]] Seconds time_left(const MeasuredProfile& profile, const std::vector<Task>& tasks);

}  // namespace trainyard::bench
