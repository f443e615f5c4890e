#include "sim/render/traces/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/base/check.hpp"
#include "sim/render/output_stream.hpp"
#include "sim/render/traces/class_trace.hpp"
#include "sim/render/traces/counter_groups.hpp"
#include "sim/render/traces/kineto.hpp"
#include "sim/render/traces/link_trace.hpp"

namespace trainyard {
namespace {

// Returns the text quoted and escaped.
std::string json_text(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!std::ranges::all_of(text, plain)) return nlohmann::ordered_json(text).dump();
  std::string quoted;
  quoted.reserve(text.size() + 2);
  quoted += '"';
  quoted += text;
  quoted += '"';
  return quoted;
}

// A time in microseconds with three decimals, split so that it prints exactly.
struct Microseconds {
  std::int64_t whole;
  std::int64_t thousandths;
};
Microseconds microseconds(std::int64_t ns) { return {ns / 1000, ns % 1000}; }

struct TraceFlowEnd {
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
  std::int64_t at_ns = 0;
};

// Writes the events of a trace one after another to a file. Times are printed as microseconds with
// three decimals, so that the end of a span and the start of the next are digit by digit equal:
// viewers drop spans of one thread that overlap by even a rounding error. Names and args arrive as
// JSON text, so that callers format them once and print them often.
class TraceEvents {
 public:
  explicit TraceEvents(OutputStream& out) : out_(out) {}

  void process(std::uint64_t process, const std::string& name, std::uint64_t position);
  void thread(std::uint64_t process, std::uint64_t thread, const std::string& name,
              std::uint64_t position);
  // Draws an arrow. REQUIRES: both ends lie within slices, and the end is not before the start.
  void flow(const TraceFlowEnd& from, const TraceFlowEnd& to);
  // Writes new values of some series of a counter: {"weights":12}.
  void counter(std::uint64_t process, std::string_view name_json, std::int64_t at_ns,
               std::string_view series_json);
  // Adds `times` times the counts of events that the caller wrote directly to the file.
  void add(const TraceCounts& counts, std::uint64_t times);

  [[nodiscard]] const TraceCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] std::string_view separator();

  OutputStream& out_;
  TraceCounts counts_;
};

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

void TraceEvents::flow(const TraceFlowEnd& from, const TraceFlowEnd& to) {
  TY_CHECK(to.at_ns >= from.at_ns, from.at_ns, to.at_ns);
  const Microseconds start = microseconds(from.at_ns);
  const Microseconds end = microseconds(to.at_ns);
  ++counts_.flows;
  out_.print(
      R"({}{{"ph":"s","id":{},"pid":{},"tid":{},"ts":{}.{:03},"cat":"message","name":"message"}},)",
      separator(), counts_.flows, from.process, from.thread, start.whole, start.thousandths);
  out_.print(
      "\n"
      R"({{"ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{}.{:03},"cat":"message",)"
      R"("name":"message"}})",
      counts_.flows, to.process, to.thread, end.whole, end.thousandths);
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

// Text that the ranks of a class share except at a few positions, which each rank fills with its
// own value.
//
//     SharedText text;
//     text.append("\"pid\":");
//     text.append_value(0);
//     text.write(values_of_a_rank, out);      // "pid":3
class SharedText {
 public:
  void append(std::string_view text) { text_ += text; }
  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }
  // Inserts the rank's value of that index here.
  void append_value(std::size_t index) { places_.push_back({text_.size(), index}); }

  [[nodiscard]] std::size_t size() const { return text_.size(); }
  void clear() {
    text_.clear();
    places_.clear();
  }
  void write(std::span<const std::string> values, OutputStream& out) const {
    const std::string_view text = text_;
    std::size_t written = 0;
    for (const Place& place : places_) {
      out.write(text.substr(written, place.offset - written));
      out.write(values[place.value]);
      written = place.offset;
    }
    out.write(text.substr(written));
  }

 private:
  struct Place {
    std::size_t offset;
    std::size_t value;
  };
  std::string text_;
  std::vector<Place> places_;
};

// A send or a receive of a shown rank, identified by its group and its position among the calls of
// the group.
struct MessageEnd {
  GroupId group = 0;
  std::uint32_t call = 0;
  bool receives = false;
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

using What = RankValue::What;

// The text of a class is written in pieces of this size, so that memory stays bounded.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Writes processes, threads, spans and memory counters of the ranks of one class. The text is
// formatted once for all of them, in pieces of about a mebibyte.
class ClassJson {
 public:
  ClassJson(const RunView& view, const ShownClass& shown, TraceEvents& events, OutputStream& out)
      : view_(view), shown_(shown), trace_(view, shown.rank_class), events_(events), out_(out) {
    for (const RankId rank : shown.ranks) values_.push_back(rank_values(view, rank));
    for (const std::string& category : view.workload.categories)
      categories_.push_back(json_text(category));
  }

  void name_processes() {
    for (const RankId rank : shown_.ranks) {
      events_.process(rank, process_name(view_, rank), rank);
      for (const ShownThread& thread : trace_.threads())
        events_.thread(rank, thread.number, thread.name, thread.position);
    }
  }

