#include "sim/render/traces/trace_events.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

struct Microseconds {
  std::int64_t whole;
  std::int64_t thousandths;
};
Microseconds microseconds(std::int64_t ns) { return {ns / 1000, ns % 1000}; }

}  // namespace

std::int64_t trace_ns(double seconds) { return std::llround(seconds * 1e9); }

std::string json_text(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!std::ranges::all_of(text, plain)) return nlohmann::json(text).dump();
  std::string quoted;
  quoted.reserve(text.size() + 2);
  quoted += '"';
  quoted += text;
  quoted += '"';
  return quoted;
}

std::string_view TraceEvents::separator() {
  const bool first = counts_.processes + counts_.threads + counts_.slices + counts_.counters == 0;
  return first ? "\n" : ",\n";
}

void TraceEvents::process(std::uint64_t process, const std::string& name, std::uint64_t position) {
  out_.print(R"({}{{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}},)",
             separator(), process, json_text(name));
  out_.print(
      "\n"
      R"({{"ph":"M","pid":{},"tid":0,"name":"process_sort_index","args":{{"sort_index":{}}}}})",
      process, position);
  ++counts_.processes;
}

void TraceEvents::thread(std::uint64_t process, std::uint64_t thread, const std::string& name,
                         std::uint64_t position) {
  out_.print(R"({}{{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}},)",
             separator(), process, thread, json_text(name));
  out_.print(
      "\n"
      R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
      process, thread, position);
  ++counts_.threads;
}

void TraceEvents::flow(std::string_view category, std::string_view name_json,
                       const TraceFlowEnd& from, const TraceFlowEnd& to) {
  TY_CHECK(to.at_ns >= from.at_ns, from.at_ns, to.at_ns);
  const Microseconds start = microseconds(from.at_ns);
  const Microseconds end = microseconds(to.at_ns);
  ++counts_.flows;
  out_.print(R"({}{{"ph":"s","id":{},"pid":{},"tid":{},"ts":{}.{:03},"cat":"{}","name":{}}},)",
             separator(), counts_.flows, from.process, from.thread, start.whole, start.thousandths,
             category, name_json);
  out_.print(
      "\n"
      R"({{"ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{}.{:03},"cat":"{}","name":{}}})",
      counts_.flows, to.process, to.thread, end.whole, end.thousandths, category, name_json);
}

void TraceEvents::counter(std::uint64_t process, std::string_view name_json, std::int64_t at_ns,
                          std::string_view series_json) {
  const Microseconds at = microseconds(at_ns);
  out_.print(R"({}{{"ph":"C","pid":{},"ts":{}.{:03},"name":{},"args":{}}})", separator(), process,
             at.whole, at.thousandths, name_json, series_json);
  ++counts_.counters;
}

void TraceEvents::add(const TraceCounts& counts, std::uint64_t times) {
  counts_.slices += times * counts.slices;
  counts_.slice_ns += static_cast<std::int64_t>(times) * counts.slice_ns;
  counts_.counters += times * counts.counters;
}

}  // namespace trainyard
