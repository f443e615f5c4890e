#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "tools/studies/run_log/readers.hpp"
#include "tools/studies/run_log/timestamp.hpp"

namespace trainyard {

namespace {

// The events of the launcher's profiler (NVIDIA/nvidia-resiliency-ext,
// shared_utils/profiling.py). Every node writes its own; a cycle begins with a failure.
enum class NvrxEvent : std::uint8_t {
  FailureDetected,
  WorkerTerminated,
  RendezvousStarted,
  RendezvousCompleted,
  WorkerStartStarted,
  WorkerStartCompleted
};
constexpr std::array<std::string_view, 6> kNvrxEvents{
    "failure_detected",     "worker_terminated",    "rendezvous_started",
    "rendezvous_completed", "worker_start_started", "worker_start_completed"};

struct NvrxLine {
  std::int64_t cycle = 0;
  NvrxEvent event = NvrxEvent::FailureDetected;
  std::string node;
  double time_s = 0.0;
};

// The text after a word and before the next of two.
std::optional<std::string_view> between(std::string_view line, std::string_view after,
                                        std::string_view before) {
  const std::size_t begin = line.find(after);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + after.size());
  return line.substr(0, std::min(line.find(before), line.size()));
}

// Nothing for a line without an event.
std::optional<NvrxLine> nvrx_line(const std::string& file, std::size_t number,
                                  std::string_view line) {
  const auto cycle = between(line, "Cycle: ", " ");
  const auto event = between(line, " Event: ", " ");
  if (!cycle || !event) return {};
  const auto refuse = [&](std::string_view what) {
    refuse_line(file, number, fmt::format("has an event without a valid {}", what),
                "give the lines as the launcher wrote them: Cycle, Event, Node, Rank, Time");
  };
  NvrxLine found;
  const auto kind = std::ranges::find(kNvrxEvents, *event);
  if (kind == kNvrxEvents.end()) refuse(fmt::format("name: \"{}\"", *event));
  found.event = static_cast<NvrxEvent>(kind - kNvrxEvents.begin());
  const auto [end, error] =
      std::from_chars(cycle->data(), cycle->data() + cycle->size(), found.cycle);
  if (error != std::errc() || end != cycle->data() + cycle->size()) refuse("cycle");
  const auto node = between(line, " Node: ", " Rank: ");
  const auto word = between(line, " Time: ", " UTC");
  const auto time = word ? timestamp(*word) : std::nullopt;
  if (!time || !time->dated) refuse("time");
  if (!node) refuse("node");
  found.node = *node;
  found.time_s = time->seconds;
  return found;
}

// The first and the last time of each event of one cycle, over all nodes. A phase of the job lasts
// from the first node that begins it to the last one that completes it.
struct Cycle {
  std::array<std::optional<double>, kNvrxEvents.size()> first, last;
  std::string node;  // that detected the failure first

  [[nodiscard]] std::optional<double> at(NvrxEvent event) const {
    return first[static_cast<std::size_t>(event)];
  }
  [[nodiscard]] std::optional<double> done(NvrxEvent event) const {
    return last[static_cast<std::size_t>(event)];
  }
  void add(const NvrxLine& line) {
    const auto event = static_cast<std::size_t>(line.event);
    if (!first[event] || line.time_s < *first[event]) {
      first[event] = line.time_s;
      if (line.event == NvrxEvent::FailureDetected) node = line.node;
    }
    last[event] = std::max(last[event].value_or(line.time_s), line.time_s);
  }
};

void add_span(RunLog& log, RunPhase phase, std::optional<double> begin_s,
              std::optional<double> end_s) {
  if (begin_s && end_s && *end_s > *begin_s)
    log.spans.push_back({.begin_s = *begin_s, .end_s = *end_s, .phase = phase});
}

// The workers are stopped, the nodes meet (which waits for a spare one), and the workers start. A
// cycle without a failure is the first start of the job. The span of an event that the log lacks is
// left out.
void add_cycle(const Cycle& cycle, RunLog& log) {
  const auto failed = cycle.at(NvrxEvent::FailureDetected);
  if (failed)
    log.interruptions.push_back(
        {.time_s = *failed, .cause = "not stated", .node = cycle.node, .place = 0});
  add_span(log, RunPhase::Start, failed, cycle.done(NvrxEvent::WorkerTerminated));
  add_span(log, RunPhase::Replace, cycle.at(NvrxEvent::RendezvousStarted),
           cycle.done(NvrxEvent::RendezvousCompleted));
  const auto up = cycle.done(NvrxEvent::WorkerStartCompleted);
  add_span(log, RunPhase::Start, cycle.at(NvrxEvent::WorkerStartStarted), up);
  if (up) log.resumed_s.push_back(*up);
}

}  // namespace

RunLog read_nvrx_log(const std::string& file, std::string_view text) {
  RunLog log;
  log.format = "log of NVIDIA's resiliency extension";
  log.dated = true;
  std::map<std::int64_t, Cycle> cycles;
  std::set<std::string> nodes;
  std::size_t number = 0;
  for (const std::string_view line : lines_of_log(text)) {
    const auto event = nvrx_line(file, ++number, line);
    if (!event) continue;
    cycles[event->cycle].add(*event);
    nodes.insert(event->node);
  }
  for (const auto& [cycle, events] : cycles) add_cycle(events, log);
  log.nodes = static_cast<std::int64_t>(nodes.size());
  log.notes.emplace_back(
      "the launcher does not log causes, steps or checkpoints: the time between two cycles is not "
      "explained, and the number of nodes is that of the nodes in the log");
  return log;
}

}  // namespace trainyard
