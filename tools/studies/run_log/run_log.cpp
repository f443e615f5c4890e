#include "tools/studies/run_log/run_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "tools/studies/run_log/readers.hpp"

namespace trainyard {

namespace {

// The first line that is no comment and not empty.
std::string_view first_line(std::string_view text) {
  for (const std::string_view line : lines_of_log(text))
    if (!line.empty() && !line.starts_with('#')) return line;
  return {};
}

// The launcher's events are searched in the whole text, because other output may come before them.
// The CSV is tried after them, because a first line of such output may hold the words "time" and
// "event" too.
RunLog read_by_content(const std::string& file, std::string_view text) {
  const std::string_view first = first_line(text);
  const auto has = [&](std::string_view word) { return first.find(word) != std::string::npos; };
  if (first.starts_with('{') || first.starts_with('[')) return read_cloud_log(file, text);
  if (has("JobID") && has("|")) return read_slurm_log(file, text);
  if (text.find("Event: failure_detected") != std::string::npos ||
      text.find("Event: rendezvous_started") != std::string::npos)
    return read_nvrx_log(file, text);
  if (has("time") && has("event") && has(",")) return read_csv_log(file, text);
  throw InputError(Problem{
      .file = file,
      .pointer = {},
      .problem = "is no log that is known here",
      .hint = "give a CSV with the columns time and event, the JSON of ml-goodput-measurement's "
              "entries, a log of NVIDIA's resiliency extension, or `sacct --parsable2` with its "
              "header; docs/how_to/fit_my_run_log.md describes them"});
}

// Events of one time keep the order of the lines. Where a failure and the next count of steps have
// the same second, that order says whether the steps were complete before the failure.
template <class Event, class Other = Event>
bool before(const Event& a, const Other& b) {
  return std::tie(a.time_s, a.place) < std::tie(b.time_s, b.place);
}

// A job that goes back to fewer steps was interrupted after the last step before.
void add_implied_interruptions(RunLog& log) {
  std::vector<LoggedInterruption> implied;
  for (std::size_t i = 1; i < log.marks.size(); ++i) {
    const StepMark& last = log.marks[i - 1];
    if (log.marks[i].steps >= last.steps) continue;
    const bool told = std::ranges::any_of(log.interruptions, [&](const auto& one) {
      return !before(one, last) && before(one, log.marks[i]);
    });
    if (!told)
      // The implied interruption takes the place of the mark too. `comes_before` in phases.cpp
      // counts a mark at the very place of an interruption as earlier, so the last step before the
      // fall stays before it.
      implied.push_back({.time_s = last.time_s, .cause = "not stated", .place = last.place});
  }
  if (implied.empty()) return;
  log.notes.push_back(fmt::format(
      "the count of steps falls {} times without an interruption in the log; each counts as a "
      "failure of the cause \"not stated\" after the last step before",
      implied.size()));
  log.interruptions.insert(log.interruptions.end(), implied.begin(), implied.end());
}

// The log covers all of its events. A span may end after the last step, and rows `begin` and `end`
// may lie outside of all steps.
void add_bounds(RunLog& log) {
  bool first = true;
  const auto include = [&](double time_s) {
    log.begin_s = first ? time_s : std::min(log.begin_s, time_s);
    log.end_s = first ? time_s : std::max(log.end_s, time_s);
    first = false;
  };
  for (const double time_s : log.bounds_s) include(time_s);
  for (const StepMark& mark : log.marks) include(mark.time_s);
  for (const LoggedInterruption& one : log.interruptions) include(one.time_s);
  for (const double time_s : log.resumed_s) include(time_s);
  for (const PhaseSpan& span : log.spans) {
    include(span.begin_s);
    include(span.end_s);
  }
  if (log.end_s <= log.begin_s)
    throw InputError(Problem{.file = log.file,
                             .pointer = {},
                             .problem = "holds no two events at different times",
                             .hint = "give the log of a whole run"});
}

}  // namespace

void refuse_line(const std::string& file, std::size_t line, const std::string& problem,
                 const std::string& hint) {
  throw InputError(Problem{.file = file,
                           .pointer = {},
                           .problem = fmt::format("line {} {}", line, problem),
                           .hint = hint});
}

std::vector<std::string_view> lines_of_log(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

RunLog read_run_log(const std::filesystem::path& file) {
  const std::string text = as_utf8(read_file(file));
  RunLog log = read_by_content(file.string(), text);
  log.file = file.string();
  std::ranges::stable_sort(log.marks, before<StepMark, StepMark>);
  add_implied_interruptions(log);
  std::ranges::stable_sort(log.interruptions, before<LoggedInterruption, LoggedInterruption>);
  std::ranges::sort(log.spans, {}, &PhaseSpan::begin_s);
  std::ranges::sort(log.resumed_s);
  add_bounds(log);
  return log;
}

}  // namespace trainyard
