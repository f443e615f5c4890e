#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/run_log/readers.hpp"

namespace trainyard {

// The library writes one entry for each event of the job: its start, its end, the start of each
// step, and the begin and the end of some phases. Entries tell no failures. A second start of the
// job means that the first attempt stopped, so the interruptions follow from the starts, after all
// entries are read. Keys that are not known here are counted in a note.

namespace {

using Json = nlohmann::ordered_json;

// Pairs of keys that begin and end a phase (AI-Hypercomputer/ml-goodput-measurement,
// scripts/timeline/event_parser.py). Training preparation holds the restore of the checkpoint.
struct CloudPhase {
  const char* begin;
  const char* end;
  std::optional<RunPhase> phase;
  const char* name;
};
constexpr std::array kCloudPhases{
    CloudPhase{"tpu_init_start_time", "tpu_init_end_time", RunPhase::CommunicatorInit, ""},
    CloudPhase{"training_prep_start_time", "training_prep_end_time", RunPhase::Start, ""},
    CloudPhase{"data_loading_start_time", "data_loading_end_time", std::nullopt, "data loading"},
    CloudPhase{"custom_badput_event_start_time", "custom_badput_event_end_time", std::nullopt,
               "custom event"}};

struct CloudEntry {
  const Json* payload = nullptr;
  std::size_t place = 0;  // from 1: the entry, or its line
};

class CloudEvents {
 public:
  CloudEvents(std::string file, std::string place_word)
      : file_(std::move(file)), place_word_(std::move(place_word)) {
    log_.file = file_;
    log_.format = "entries of ml-goodput-measurement in Cloud Logging";
    log_.dated = true;
  }
  void add(const CloudEntry& entry);
  RunLog result() &&;

 private:
  [[nodiscard]] double number(const CloudEntry& entry, const char* key) const;
  [[nodiscard]] bool phase_of(const CloudEntry& entry);
  [[nodiscard]] bool checkpoint_of(const CloudEntry& entry);
  void add_restarts();
  [[noreturn]] void refuse(const CloudEntry& entry, const std::string& problem,
                           const std::string& hint) const {
    throw InputError(Problem{.file = file_,
                             .pointer = {},
                             .problem = fmt::format("{} {} {}", place_word_, entry.place, problem),
                             .hint = hint});
  }

