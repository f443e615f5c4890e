#include "sim/render/traces/perfetto/perfetto_trace.hpp"

#include <fmt/format.h>

#include <map>

#include "sim/render/output_stream.hpp"
#include "sim/render/traces/counter_groups.hpp"
#include "sim/render/traces/link_trace.hpp"
#include "sim/render/traces/perfetto/packets.hpp"

namespace trainyard {
namespace {

using namespace perfetto;

// A track's uuid combines its process and its number in the process: 0 for the process itself, the
// thread number for a thread, and numbers from kFirstCounter for counters. The process counts from
// 1, because 0 is no uuid.
constexpr unsigned kTrackBits = 20;
constexpr std::uint64_t kFirstCounter = 1 << 16;
std::uint64_t uuid_of(std::uint64_t process, std::uint64_t track) {
  return ((process + 1) << kTrackBits) | track;
}

// The section of a track without its head, which holds the values of a rank.
struct Section {
  std::set<std::size_t> used_values;
  std::string body;
};
Section section_of(TrackBody& body) {
  std::string bytes = body.finish();
  return {.used_values = body.used_values(), .body = std::move(bytes)};
}

// A slice with a copy of its arguments, to be written later.
struct KeptSlice {
  ShownSlice slice;
  std::vector<ShownArgument> arguments;
};

// The encoded packets that all ranks of a class share, by thread and by counter. Threads with
// messages are not encoded here, because the numbers of their arrows differ between ranks; their
// slices are stored instead.
class ClassPackets {
 public:
  ClassPackets(const RunView& view, const ShownClass& shown, bool memory_counters)
      : trace_(view, shown.rank_class),
        values_of_rank_(rank_values(view, shown.ranks.front()).size()) {
    make_threads();
    if (memory_counters) make_counters(view);
  }

  [[nodiscard]] const std::vector<ShownThread>& threads() const { return trace_.threads(); }
  [[nodiscard]] const TraceCounts& counts() const { return counts_; }  // of one rank
  // Returns the section of a thread without messages.
  [[nodiscard]] const Section& section(std::uint64_t thread) const { return sections_.at(thread); }
  // Returns the slices of a thread with messages.
  [[nodiscard]] const std::vector<KeptSlice>& kept(std::uint64_t thread) const {
    return kept_.at(thread);
  }
  // By counter: the categories, then the total.
  [[nodiscard]] const std::vector<Section>& memory() const { return memory_; }
  [[nodiscard]] std::size_t values_of_rank() const { return values_of_rank_; }

 private:
  void make_threads() {
    std::map<std::uint64_t, TrackBody> open;
    for (const ShownThread& thread : threads()) {
      if (thread.messages) kept_[thread.number];
      if (!thread.messages) open.emplace(thread.number, TrackBody(values_of_rank_));
    }
    trace_.for_each_slice([&](const ShownSlice& slice) {
      ++counts_.slices;
      counts_.slice_ns += slice.end_ns - slice.start_ns;
      const auto body = open.find(slice.thread);
      if (body == open.end()) {
        keep(slice);
        return;
      }
      body->second.begin({.at_ns = slice.start_ns,
                          .category = slice.category,
                          .name = slice.name,
                          .arguments = slice.arguments});
      body->second.end(slice.end_ns, 0);
    });
    for (auto& [thread, body] : open) sections_[thread] = section_of(body);
  }

  void keep(const ShownSlice& slice) {
    kept_.at(slice.thread).push_back({slice, {slice.arguments.begin(), slice.arguments.end()}});
  }

  // Counters are written as differences from their last value.
  void make_counters(const RunView& view) {
    const std::size_t categories = view.workload.categories.size();
    std::vector<TrackBody> open(categories + 1, TrackBody(0));
    std::vector<std::int64_t> last(categories + 1, 0);
    const auto set = [&](std::size_t counter, std::int64_t at_ns, std::int64_t value) {
      open[counter].change(at_ns, value - std::exchange(last[counter], value));
      ++counts_.counters;
    };
    trace_.for_each_memory([&](const ShownMemory& point) {
      for (const std::size_t category : point.changed)
        set(category, point.at_ns, point.bytes[category]);
      set(categories, point.at_ns, point.total);
    });
    for (TrackBody& body : open) memory_.push_back(section_of(body));
  }