  void write_slices() {
    trace_.for_each_slice([this](const ShownSlice& slice) {
      write_slice(slice);
      if (slice.message) add_message(slice);
    });
    write_piece();
  }

  void write_memory() {
    trace_.for_each_memory([this](const ShownMemory& point) {
      text_.append(",\n{\"ph\":\"C\",\"pid\":");
      text_.append_value(index_of({.what = What::Rank}));
      const Microseconds at = microseconds(point.at_ns);
      text_.print(R"(,"ts":{}.{:03},"name":"memory bytes","args":{{)", at.whole, at.thousandths);
      for (const std::size_t category : point.changed)
        text_.print("{}:{},", categories_[category], point.bytes[category]);
      text_.print("\"total\":{}}}}}", point.total);
      ++piece_.counters;
      write_full_piece();
    });
    write_piece();
  }

  [[nodiscard]] std::vector<MessageEnd> take_messages() { return std::move(messages_); }

 private:
  void write_slice(const ShownSlice& slice) {
    const std::int64_t duration_ns = slice.end_ns - slice.start_ns;
    TY_CHECK(duration_ns >= 0 && slice.start_ns >= 0, slice.start_ns, slice.end_ns);
    const Microseconds start = microseconds(slice.start_ns);
    const Microseconds duration = microseconds(duration_ns);
    text_.append(",\n{\"ph\":\"X\",\"pid\":");
    text_.append_value(index_of({.what = What::Rank}));
    text_.print(R"(,"tid":{},"ts":{}.{:03},"dur":{}.{:03},"cat":"{}","name":{},"args":{{)",
                slice.thread, start.whole, start.thousandths, duration.whole, duration.thousandths,
                slice.category, json_text(slice.name));
    bool first = true;
    if (slice.correlation != 0) {
      write_argument({"device", RankValue{What::Device}}, first);
      text_.print(R"(,"context":1,"stream":{},"correlation":{})", slice.thread, slice.correlation);
    }
    for (const ShownArgument& argument : slice.arguments) write_argument(argument, first);
    text_.append("}}");
    ++piece_.slices;
    piece_.slice_ns += duration_ns;
    write_full_piece();
  }

  void write_argument(const ShownArgument& argument, bool& first) {
    text_.print("{}\"{}\":", first ? "" : ",", argument.name);
    first = false;
    if (const auto* number = std::get_if<std::int64_t>(&argument.value)) {
      text_.print("{}", *number);
    } else if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
      text_.append(json_text(*text));
    } else {
      write_value(std::get<RankValue>(argument.value));
    }
  }

  void write_value(const RankValue& value) {
    const bool quoted = value.what == What::GroupName || value.what == What::GroupRanks;
    if (quoted) text_.append("\"");
    text_.append_value(index_of(value));
    if (quoted) text_.append("\"");
  }

  void write_full_piece() {
    if (text_.size() >= kPiece) write_piece();
  }

  void write_piece() {
    for (const std::vector<std::string>& values : values_) text_.write(values, out_);
    events_.add(piece_, shown_.ranks.size());
    text_.clear();
    piece_ = {};
  }

  void add_message(const ShownSlice& slice) {
    for (const RankId rank : shown_.ranks) {
      messages_.push_back({.group = view_.workload.ranks[rank].slots.at(slice.message->slot).group,
                           .call = slice.message->call,
                           .receives = slice.message->receives,
                           .process = rank,
                           .thread = slice.thread,
                           .start_ns = slice.start_ns,
                           .end_ns = slice.end_ns});
    }
  }

  const RunView& view_;
  const ShownClass& shown_;
  ClassTrace trace_;
  TraceEvents& events_;
  OutputStream& out_;
  std::vector<std::vector<std::string>> values_;  // by rank
  std::vector<std::string> categories_;           // as JSON text
  std::vector<MessageEnd> messages_;
  SharedText text_;
  TraceCounts piece_;  // counts of the events that `text_` holds
};

// Writes everything of the ranks and returns their messages, from which write_flows draws arrows.
std::vector<MessageEnd> write_class_trace(const RunView& view, const ShownClass& shown,
                                          bool memory_counters, TraceEvents& events,
                                          OutputStream& out) {
  ClassJson json(view, shown, events, out);
  json.name_processes();
  json.write_slices();
  if (memory_counters) json.write_memory();
  return json.take_messages();
}

