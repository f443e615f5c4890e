#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "tools/studies/run_log/readers.hpp"
#include "tools/studies/run_log/timestamp.hpp"

namespace trainyard {

// Each allocation is one attempt of the run: the job is up at its start and interrupted at its end,
// and the time until the next allocation is the wait in the queue. Allocations must not overlap,
// because two jobs at one time are not attempts of one run.

namespace {

// How an allocation ended (Slurm, sacct, "JOB STATE CODES"). sacct does not say whether a preempted
// job, or one at its time limit, wrote a checkpoint before its end; both count as fatal, so work
// may be lost.
struct SlurmState {
  std::string_view word;
  std::optional<FailureKind> kind;  // nothing: it goes on, or ended well
  std::string_view cause;
};
constexpr std::array kStates{SlurmState{"BOOT_FAIL", FailureKind::Fatal, "node failure"},
                             SlurmState{"CANCELLED", FailureKind::Planned, "cancelled"},
                             SlurmState{"COMPLETED", FailureKind::Planned, "completed"},
                             SlurmState{"DEADLINE", FailureKind::Planned, "deadline"},
                             SlurmState{"FAILED", FailureKind::Fatal, "failed"},
                             SlurmState{"NODE_FAIL", FailureKind::Fatal, "node failure"},
                             SlurmState{"OUT_OF_MEMORY", FailureKind::Fatal, "out of memory"},
                             SlurmState{"PREEMPTED", FailureKind::Fatal, "preempted"},
                             SlurmState{"REQUEUED", FailureKind::Fatal, "requeued"},
                             SlurmState{"RUNNING", std::nullopt, ""},
                             SlurmState{"TIMEOUT", FailureKind::Fatal, "time limit"}};

struct Allocation {
  std::string job;
  double start_s = 0.0;
  double end_s = 0.0;
  SlurmState state;
  std::string node;  // that failed
  std::int64_t nodes = 0;
  std::size_t line = 0;
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find('|');
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

// "2-03:04:05", "03:04:05" or "04:05" in seconds. `timestamp` serves as the reader of plain
// numbers.
std::optional<double> elapsed(std::string_view text) {
  double days = 0.0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto before = timestamp(text.substr(0, dash));
    if (!before || before->dated) return {};
    days = before->seconds;
    text.remove_prefix(dash + 1);
  }
  constexpr double kBase = 60.0;
  double clock = 0.0;
  while (true) {
    const std::size_t colon = text.find(':');
    const auto part = timestamp(text.substr(0, colon));
    if (!part || part->dated) return {};
    clock = clock * kBase + part->seconds;
    if (colon == std::string_view::npos) return days * kSecondsPerDay + clock;
    text.remove_prefix(colon + 1);
  }
}

class SlurmTable {
 public:
  SlurmTable(std::string file, std::string_view header) : file_(std::move(file)) {
    const std::vector<std::string_view> names = fields_of(header);
    for (std::size_t i = 0; i < names.size(); ++i) columns_.emplace(names[i], i);
    for (const char* needed : {"JobID", "Start", "End", "State"})
      if (!columns_.contains(needed))
        refuse_line(file_, 1, fmt::format("has no column {}", needed),
                    "run sacct --parsable2 --duplicates "
                    "--format=JobID,JobName,Submit,Start,End,Elapsed,State,ExitCode,NNodes,"
                    "FailedNode");
  }
  // Nothing for a step of a job, and for one that did not start.
  [[nodiscard]] std::optional<Allocation> allocation(std::string_view line, std::size_t number);

 private:
  [[nodiscard]] std::string field(const char* name) const {
    const auto found = columns_.find(name);
    return found == columns_.end() ? "" : std::string(fields_[found->second]);
  }
  [[nodiscard]] double time(const char* column, std::size_t number) const;
  [[nodiscard]] SlurmState state(std::size_t number) const;