  ClassTrace trace_;
  std::size_t values_of_rank_;
  std::map<std::uint64_t, Section> sections_;
  std::map<std::uint64_t, std::vector<KeptSlice>> kept_;
  std::vector<Section> memory_;
  TraceCounts counts_;
};

class PerfettoFile {
 public:
  PerfettoFile(const RunView& view, std::set<RankId> ranks, OutputStream& out)
      : view_(view), ranks_(std::move(ranks)), out_(out) {}

  void write_rank(RankId rank, const ClassPackets& packets) {
    const std::vector<std::string> values = rank_values(view_, rank);
    out_.write(process_packet({.uuid = uuid_of(rank, 0),
                               .process = rank,
                               .name = process_name(view_, rank),
                               .position = rank}));
    ++counts_.processes;
    for (const ShownThread& thread : packets.threads()) {
      const std::uint64_t uuid = uuid_of(rank, thread.number);
      out_.write(thread_packet(
          {.uuid = uuid, .process = rank, .name = thread.name, .position = thread.position},
          uuid_of(rank, 0), thread.number));
      if (thread.messages) {
        write_section(uuid, values, messages(rank, thread.number, packets));
      } else {
        write_section(uuid, values, packets.section(thread.number));
      }
      ++counts_.threads;
    }
    write_memory(rank, packets);
    counts_.slices += packets.counts().slices;
    counts_.slice_ns += packets.counts().slice_ns;
    counts_.counters += packets.counts().counters;
  }

  void write_links() {
    if (view_.timeline.flows.empty()) return;
    const std::vector<std::string> names = shown_links(view_, kTraceLinkClassesMax);
    const auto uuid = [](std::size_t link) { return uuid_of(kLinksProcess, kFirstCounter + link); };
    out_.write(process_packet({.uuid = uuid_of(kLinksProcess, 0),
                               .process = kLinksProcess,
                               .name = "links",
                               .position = kLinksProcess}));
    ++counts_.processes;
    for (std::size_t link = 0; link < names.size(); ++link) {
      if (names[link].empty()) continue;
      out_.write(counter_packet(
          {.uuid = uuid(link), .process = kLinksProcess, .name = names[link] + " GB/s"},
          uuid_of(kLinksProcess, 0), CounterUnit::None));
    }
    // All link counters share one section, so that their events stay in order of time. Each event
    // names its own track.
    TrackBody body(0);
    for_each_link_point(view_, names, [&](const LinkPoint& point) {
      body.value(point.at_ns, uuid(point.link_class), point.gigabytes_per_s);
      ++counts_.counters;
    });
    write_section(uuid_of(kLinksProcess, 0), {}, section_of(body));
  }

  void write_group(const CounterGroup& group) {
    const std::uint64_t process = uuid_of(group.process, 0);
    out_.write(process_packet({.uuid = process,
                               .process = group.process,
                               .name = group.name,
                               .position = group.process}));
    ++counts_.processes;
    std::uint64_t uuid = uuid_of(group.process, kFirstCounter);
    for (const CounterTrack& track : group.tracks) {
      out_.write(counter_packet({.uuid = uuid,
                                 .process = group.process,
                                 .name = fmt::format("{} {}", track.name, group.unit)},
                                process, CounterUnit::None));
      TrackBody body(0);
      for (const CounterPoint& point : track.points) body.value(point.at_ns, uuid, point.value);
      write_section(uuid++, {}, section_of(body));
      counts_.counters += track.points.size();
    }
  }

