// The log of a training run, whatever program wrote it: how many steps were complete when, which
// phases took which time, and which interruptions there were.
//
//    const RunLog log = read_run_log("bloom_176b.csv");
//    log.wall_s();                  // seconds from its first event to its last one
//    log.interruptions[0].cause;    // "GPU"
//
// All times are seconds: since 1970 in UTC if the log has dates, else since an unknown moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/reliability/reliability.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"

namespace trainyard {

// So many steps are complete at this time. The first mark after an interruption holds the steps of
// the checkpoint that was loaded.
struct StepMark {
  double time_s = 0.0;
  double steps = 0.0;
  std::size_t place = 0;  // in the log: the order of events at one time
};

// A phase of `goodput`, or another activity that the log names, such as an evaluation.
struct PhaseSpan {
  double begin_s = 0.0;
  double end_s = 0.0;
  std::optional<RunPhase> phase = {};  // nothing: another activity
  std::string name = {};               // of that activity; for a transient stall its cause
  std::optional<double> steps = {};    // a checkpoint: the steps that it holds
};

struct LoggedInterruption {
  double time_s = 0.0;
  FailureKind kind = FailureKind::Fatal;  // or Planned
  std::string cause = {};
  std::string node = {};  // that failed; empty: not told
  std::size_t place = 0;
};

struct RunLog {
  std::string file;
  std::string format;         // "CSV of steps and interruptions"
  std::string title;          // of the run; empty: not told
  std::string source;         // of a published log
  std::string reconstructed;  // how events without a date were placed; empty: none were
  bool dated = false;
  double begin_s = 0.0;  // the first and the last of all times below
  double end_s = 0.0;
  std::vector<double> bounds_s;  // times at which the log says that the run begins or ends
  std::vector<StepMark> marks;
  std::vector<PhaseSpan> spans;
  std::vector<LoggedInterruption> interruptions;
  std::vector<double> resumed_s;  // times at which the job is up again, for logs without steps
  std::vector<double> repairs_s;  // durations until failed nodes were back
  std::int64_t nodes = 0;         // 0: not told
  std::int64_t gpus_per_node = 0;
  std::int64_t spare_nodes = 0;
  double tokens_per_step = 0.0;
  std::vector<std::string> notes;  // on what was left out or assumed

  [[nodiscard]] double wall_s() const { return end_s - begin_s; }
};

// Reads a log and detects its format from its content: CSV, entries of Google's
// ml-goodput-measurement, lines of NVIDIA's resiliency extension, or a table of Slurm's sacct. The
// events are in the order of time. A count of steps that falls without an interruption becomes an
// interruption of the cause "not stated". Throws InputError with file, line and remedy.
[[nodiscard]] RunLog read_run_log(const std::filesystem::path& file);

}  // namespace trainyard
