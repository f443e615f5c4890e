#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/base/nearest.hpp"
#include "tools/studies/run_log/readers.hpp"
#include "tools/studies/run_log/timestamp.hpp"

namespace trainyard {

// Two passes: comments describe the run, and each row becomes a count of steps, a span, an
// interruption, a bound of the log or a repair. Rows may be in any order, since read_run_log()
// sorts the events, except that a row `repaired` needs the failure of its node before it. The row's
// number is the place by which events of one time are ordered.

namespace {

struct PhaseWord {
  std::string_view word;
  // Nothing: an activity that is no phase of `goodput`.
  std::optional<RunPhase> phase;
};
// Events that last for their duration_s.
constexpr std::array kLasting{PhaseWord{"checkpoint", RunPhase::Checkpoint},
                              PhaseWord{"stall", RunPhase::Stalled},
                              PhaseWord{"detection", RunPhase::Detect},
                              PhaseWord{"diagnosis", RunPhase::Diagnose},
                              PhaseWord{"replacement", RunPhase::Replace},
                              PhaseWord{"pause", RunPhase::Paused},
                              PhaseWord{"health_check", RunPhase::Checked},
                              PhaseWord{"queue", RunPhase::Queue},
                              PhaseWord{"start", RunPhase::Start},
                              PhaseWord{"communicator_init", RunPhase::CommunicatorInit},
                              PhaseWord{"load", RunPhase::Load},
                              PhaseWord{"warm_up", RunPhase::WarmUp},
                              PhaseWord{"other", std::nullopt}};

constexpr std::array<std::string_view, 6> kColumns{"time",  "event", "step",
                                                   "cause", "node",  "duration_s"};

// One row at a time, with what the file says so far.
class CsvEvents {
 public:
  CsvEvents(const std::string& file, std::string_view text);
  RunLog result() &&;

 private:
  void comment(std::string_view line, std::size_t number);
  void row(std::size_t row);
  void lasting(std::size_t row, const PhaseWord& word, double time_s);
  void repaired(std::size_t row, double time_s);
  [[nodiscard]] std::string text(std::size_t row, const std::string& column) const {
    return table_.has(column) ? table_.text(row, column) : std::string();
  }
  [[nodiscard]] double number(std::size_t row, const std::string& column,
                              const std::string& event) const;
  [[nodiscard]] double time(std::size_t row);

  CsvTable table_;
  RunLog log_;
  // Nothing before the first row.
  std::optional<bool> dated_;
  // A node that failed and is not back.
  std::map<std::string, double> failed_at_;  // by node
};

// CsvTable accepts every column, and the reader ignores those that it does not ask for. A column
// "nodes" in place of "node" would lose the names of all failed nodes without a message.
void check_header(const CsvTable& table, const std::string& file, std::string_view text) {
  const auto lines = lines_of_log(text);
  const auto header = std::ranges::find_if(
      lines, [](const std::string_view line) { return !line.starts_with('#'); });
  const auto number = static_cast<std::size_t>(header - lines.begin()) + 1;
  for (const std::string& column : table.columns()) {
    if (column.empty() || std::ranges::find(kColumns, column) != kColumns.end()) continue;
    refuse_line(file, number, fmt::format("has the column \"{}\"", column),
                fmt::format("the columns are {}", fmt::join(kColumns, ", ")));
  }
}

CsvEvents::CsvEvents(const std::string& file, std::string_view text) : table_(file) {
  log_.file = file;
  log_.format = "CSV of steps and interruptions";
  check_header(table_, file, text);
  std::size_t number = 0;
  for (const std::string_view line : lines_of_log(text)) {
    ++number;
    if (line.starts_with('#')) comment(line.substr(1), number);
  }
  for (std::size_t i = 0; i < table_.rows(); ++i) row(i);
}

double positive(const std::string& file, std::size_t line, const std::string& key,
                std::string_view value) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= 0.0) ||
      !std::isfinite(number))
    refuse_line(file, line, fmt::format("has {} \"{}\", which is no number", key, value),
                "write a number");
  return number;
}