  // Writes the counts of all events, which tools/web/check_trace compares, and returns them.
  TraceCounts finish(std::size_t classes) {
    counts_.classes_left_out = view_.partition.ranks.size() - classes;
    out_.write(remark_packet(fmt::format(
        R"("trainyard": {{"processes":{},"threads":{},"slices":{},"slice_ns":{},"flows":{},)"
        R"("counter_values":{}}})",
        counts_.processes, counts_.threads, counts_.slices, counts_.slice_ns, counts_.flows,
        counts_.counters)));
    return counts_;
  }

 private:
  void write_section(std::uint64_t uuid, std::span<const std::string> values,
                     const Section& section) {
    out_.write(track_head(uuid, values, section.used_values));
    out_.write(section.body);
  }

  void write_memory(RankId rank, const ClassPackets& packets) {
    const std::vector<std::string>& categories = view_.workload.categories;
    for (std::size_t counter = 0; counter < packets.memory().size(); ++counter) {
      const std::uint64_t uuid = uuid_of(rank, kFirstCounter + counter);
      const std::string& what = counter < categories.size() ? categories[counter] : kTotal;
      out_.write(counter_packet({.uuid = uuid, .process = rank, .name = "memory bytes " + what},
                                uuid_of(rank, 0), CounterUnit::Bytes));
      write_section(uuid, {}, packets.memory()[counter]);
    }
  }

  // Encodes a thread with messages for one rank, with the rank's arrow numbers.
  Section messages(RankId rank, std::uint64_t thread, const ClassPackets& packets) {
    TrackBody body(packets.values_of_rank());
    for (const KeptSlice& kept : packets.kept(thread)) {
      const std::uint64_t flow = flow_of(rank, kept.slice);
      const bool receives = flow != 0 && kept.slice.message->receives;
      body.begin({.at_ns = kept.slice.start_ns,
                  .category = kept.slice.category,
                  .name = kept.slice.name,
                  .arguments = kept.arguments,
                  .flow = receives ? 0 : flow});
      body.end(kept.slice.end_ns, receives ? flow : 0);
      if (receives) ++counts_.flows;
    }
    return section_of(body);
  }

  // Returns the number of a message, which is equal on both sides; 0 where no arrow is drawn.
  // Viewers distinguish the start of an arrow from its end by time, so a message of no duration
  // gets none: its arrow could point backwards.
  [[nodiscard]] std::uint64_t flow_of(RankId rank, const ShownSlice& slice) const {
    if (!slice.message || slice.end_ns == slice.start_ns) return 0;
    const GroupId id = view_.workload.ranks[rank].slots.at(slice.message->slot).group;
    const std::vector<RankId>& members = view_.workload.groups.at(id).members;
    if (!ranks_.contains(members.front()) || !ranks_.contains(members.back())) return 0;
    constexpr unsigned kCallBits = 32;
    // The group counts from 1, because 0 means no arrow.
    return ((std::uint64_t{id} + 1) << kCallBits) | slice.message->call;
  }

  static inline const std::string kTotal = "total";

  const RunView& view_;
  std::set<RankId> ranks_;
  OutputStream& out_;
  TraceCounts counts_;
};

}  // namespace

bool is_perfetto_trace(const std::filesystem::path& file) {
  const std::filesystem::path plain = file.extension() == ".gz" ? file.stem() : file;
  return plain.extension() == ".pftrace" || plain.extension() == ".perfetto-trace";
}

TraceCounts write_perfetto_trace(const RunView& view, const std::filesystem::path& file,
                                 const TraceOptions& options) {
  const std::set<RankId> ranks = shown_ranks(view, options);
  const std::vector<ShownClass> classes = by_class(view, ranks);
  OutputStream out(file);
  PerfettoFile trace(view, ranks, out);
  // The packets of one class are in memory at a time.
  for (const ShownClass& shown : classes) {
    const ClassPackets packets(view, shown, options.memory_counters);
    for (const RankId rank : shown.ranks) trace.write_rank(rank, packets);
  }
  if (options.link_counters) trace.write_links();
  for (const CounterGroup& group : counter_groups(view)) trace.write_group(group);
  const TraceCounts counts = trace.finish(classes.size());
  out.close();
  return counts;
}

}  // namespace trainyard