  std::string file_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::vector<std::string_view> fields_;
};

double SlurmTable::time(const char* column, std::size_t number) const {
  const auto found = timestamp(field(column));
  if (!found || !found->dated)
    refuse_line(file_, number, fmt::format("has the {} \"{}\"", column, field(column)),
                "print times as sacct does by default: 2026-03-01T12:00:00");
  return found->seconds;
}

SlurmState SlurmTable::state(std::size_t number) const {
  const std::string word = field("State").substr(0, field("State").find(' '));  // "by 1000"
  const auto found = std::ranges::find(kStates, word, &SlurmState::word);
  if (found == kStates.end())
    refuse_line(file_, number, fmt::format("has the State \"{}\"", field("State")),
                "leave out jobs that did not run");
  return *found;
}

std::optional<Allocation> SlurmTable::allocation(std::string_view line, std::size_t number) {
  fields_ = fields_of(line);
  if (fields_.size() != columns_.size())
    refuse_line(file_, number,
                fmt::format("has {} fields, the header has {}", fields_.size(), columns_.size()),
                "print the table with --parsable2");
  const std::string start = field("Start");
  // sacct prints the steps of a job ("1234.batch", "1234.0") as rows of their own, within the time
  // of the job.
  if (field("JobID").find('.') != std::string::npos || start == "Unknown" || start == "None")
    return {};
  Allocation one{.job = field("JobID"),
                 .start_s = time("Start", number),
                 .state = state(number),
                 .node = field("FailedNode"),
                 .line = number};
  if (one.node == "None assigned") one.node.clear();
  const std::string count = field("NNodes");
  std::from_chars(count.data(), count.data() + count.size(), one.nodes);
  if (field("End") != "Unknown") {
    one.end_s = time("End", number);
  } else {
    const auto lasts = elapsed(field("Elapsed"));
    if (!lasts)
      refuse_line(file_, number, fmt::format("has job {}, which still runs", one.job),
                  "add Elapsed to --format, so that the end of the log is known");
    one.end_s = one.start_s + *lasts;
  }
  if (one.end_s < one.start_s) refuse_line(file_, number, "ends before it starts", "correct it");
  return one;
}

void add_allocation(const Allocation& one, bool last, RunLog& log) {
  // Without steps in the log, the job counts as up from the start of its allocation.
  log.resumed_s.push_back(one.start_s);
  log.bounds_s.insert(log.bounds_s.end(), {one.start_s, one.end_s});
  log.nodes = std::max(log.nodes, one.nodes);
  const bool ended_well = one.state.word == "COMPLETED";
  // A run that ends well in the middle of the log continues in the next allocation, which is a
  // planned restart.
  if (!one.state.kind || (last && ended_well)) return;
  log.interruptions.push_back({.time_s = one.end_s,
                               .kind = *one.state.kind,
                               .cause = std::string(one.state.cause),
                               .node = one.node,
                               .place = one.line});
}

}  // namespace

RunLog read_slurm_log(const std::string& file, std::string_view text) {
  std::vector<Allocation> all;
  std::optional<SlurmTable> table;
  std::size_t number = 0;
  for (const std::string_view line : lines_of_log(text)) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (!table)
      table.emplace(file, line);
    else if (const auto one = table->allocation(line, number))
      all.push_back(*one);
  }
  std::ranges::stable_sort(all, {}, &Allocation::start_s);
  RunLog log;
  log.format = "table of Slurm's sacct";
  log.dated = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].start_s < all[i - 1].end_s)
      refuse_line(file, all[i].line,
                  fmt::format("has job {}, which ran at the same time as job {}", all[i].job,
                              all[i - 1].job),
                  "give the attempts of one run, for example sacct --name=NAME");
    if (i > 0 && all[i].start_s > all[i - 1].end_s)
      log.spans.push_back(
          {.begin_s = all[i - 1].end_s, .end_s = all[i].start_s, .phase = RunPhase::Queue});
    add_allocation(all[i], i + 1 == all.size(), log);
  }
  log.notes.emplace_back(
      "sacct does not log steps: the time of an allocation is not explained, and the goodput is "
      "not known; the time between two allocations counts as queue; times count as UTC");
  return log;
}

}  // namespace trainyard
