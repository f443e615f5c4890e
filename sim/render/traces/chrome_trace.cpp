#include "sim/render/traces/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/render/traces/kineto.hpp"
#include "sim/render/traces/link_trace.hpp"
#include "sim/render/traces/rank_trace.hpp"

namespace trainyard {
namespace {

// Metadata stands before the events, for readers that stream.
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
      if (!host) groups.insert(slot.group);  // a copy to the CPU joins no processes
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

// An arrow starts with the message and ends in the middle of its receipt: at the very end, the next
// span of the thread may have begun and would take it.
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
        "message", "\"message\"",
        {.process = from.process, .thread = from.thread, .at_ns = from.start_ns},
        {.process = to.process, .thread = to.thread, .at_ns = std::max(middle_ns, from.start_ns)});
  }
}

// What was written, for tools/web/check_trace.
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
