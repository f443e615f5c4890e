// Logs for tests: files with a given text, and logs of sampled runs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/quick_file.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"
#include "tools/studies/run_log/run_log.hpp"

namespace trainyard::test {

// Writes the text into a file of the test's folder and returns its path.
inline std::string log_file_of(const std::string& text, const std::string& name = "run.log") {
  const auto file = std::filesystem::path(testing::TempDir()) / name;
  test::write_quickly(file, text);
  return file.string();
}

inline RunLog log_of(const std::string& text) { return read_run_log(log_file_of(text)); }

inline std::string word_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::Detect:
      return "detection";
    case RunPhase::Diagnose:
      return "diagnosis";
    case RunPhase::Replace:
      return "replacement";
    case RunPhase::Start:
      return "start";
    case RunPhase::Load:
      return "load";
    default:
      return "other";
  }
}

// A run as the CSV that a user would write. Each detection begins with a failure, so every cause of
// the job needs a time of detection. The job has one level of checkpoints and only fatal causes.
class SampledLog {
 public:
  SampledLog(Job job, const RunLength& length, std::uint64_t seed, std::uint64_t index)
      : job_(std::move(job)), seed_(seed), index_(index) {
    std::vector<RunEvent> events;
    run_ = sampled_run(job_, length, seed, index, &events);
    text_ = "time,event,step,cause,node,duration_s\n";
    for (const RunEvent& event : events) add(event);
    text_ += fmt::format("{:.6f},end,,,,\n", run_.wall_s);
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const SampledRun& run() const { return run_; }

 private:
  [[nodiscard]] double steps_at(double time_s) const {
    return time_s <= 0.0 ? 0.0 : sampled_run(job_, {.wall_s = time_s}, seed_, index_).steps;
  }
  void add(const RunEvent& event) {
    const double end_s = event.begin_s + event.duration_s;
    if (event.phase == RunPhase::Productive) return add_training(event.begin_s, end_s);
    if (event.phase == RunPhase::Detect)
      text_ += fmt::format("{:.6f},failure,,{},,\n", event.begin_s, event.cause);
    text_ +=
        fmt::format("{:.6f},{},,,,{:.6f}\n", event.begin_s, word_of(event.phase), event.duration_s);
  }
  void add_training(double begin_s, double end_s) {
    constexpr double kJustBefore = 1e-6;
    const double first = steps_at(begin_s);
    text_ += fmt::format("{:.6f},step,{:.6f},,,\n", begin_s, first);
    const CheckpointLevel& storage = job_.storage();
    const double work_s = static_cast<double>(storage.interval_steps) * job_.step_s;
    double steps = first;
    for (double at_s = begin_s + work_s; at_s < end_s; at_s += work_s + storage.stall_s) {
      steps += static_cast<double>(storage.interval_steps);
      text_ += fmt::format("{:.6f},checkpoint,{:.6f},,,{:.6f}\n", at_s, steps,
                           std::min(storage.stall_s, end_s - at_s));
    }
    text_ += fmt::format("{:.6f},step,{:.6f},,,\n", end_s,
                         std::max(steps, steps_at(end_s - kJustBefore)));
  }

  Job job_;
  std::uint64_t seed_, index_;
  SampledRun run_;
  std::string text_;
};

}  // namespace trainyard::test