// A comment "key: value" describes the run. Prose is ignored: a comment without a colon, or with
// several words before it. One unknown word before the colon is refused, since it is probably a
// misspelt key.
void CsvEvents::comment(std::string_view line, std::size_t number) {
  const std::size_t colon = line.find(": ");
  const std::size_t begin = line.find_first_not_of(' ');
  if (colon == std::string_view::npos || begin >= colon) return;
  const std::string key(line.substr(begin, colon - begin));
  const std::string_view value = line.substr(colon + 2);
  const auto whole = [&] {
    return static_cast<std::int64_t>(positive(log_.file, number, key, value));
  };
  if (key == "title")
    log_.title = value;
  else if (key == "source")
    log_.source = value;
  else if (key == "reconstructed")
    log_.reconstructed += (log_.reconstructed.empty() ? "" : " ") + std::string(value);
  else if (key == "nodes")
    log_.nodes = whole();
  else if (key == "gpus_per_node")
    log_.gpus_per_node = whole();
  else if (key == "spare_nodes")
    log_.spare_nodes = whole();
  else if (key == "tokens_per_step")
    log_.tokens_per_step = positive(log_.file, number, key, value);
  else if (key != "note" && key.find(' ') == std::string::npos)
    refuse_line(log_.file, number, fmt::format("has the comment \"{}:\"", key),
                "the keys are title, source, reconstructed, nodes, gpus_per_node, spare_nodes, "
                "tokens_per_step and note");
}

double CsvEvents::time(std::size_t row) {
  const std::string& word = table_.text(row, "time");
  const std::optional<Timestamp> time = timestamp(word);
  if (!time)
    table_.refuse(row, fmt::format("has the time \"{}\"", word),
                  "write seconds, or a date such as 2026-03-01T12:00:00Z");
  if (dated_ && *dated_ != time->dated)
    table_.refuse(row,
                  fmt::format("has the time \"{}\", and lines before it have {}", word,
                              *dated_ ? "dates" : "seconds"),
                  "write all times in one way");
  dated_ = time->dated;
  return time->seconds;
}

double CsvEvents::number(std::size_t row, const std::string& column,
                         const std::string& event) const {
  if (text(row, column).empty())
    table_.refuse(row, fmt::format("has no {} for the event {}", column, event), "give it");
  const double value = table_.number(row, column);
  if (value < 0.0)
    table_.refuse(row, fmt::format("has {} {}, which is negative", column, value),
                  "write a number from zero on");
  return value;
}

void CsvEvents::lasting(std::size_t row, const PhaseWord& word, double time_s) {
  PhaseSpan span{.begin_s = time_s,
                 .end_s = time_s + number(row, "duration_s", std::string(word.word)),
                 .phase = word.phase,
                 .name = text(row, "cause")};
  if (span.name.empty()) span.name = word.word;
  // A checkpoint with its step is a count of steps as well: training stops at its begin with so
  // many complete.
  if (word.phase == RunPhase::Checkpoint && !text(row, "step").empty()) {
    span.steps = number(row, "step", "checkpoint");
    log_.marks.push_back({.time_s = time_s, .steps = *span.steps, .place = row});
  }
  log_.spans.push_back(std::move(span));
}

// The time from the failure of a node until the log says that it is back is one sample of the time
// of repairs.
void CsvEvents::repaired(std::size_t row, double time_s) {
  const auto failed = failed_at_.find(text(row, "node"));
  if (failed == failed_at_.end())
    table_.refuse(
        row, fmt::format("repairs the node \"{}\", which did not fail before", text(row, "node")),
        "name a node that a line before it names as failed");
  if (time_s < failed->second)
    table_.refuse(row, fmt::format("repairs the node \"{}\" before it failed", failed->first),
                  "give the time at which the node was back");
  log_.repairs_s.push_back(time_s - failed->second);
  failed_at_.erase(failed);
}

void CsvEvents::row(std::size_t row) {
  const double time_s = time(row);
  const std::string& event = table_.text(row, "event");
  const auto lasts = std::ranges::find(kLasting, event, &PhaseWord::word);
  if (lasts != kLasting.end()) return lasting(row, *lasts, time_s);
  if (event == "step") {
    log_.marks.push_back({.time_s = time_s, .steps = number(row, "step", event), .place = row});
  } else if (event == "failure" || event == "planned") {
    const std::string cause = text(row, "cause");
    const std::string node = text(row, "node");
    log_.interruptions.push_back(
        {.time_s = time_s,
         .kind = event == "failure" ? FailureKind::Fatal : FailureKind::Planned,
         .cause = !cause.empty()       ? cause
                  : event == "failure" ? "not stated"
                                       : "planned",
         .node = node,
         .place = row});
    if (!node.empty()) failed_at_[node] = time_s;
  } else if (event == "repaired") {
    repaired(row, time_s);
  } else if (event == "begin" || event == "end") {
    log_.bounds_s.push_back(time_s);
  } else {
    std::vector<std::string> words{"begin", "end", "step", "failure", "planned", "repaired"};
    for (const PhaseWord& one : kLasting) words.emplace_back(one.word);
    table_.refuse(row, fmt::format("has the event \"{}\"", event), suggestion(event, words));
  }
}

RunLog CsvEvents::result() && {
  log_.dated = dated_.value_or(false);
  return std::move(log_);
}

}  // namespace

RunLog read_csv_log(const std::string& file, std::string_view text) {
  return CsvEvents(file, text).result();
}

}  // namespace trainyard
