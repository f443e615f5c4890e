// One run of a profiler over its tasks, with any measuring function. Existing rows are kept, each
// new row is on disk before the next task starts, and an interruption loses nothing.
//
//    const Measuring gpu{.measure = measure_on_gpu, .interrupted = interrupted,
//                        .say = print_line, .progress = replace_line};
//    const Outcome outcome = run_tasks(profile, tasks, "h200.json", gpu);
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
  std::function<bool()> interrupted;                 // called before each task
  std::function<void(const std::string&)> say;       // prints a permanent line
  std::function<void(const std::string&)> progress;  // prints a line that the next one replaces
};

struct Outcome {
  std::size_t kept = 0;  // tasks that already had a row
  std::size_t measured = 0;
  std::size_t left_out = 0;  // tasks that threw Unsupported
  std::size_t wrong = 0;     // tasks that threw WrongResult
  bool interrupted = false;
};

// Measures each task that has no row, adds the row to the profile and writes the partial file after
// each. The progress line contains the task and the estimated seconds left. Tasks that are
// unsupported or wrong are printed.
[[nodiscard]] Outcome run_tasks(MeasuredProfile& profile, const std::vector<Task>& tasks,
                                const std::filesystem::path& out, const Measuring& measuring);

// Estimated time of the tasks that have no row.
[[nodiscard]] Seconds time_left(const MeasuredProfile& profile, const std::vector<Task>& tasks);

}  // namespace trainyard::bench
