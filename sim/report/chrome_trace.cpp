#include "sim/report/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/report/kineto.hpp"
#include "sim/report/link_trace.hpp"
#include "sim/report/rank_trace.hpp"

namespace trainyard {
namespace {

// One rank of each class; where there are too many, the lowest rank of each program (a pipeline
// stage).
std::set<RankId> default_ranks(const RunView& view) {
  std::set<RankId> ranks;
  std::set<std::uint32_t> programs;
  const bool all = view.partition.ranks.size() <= kTraceClassesMax;
  for (const RankClass& one : view.partition.ranks) {
    const bool first = programs.insert(one.program).second;
    if ((all || first) && ranks.size() < kTraceClassesMax) ranks.insert(one.representative);
  }
  return ranks;
}

std::vector<RankId> shown_ranks(const RunView& view, const TraceOptions& options) {
  std::set<RankId> ranks(options.ranks.begin(), options.ranks.end());
  if (!ranks.empty() && *ranks.rbegin() >= view.workload.ranks.size()) {
    throw InputError(
        Problem{.file = "",
                .pointer = "--trace-ranks",
                .problem = fmt::format("rank {} does not exist", *ranks.rbegin()),
                .hint = fmt::format("the run has ranks 0 to {}", view.workload.ranks.size() - 1)});
  }
  if (ranks.empty()) ranks = default_ranks(view);
  return {ranks.begin(), ranks.end()};
}

// Metadata stands before the events, for readers that stream.
void write_head(const RunView& view, const std::vector<RankId>& ranks, OutputStream& out) {
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
      ranks.front(), view.workload.ranks.size(), groups.size());
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

std::uint64_t classes_without(const RunView& view, const std::vector<RankId>& ranks) {
  std::set<std::uint32_t> shown;
  for (const RankId rank : ranks) shown.insert(view.partition.class_of_rank.at(rank));
  return view.partition.ranks.size() - shown.size();
}

}  // namespace

TraceCounts write_chrome_trace(const RunView& view, const std::filesystem::path& file,
                               const TraceOptions& options) {
  const std::vector<RankId> ranks = shown_ranks(view, options);
  OutputStream out(file);
  write_head(view, ranks, out);
  TraceEvents events(out);
  std::vector<MessageEnd> messages;
  for (const RankId rank : ranks) {
    const std::vector<MessageEnd> ends =
        write_rank_trace(view, rank, options.memory_counters, events);
    messages.insert(messages.end(), ends.begin(), ends.end());
  }
  if (options.link_counters) write_link_counters(view, kTraceLinkClassesMax, events);
  write_flows(std::move(messages), events);
  TraceCounts counts = events.counts();
  counts.classes_left_out = classes_without(view, ranks);
  write_tail(file, counts, out);
  out.close();
  return counts;
}

void write_trace_directory(const RunView& view, const std::filesystem::path& directory,
                           const TraceOptions& options) {
  for (const RankId rank : shown_ranks(view, options)) {
    TraceOptions one = options;
    one.ranks = {rank};
    write_chrome_trace(view, directory / fmt::format("rank_{}.json.gz", rank), one);
  }
}

}  // namespace trainyard
