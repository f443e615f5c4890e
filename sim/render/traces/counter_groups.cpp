#include "sim/render/traces/counter_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/render/traces/trace_options.hpp"

namespace trainyard {

namespace {

constexpr double kNanosecond = 1e-9;

// Times shorter than a nanosecond join the point after them.
std::vector<CounterPoint> points_of(const PowerSeries& series) {
  std::vector<CounterPoint> points;
  std::int64_t from_ns = 0;
  double joules = 0.0;
  for (std::size_t i = 0; i < series.at_s.size(); ++i) {
    const double end_s = i + 1 < series.at_s.size() ? series.at_s[i + 1] : series.end_s;
    joules += series.watts[i] * (end_s - series.at_s[i]);
    const std::int64_t end_ns = trace_ns(end_s);
    if (end_ns == from_ns) continue;
    points.push_back({from_ns, joules / (static_cast<double>(end_ns - from_ns) * kNanosecond)});
    from_ns = end_ns;
    joules = 0.0;
  }
  // Ends the last interval: without it a viewer shows its watts for ever.
  points.push_back({from_ns, 0.0});
  return points;
}

void add_groups(const char* what, const std::vector<PowerSeries>& series,
                const std::vector<PowerGroup>& groups, std::vector<CounterTrack>& tracks) {
  for (std::size_t i = 0; i < std::min(series.size(), kTracePowerTracksMax); ++i)
    tracks.push_back({fmt::format("{} {} ({} equal)", what, groups[i].first, groups[i].count),
                      points_of(series[i])});
}

// Returns no tracks where the run has no power.
std::vector<CounterTrack> power_tracks(const RunView& view) {
  if (view.power == nullptr || view.timeline.makespan_s <= 0.0) return {};
  const PowerTraces traces =
      power_traces(view.cluster, view.workload, view.partition, view.timeline, *view.power);
  std::vector<CounterTrack> tracks{{"cluster", points_of(traces.cluster)}};
  add_groups("rack", traces.racks, traces.rack_groups, tracks);
  add_groups("node", traces.nodes, traces.node_groups, tracks);
  for (std::size_t i = 0; i < std::min(traces.gpus.size(), kTracePowerTracksMax); ++i) {
    const RankClass& ranks = view.partition.ranks[i];
    tracks.push_back({fmt::format("GPU of rank {} ({} equal)", ranks.representative, ranks.members),
                      points_of(traces.gpus[i])});
  }
  return tracks;
}

std::vector<CounterTrack> fault_tracks(const RunView& view) {
  std::vector<CounterTrack> tracks;
  const std::int64_t end_ns = trace_ns(view.timeline.makespan_s);
  for (const TimedFault& fault : view.cluster.facts().timed_faults) {
    const double slowed = 100.0 * fault.rate_left;
    CounterTrack track{.name = fault.part, .points = {{0, fault.from_s <= 0.0 ? slowed : 100.0}}};
    const auto add = [&](double at_s, double percent) {
      if (at_s < view.timeline.makespan_s) track.points.push_back({trace_ns(at_s), percent});
    };
    if (fault.from_s > 0.0) add(fault.from_s, slowed);
    add(fault.until_s, 100.0);
    track.points.push_back({end_ns, track.points.back().value});
    tracks.push_back(std::move(track));
  }
  return tracks;
}

// The process numbers of the counters.
constexpr std::uint64_t kPowerProcess = 1'000'001;
constexpr std::uint64_t kFaultProcess = 1'000'002;

}  // namespace

std::vector<CounterGroup> counter_groups(const RunView& view) {
  std::vector<CounterGroup> groups{{kPowerProcess, "power", "W", power_tracks(view)},
                                   {kFaultProcess, "timed faults", "%", fault_tracks(view)}};
  std::erase_if(groups, [](const CounterGroup& group) { return group.tracks.empty(); });
  return groups;
}

}  // namespace trainyard