  std::string file_;
  std::string place_word_;  // "line" or "entry"
  RunLog log_;
  std::set<std::string> jobs_;
  // Times of the begin and of the end of the job, one for each attempt.
  std::vector<double> starts_, ends_;
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> pairs_;  // by name
  std::size_t others_ = 0;
};

// Other programs write to the same log, so a word may be a number there, or missing.
std::string word_or(const Json& payload, const char* key, const char* otherwise) {
  const auto value = payload.find(key);
  return value != payload.end() && value->is_string() ? value->get<std::string>() : otherwise;
}

double CloudEvents::number(const CloudEntry& entry, const char* key) const {
  const Json& payload = *entry.payload;
  if (!payload.contains(key)) refuse(entry, fmt::format("has no {}", key), "give the whole entry");
  const Json& value = payload[key];
  if (!value.is_number())
    refuse(entry, fmt::format("has {} {}, which is no number", key, value.dump()),
           "export the entries as JSON, as the library wrote them");
  return value.get<double>();
}

// The begin and the end of a phase are separate entries in any order, so both are collected under
// "key of the begin/name" and paired in `result`. Custom events have a type, by which they are told
// apart.
bool CloudEvents::phase_of(const CloudEntry& entry) {
  for (const CloudPhase& one : kCloudPhases) {
    const std::string name = word_or(*entry.payload, "custom_badput_event_type", one.name);
    if (entry.payload->contains(one.begin)) {
      pairs_[one.begin + ("/" + name)].first.push_back(number(entry, one.begin));
      return true;
    }
    if (entry.payload->contains(one.end)) {
      pairs_[one.begin + ("/" + name)].second.push_back(number(entry, one.end));
      return true;
    }
  }
  return false;
}

// Orbax's entries: the time for which a save blocks the steps, and the time of a restore. All hosts
// write them; spans over each other count once.
bool CloudEvents::checkpoint_of(const CloudEntry& entry) {
  const std::string event = word_or(*entry.payload, "event_type", "");
  const bool save = event == "save";
  if (!save && event != "restore" && event != "emergency_restore") return false;
  const char* const begin =
      save ? "checkpoint_manager_blocking_start_time" : "checkpoint_manager_start_time";
  const char* const lasts =
      save ? "checkpoint_manager_blocking_duration_secs" : "checkpoint_manager_duration_secs";
  const auto known = [&](const char* key) {
    return entry.payload->contains(key) && (*entry.payload)[key].is_number();
  };
  if (!known(begin) || !known(lasts)) return false;
  const double begin_s = number(entry, begin);
  PhaseSpan span{.begin_s = begin_s,
                 .end_s = begin_s + number(entry, lasts),
                 .phase = save ? RunPhase::Checkpoint : RunPhase::Load};
  if (save && known("step")) span.steps = number(entry, "step");
  log_.spans.push_back(span);
  return true;
}

void CloudEvents::add(const CloudEntry& entry) {
  const Json& payload = *entry.payload;
  if (!payload.is_object()) {
    ++others_;
    return;
  }
  const std::string job = word_or(payload, "job_name", "");
  if (!job.empty()) jobs_.insert(job);
  if (payload.contains("job_start_time")) {
    starts_.push_back(number(entry, "job_start_time"));
  } else if (payload.contains("job_end_time")) {
    ends_.push_back(number(entry, "job_end_time"));
  } else if (payload.contains("step_start_time")) {
    // When step k (from 0) starts, k steps are complete.
    log_.marks.push_back({.time_s = number(entry, "step_start_time"),
                          .steps = number(entry, "step_count"),
                          .place = entry.place});
  } else if (!phase_of(entry) && !checkpoint_of(entry)) {
    ++others_;
  }
}

// Each start of the job after the first is a restart: planned where the job had ended, else a
// failure after the last event before it.
void CloudEvents::add_restarts() {
  std::ranges::sort(starts_);
  for (std::size_t i = 1; i < starts_.size(); ++i) {
    double last_s = starts_[i - 1];
    const auto see = [&](double time_s) {
      if (time_s < starts_[i]) last_s = std::max(last_s, time_s);
    };
    for (const StepMark& mark : log_.marks) see(mark.time_s);
    for (const PhaseSpan& span : log_.spans) see(span.end_s);
    // The last step or phase of the attempt, before the entries of the job's end are looked at.
    const double event_s = last_s;
    for (const double end_s : ends_) see(end_s);
    const bool ended = last_s > event_s;
    log_.interruptions.push_back({.time_s = last_s,
                                  .kind = ended ? FailureKind::Planned : FailureKind::Fatal,
                                  .cause = ended ? "job ended" : "not stated",
                                  .place = SIZE_MAX});
  }
}

RunLog CloudEvents::result() && {
  if (jobs_.size() > 1)
    throw InputError(
        Problem{.file = file_,
                .pointer = {},
                .problem = fmt::format("holds entries of {} jobs: {} and {}", jobs_.size(),
                                       *jobs_.begin(), *std::next(jobs_.begin())),
                .hint = "export the entries of one job_name"});
  std::size_t open = 0;
  for (auto& [name, times] : pairs_) {
    auto& [begins, ends] = times;
    std::ranges::sort(begins);
    std::ranges::sort(ends);
    const auto phase = std::ranges::find_if(
        kCloudPhases, [&](const CloudPhase& one) { return name.starts_with(one.begin); });
    // A begin belongs to the first end after it, unless the phase begins again before that end, as
    // after a crash within the phase.
    for (const double begin_s : begins) {
      const auto end = std::ranges::upper_bound(ends, begin_s);
      const auto next = std::ranges::upper_bound(begins, begin_s);
      if (end == ends.end() || (next != begins.end() && *next < *end)) {
        ++open;
        continue;
      }
      log_.spans.push_back({.begin_s = begin_s,
                            .end_s = *end,
                            .phase = phase->phase,
                            .name = name.substr(name.find('/') + 1)});
    }
  }
  if (open > 0)
    log_.notes.push_back(fmt::format("{} phases begin and do not end; they are left out", open));
  if (others_ > 0)
    log_.notes.push_back(fmt::format("{} entries have none of the known keys", others_));
  log_.bounds_s = starts_;
  log_.bounds_s.insert(log_.bounds_s.end(), ends_.begin(), ends_.end());
  // The last step ends with the job.
  if (!ends_.empty() && !log_.marks.empty()) {
    const auto last = std::ranges::max_element(log_.marks, {}, &StepMark::time_s);
    const double end_s = *std::ranges::max_element(ends_);
    if (end_s > last->time_s)
      log_.marks.push_back({.time_s = end_s, .steps = last->steps + 1, .place = SIZE_MAX});
  }
  add_restarts();
  return std::move(log_);
}

// The payload of an entry, or the entry itself where it was exported alone.
const Json& payload_of(const Json& entry) {
  return entry.is_object() && entry.contains("jsonPayload") ? entry["jsonPayload"] : entry;
}

}  // namespace

RunLog read_cloud_log(const std::string& file, std::string_view text) {
  if (text.substr(text.find_first_not_of(" \r\n\t")).starts_with('[')) {
    const Json all = parse_json(file, text);
    CloudEvents events(file, "entry");
    std::size_t place = 0;
    for (const Json& entry : all) events.add({&payload_of(entry), ++place});
    return std::move(events).result();
  }
  CloudEvents events(file, "line");
  std::size_t number = 0;
  for (const std::string_view line : lines_of_log(text)) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::optional<Json> entry = try_parse_json(line);
    if (!entry || !entry->is_object())
      refuse_line(file, number, "is no JSON object",
                  "give one entry a line, or all entries as one array");
    events.add({&payload_of(*entry), number});
  }
  return std::move(events).result();
}

}  // namespace trainyard
