// Reads measured steps: a trace of PyTorch's profiler, or a list of times.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/median.hpp"
#include "sim/base/utf8.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/step_profile.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kMicrosecond = 1e-6;
constexpr std::string_view kStep = "ProfilerStep#";

[[noreturn]] void refuse(const std::string& file, const std::string& pointer,
                         const std::string& problem) {
  throw InputError(Problem{file, pointer, problem,
                           "give a trace that torch.profiler exported (export_chrome_trace), or "
                           "step times in seconds, one a line"});
}

StepProfile of_times(const std::string& file, const std::vector<double>& times) {
  for (const double time : times) {
    if (!(time > 0.0) || !std::isfinite(time))
      refuse(file, "", fmt::format("has a step of {} s", time));
  }
  if (times.empty()) refuse(file, "", "holds no step");
  return {.step_s = median(times), .steps = times.size()};
}

StepProfile of_lines(const std::string& file, const std::string& text) {
  std::istringstream lines(text);
  std::vector<double> times;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') continue;
    char* end = nullptr;
    times.push_back(std::strtod(line.c_str(), &end));
    const bool whole = end != line.c_str() &&
                       std::string_view(end).find_first_not_of(" \t\r") == std::string::npos;
    if (!whole) refuse(fmt::format("{}:{}", file, number), "", "is no step time in seconds");
  }
  return of_times(file, times);
}

// Throws InputError if the event has no time, or a negative duration.
TimeSpan span_of(const std::string& file, std::size_t index, const Json& event) {
  const auto number = [&](const char* key) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number() || !std::isfinite(found->get<double>())) {
      refuse(file, fmt::format("/traceEvents/{}/{}", index, key), "is no number of microseconds");
    }
    return found->get<double>();
  };
  const double start = number("ts");
  const double duration = number("dur");
  if (duration < 0.0) {
    refuse(file, fmt::format("/traceEvents/{}/dur", index),
           fmt::format("is {} us, below 0", duration));
  }
  return {start * kMicrosecond, (start + duration) * kMicrosecond};
}

struct Events {
  std::vector<ClassSpan> kernels;
  std::set<double> ranks;       // processes of a trace that Trainyard wrote
  std::vector<TimeSpan> steps;  // as seen by the CPU
};

// A stream of a process.
using Lane = std::pair<double, double>;
Lane lane_of(const Json& event) {
  return {number_at(event, "/pid", 0.0), number_at(event, "/tid", 0.0)};
}

// The span of a kernel. It begins where the slice of its waiting begins, which precedes it in its
// lane. `simulated` is the kernel's text in a trace that Trainyard wrote; it is empty for other
// traces.
ClassSpan kernel_of(const Json& event, TimeSpan time, const std::string& simulated,
                    std::map<Lane, double>& waits) {
  ClassSpan kernel{
      simulated.empty() ? kernel_class(text_at(event, "/name")) : simulated_kernel_class(simulated),
      time};
  if (const auto wait = waits.find(lane_of(event)); wait != waits.end()) {
    kernel.time.start_s = wait->second;
    waits.erase(wait);
  }
  return kernel;
}

Events events_of(const std::string& file, const Json& all) {
  Events events;
  std::map<Lane, double> waits;  // start of the waiting slice of each lane
  for (std::size_t index = 0; index < all.size(); ++index) {
    const Json& event = all[index];
    // Only complete events have a duration.
    if (text_at(event, "/ph") != "X") continue;
    const auto time = [&] { return span_of(file, index, event); };
    const std::string category = text_at(event, "/cat");
    const std::string name = text_at(event, "/name");
    if (category == "kernel") {
      const std::string simulated = text_at(event, "/args/kernel");
      events.kernels.push_back(kernel_of(event, time(), simulated, waits));
      if (!simulated.empty()) events.ranks.insert(lane_of(event).first);
    } else if (category == "wait") {
      waits[lane_of(event)] = time().start_s;
    } else if (category == "gpu_memcpy" || category == "gpu_memset") {
      events.kernels.push_back({"copy", time()});
    } else if (category == "user_annotation" && name.starts_with(kStep)) {
      events.steps.push_back(time());
    }
  }
  return events;
}

// The time from the start of the first kernel to the end of the last one.
TimeSpan span_of(const std::vector<ClassSpan>& kernels) {
  TimeSpan window = kernels.front().time;
  for (const ClassSpan& kernel : kernels) {
    window.start_s = std::min(window.start_s, kernel.time.start_s);
    window.end_s = std::max(window.end_s, kernel.time.end_s);
  }
  return window;
}

// The profile of a trace. Marked steps are those of the CPU, which the GPU follows: the kernels
// that start within them are counted, and the median of their lengths is the step time.
StepProfile of_trace(const std::string& file, const Json& all) {
  const Events events = events_of(file, all);
  if (events.kernels.empty()) refuse(file, "/traceEvents", "holds no event of category \"kernel\"");
  if (events.ranks.size() > 1) {
    throw InputError(Problem{file, "/traceEvents",
                             fmt::format("shows {} ranks", events.ranks.size()),
                             "write one: trainyard run SCENARIO --trace FILE --trace-ranks RANK"});
  }
  if (events.steps.empty()) {
    const TimeSpan window = span_of(events.kernels);
    return profile_of(events.kernels, window.end_s - window.start_s, 1);
  }
  TimeSpan window = events.steps.front();
  std::vector<double> times;
  for (const TimeSpan& step : events.steps) {
    window.start_s = std::min(window.start_s, step.start_s);
    window.end_s = std::max(window.end_s, step.end_s);
    times.push_back(step.end_s - step.start_s);
  }
  std::vector<ClassSpan> inside;
  for (const ClassSpan& kernel : events.kernels) {
    const double start = kernel.time.start_s;
    if (start >= window.start_s && start < window.end_s) inside.push_back(kernel);
  }
  if (inside.empty()) refuse(file, "/traceEvents", "has no kernel within its ProfilerStep ranges");
  StepProfile profile = profile_of(inside, window.end_s - window.start_s, times.size());
  profile.step_s = median(times);
  return profile;
}

StepProfile of_array(const std::string& file, const Json& all) {
  const bool numbers =
      std::all_of(all.begin(), all.end(), [](const Json& entry) { return entry.is_number(); });
  if (!numbers) return of_trace(file, all);
  return of_times(file, all.get<std::vector<double>>());
}

}  // namespace

// The first character decides: JSON begins with "{" or "[", everything else is lines of step times.
StepProfile read_step_profile(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string text = as_utf8(read_file(file));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) refuse(name, "", "is empty");
  if (text[first] != '{' && text[first] != '[') return of_lines(name, text);
  const Json document = parse_json(name, text);
  if (document.is_array()) return of_array(name, document);
  const Json* events = value_at(document, "/traceEvents");
  if (events == nullptr || !events->is_array())
    refuse(name, "/traceEvents", "is no list of events");
  return of_trace(name, *events);
}

}  // namespace trainyard