// Writes the metadata before the events, for readers that stream the file.
void write_head(const RunView& view, const std::set<RankId>& ranks, OutputStream& out) {
  out.print("{{\n\"schemaVersion\": 1,\n\"deviceProperties\": [");
  const ClusterFacts& facts = view.cluster.facts();
  for (std::uint32_t gpu = 0; gpu < facts.gpus_per_node; ++gpu) {
    out.print(R"({}{{"id":{},"name":{},"totalGlobalMem":{:.0f}}})", gpu == 0 ? "\n" : ",\n", gpu,
              json_text(facts.gpu), view.facts.gpu_memory.value());
  }
  std::set<GroupId> groups;
  for (const RankId rank : ranks) {
    for (const SlotBinding& slot : view.workload.ranks[rank].slots) {
      if (slot.group == kNone) continue;
      const bool host = view.workload.groups[slot.group].kind == GroupKind::Host;
      if (!host) groups.insert(slot.group);  // a copy to the CPU is no process group
    }
  }
  out.print(
      "],\n\"distributedInfo\": "
      "{{\"backend\":\"nccl\",\"rank\":{},\"world_size\":{},\"pg_count\":{},",
      *ranks.begin(), view.workload.ranks.size(), groups.size());
  out.write("\"pg_config\":[");
  const char* separator = "\n";
  for (const GroupId id : groups) {
    const Group& group = view.workload.groups.at(id);
    out.print(R"({}{{"pg_name":"{}","pg_desc":"{}","backend_config":"cuda:nccl",)"
              R"("pg_size":{},"ranks":"{}"}})",
              separator, id, to_string(group.kind), group.members.size(),
              process_group_ranks(group.members));
    separator = ",\n";
  }
  out.print("]}},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": 0,\n\"traceEvents\": [");
}

// Draws an arrow from the start of each send to the middle of its receive. At the end of the
// receive the next span of the thread may already have begun, and a viewer would attach the arrow
// to that one. Sorting by group and call puts a send directly before its receive.
void write_flows(std::vector<MessageEnd> ends, TraceEvents& events) {
  const auto key = [](const MessageEnd& end) {
    return std::make_tuple(end.group, end.call, end.receives);
  };
  std::sort(ends.begin(), ends.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    const MessageEnd& from = ends[i];
    const MessageEnd& to = ends[i + 1];
    if (from.group != to.group || from.call != to.call || from.receives || !to.receives) continue;
    const std::int64_t middle_ns = to.start_ns + (to.end_ns - to.start_ns) / 2;
    events.flow(
        {.process = from.process, .thread = from.thread, .at_ns = from.start_ns},
        {.process = to.process, .thread = to.thread, .at_ns = std::max(middle_ns, from.start_ns)});
  }
}

// Writes the counts of all events, which tools/web/check_trace compares.
void write_tail(const std::filesystem::path& file, const TraceCounts& counts, OutputStream& out) {
  out.print("\n],\n\"traceName\": {},\n", json_text(file.filename().string()));
  out.print(
      "\"trainyard\": {{\"processes\":{},\"threads\":{},\"slices\":{},\"slice_ns\":{},\"flows\":{},"
      "\"counters\":{}}}\n}}\n",
      counts.processes, counts.threads, counts.slices, counts.slice_ns, counts.flows,
      counts.counters);
}

void write_links(const RunView& view, TraceEvents& events) {
  if (view.timeline.flows.empty()) return;
  const std::vector<std::string> names = shown_links(view, kTraceLinkClassesMax);
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(json_text(name));
  events.process(kLinksProcess, "links", kLinksProcess);
  for_each_link_point(view, names, [&](const LinkPoint& point) {
    events.counter(kLinksProcess, quoted[point.link_class], point.at_ns,
                   fmt::format(R"({{"GB/s":{:.3f}}})", point.gigabytes_per_s));
  });
}

void write_group(const CounterGroup& group, TraceEvents& events) {
  events.process(group.process, group.name, group.process);
  for (const CounterTrack& track : group.tracks) {
    const std::string name = json_text(track.name);
    for (const CounterPoint& point : track.points)
      events.counter(group.process, name, point.at_ns,
                     fmt::format(R"({{"{}":{}}})", group.unit, point.value));
  }
}

}  // namespace

TraceCounts write_chrome_trace(const RunView& view, const std::filesystem::path& file,
                               const TraceOptions& options) {
  const std::set<RankId> ranks = shown_ranks(view, options);
  const std::vector<ShownClass> classes = by_class(view, ranks);
  OutputStream out(file);
  write_head(view, ranks, out);
  TraceEvents events(out);
  std::vector<MessageEnd> messages;
  for (const ShownClass& shown : classes) {
    const std::vector<MessageEnd> ends =
        write_class_trace(view, shown, options.memory_counters, events, out);
    messages.insert(messages.end(), ends.begin(), ends.end());
  }
  if (options.link_counters) write_links(view, events);
  for (const CounterGroup& group : counter_groups(view)) write_group(group, events);
  write_flows(std::move(messages), events);
  TraceCounts counts = events.counts();
  counts.classes_left_out = view.partition.ranks.size() - classes.size();
  write_tail(file, counts, out);
  out.close();
  return counts;
}

void write_trace_directory(const RunView& view, const std::filesystem::path& directory,
                           const TraceOptions& options) {
  for (const RankId rank : shown_ranks(view, options)) {
    TraceOptions one = options;
    one.ranks = {rank};
    one.all_ranks = false;
    write_chrome_trace(view, directory / fmt::format("rank_{}.json.gz", rank), one);
  }
}

}  // namespace trainyard
