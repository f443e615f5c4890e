#include "sim/timeline/energy.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "sim/workload/call.hpp"

namespace trainyard {
namespace {

// A time in which one stream of a rank has one state.
struct StreamSpan {
  enum class State : std::uint8_t { Kernel, Waits, Moves };
  State state = State::Kernel;
  double start_s = 0.0;
  double end_s = 0.0;
  double watts = 0.0;  // Kernel: of the GPU; Moves: of the traffic
  bool compute_bound = false;
};

// The states of all streams of a rank class. The operations of a stream are in order and disjoint.
class Streams {
 public:
  Streams(const Workload& workload, const Partition& partition, const Timeline& timeline,
          const PowerRates& rates, std::size_t rank_class)
      : workload_(workload),
        ranks_(partition.ranks.at(rank_class)),
        program_(workload.programs.at(ranks_.program)),
        rank_(workload.ranks.at(ranks_.representative)),
        times_(timeline.classes.at(rank_class)),
        rates_(rates) {
    OpIndex index = 0;
    for (const Operation& op : program_.operations) add(op, index++);
  }

  [[nodiscard]] const std::vector<std::vector<StreamSpan>>& spans() const { return spans_; }

 private:
  void add(const Operation& op, OpIndex index) {
    if (op.kind == OpKind::Delay) return;
    if (op.stream >= spans_.size()) spans_.resize(op.stream + std::size_t{1});
    const double ready_s = times_.ready_s[index];
    const double start_s = times_.start_s[index];
    const double end_s = times_.end_s[index];
    std::vector<StreamSpan>& spans = spans_[op.stream];
    if (op.kind == OpKind::Compute) {
      const std::uint32_t kernel = program_.kernel_of(op);
      push(spans, {.start_s = start_s,
                   .end_s = end_s,
                   .watts = rates_.kernel_w[kernel],
                   .compute_bound = rates_.compute_bound[kernel]});
      return;
    }
    // A call of no bytes counts as nothing (see the header).
    if (bytes_of(workload_.calls[op.payload]) == 0) return;
    push(spans, {.state = StreamSpan::State::Waits, .start_s = ready_s, .end_s = start_s});
    push(spans, {.state = StreamSpan::State::Moves,
                 .start_s = start_s,
                 .end_s = end_s,
                 .watts = end_s > start_s ? traffic_j(op) / (end_s - start_s) : 0.0});
  }

  static void push(std::vector<StreamSpan>& spans, const StreamSpan& span) {
    if (span.end_s > span.start_s) spans.push_back(span);
  }

  // The energy of the bytes that this rank sends: the size of a call, times the factor by which
  // nccl-tests count what a rank's link carries. Receives, and copies to the host, send nothing.
  [[nodiscard]] double traffic_j(const Operation& op) const {
    if (op.kind == OpKind::Recv) return 0.0;
    const Call& call = workload_.calls[op.payload];
    if (op_of(call) == CollectiveOp::HostCopy) return 0.0;
    const std::size_t members = workload_.groups[rank_.slots.at(op.slot).group].members.size();
    return static_cast<double>(bytes_of(call)) * bus_bandwidth_factor(op_of(call), members) *
           rates_.gpus[ranks_.program].traffic_j_per_byte;
  }

  const Workload& workload_;
  const RankClass& ranks_;
  const Program& program_;
  const Rank& rank_;
  const OpTimes& times_;
  const PowerRates& rates_;
  std::vector<std::vector<StreamSpan>> spans_;  // by stream
};

// The work of all streams at one instant.
struct Instant {
  double above_idle_w = 0.0;  // of kernels
  double traffic_w = 0.0;
  bool computes = false, compute_bound = false, waits = false, moves = false;

  void add(const StreamSpan& span, const GpuRates& gpu) {
    switch (span.state) {
      case StreamSpan::State::Kernel:
        above_idle_w += span.watts - gpu.idle_w;
        compute_bound = compute_bound || span.compute_bound;
        computes = true;
        return;
      case StreamSpan::State::Waits:
        waits = true;
        return;
      case StreamSpan::State::Moves:
        moves = true;
        traffic_w += span.watts;
        return;
    }
  }

  [[nodiscard]] double watts(const GpuRates& gpu) const {
    if (computes) return std::min(gpu.limit_w, gpu.idle_w + above_idle_w + traffic_w);
    if (moves || waits) return std::min(gpu.limit_w, gpu.waiting_w + traffic_w);
    return gpu.idle_w;
  }

  [[nodiscard]] PowerKind kind() const {
    if (computes) return compute_bound ? PowerKind::Compute : PowerKind::MemoryBound;
    return moves ? PowerKind::Communication : PowerKind::Idle;
  }
};

// Calls visit(PowerSpan) for the spans of a rank class, in order, merging its streams. Each stream
// has at most one span at a time. A span of the result ends where the first stream changes its
// state.
template <class Visit>
void visit_power(const Workload& workload, const Partition& partition, const Timeline& timeline,
                 const PowerRates& rates, std::size_t rank_class, const Visit& visit) {
  const GpuRates& gpu = rates.gpus.at(partition.ranks.at(rank_class).program);
  const Streams streams(workload, partition, timeline, rates, rank_class);
  std::vector<std::size_t> next(streams.spans().size(), 0);
  double now_s = 0.0;
  while (now_s < timeline.makespan_s) {
    Instant instant;
    double until_s = timeline.makespan_s;
    for (std::size_t stream = 0; stream < next.size(); ++stream) {
      const std::vector<StreamSpan>& spans = streams.spans()[stream];
      while (next[stream] < spans.size() && spans[next[stream]].end_s <= now_s) ++next[stream];
      if (next[stream] == spans.size()) continue;
      const StreamSpan& present = spans[next[stream]];
      if (present.start_s <= now_s) instant.add(present, gpu);
      until_s = std::min(until_s, present.start_s <= now_s ? present.end_s : present.start_s);
    }
    visit(PowerSpan{now_s, until_s, instant.watts(gpu), instant.kind()});
    now_s = until_s;
  }
}

// The constant part of a node's power at the wall: its host and its NICs.
double constant_node_w(const PowerRates& rates) {
  return (rates.host_w + rates.nic_w) * (1.0 + rates.supply_loss);
}

// GPUs of the cluster without a rank.
double idle_gpus(const Cluster& cluster, const Workload& workload) {
  return static_cast<double>(cluster.gpus().size()) - static_cast<double>(workload.ranks.size());
}

// Adds step functions. Each is a list of changes; their sum is computed in order of time.
class SeriesSum {
 public:
  explicit SeriesSum(double end_s) : end_s_(end_s), changes_{{.at_s = 0.0, .watts = 0.0L}} {}

  void add(const PowerSeries& series, long double factor) {
    double before = 0.0;
    for (std::size_t i = 0; i < series.at_s.size(); ++i) {
      changes_.push_back({series.at_s[i], factor * (static_cast<long double>(series.watts[i]) -
                                                    static_cast<long double>(before))});
      before = series.watts[i];
    }
  }

  // Returns (sum + constant) * factor.
  [[nodiscard]] PowerSeries series(double constant, double factor) {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.at_s < b.at_s; });
    PowerSeries sum{.end_s = end_s_};
    long double watts = constant;
    for (std::size_t i = 0; i < changes_.size();) {
      const double at_s = changes_[i].at_s;
      for (; i < changes_.size() && changes_[i].at_s == at_s; ++i) watts += changes_[i].watts;
      sum.at_s.push_back(at_s);
      sum.watts.push_back(static_cast<double>(watts * factor));
    }
    return sum;
  }

 private:
  struct Change {
    double at_s;
    long double watts;
  };
  double end_s_;
  std::vector<Change> changes_;
};

// Neighbouring spans of equal power are one segment: the kinds of spans are not part of a series.
PowerSeries gpu_series(const Workload& workload, const Partition& partition,
                       const Timeline& timeline, const PowerRates& rates, std::size_t rank_class) {
  PowerSeries series{.end_s = timeline.makespan_s};
  visit_power(workload, partition, timeline, rates, rank_class, [&](const PowerSpan& span) {
    if (!series.watts.empty() && series.watts.back() == span.watts) return;
    series.at_s.push_back(span.start_s);
    series.watts.push_back(span.watts);
  });
  return series;
}

// A node or rack by the number of its ranks of each class, sorted by class.
using Members = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// The ranks by class of each block of `nodes` consecutive nodes.
std::vector<Members> members_by_block(const Cluster& cluster, const Workload& workload,
                                      const Partition& partition, std::uint32_t nodes) {
  const std::uint32_t blocks = (cluster.facts().nodes + nodes - 1) / nodes;
  std::vector<std::vector<std::uint32_t>> classes(blocks);
  for (std::size_t rank = 0; rank < workload.ranks.size(); ++rank)
    classes[cluster.node_of(workload.ranks[rank].gpu) / nodes].push_back(
        partition.class_of_rank[rank]);
  std::vector<Members> members(blocks);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    std::sort(classes[block].begin(), classes[block].end());
    for (const std::uint32_t rank_class : classes[block]) {
      if (members[block].empty() || members[block].back().first != rank_class)
        members[block].emplace_back(rank_class, 0);
      ++members[block].back().second;
    }
  }
  return members;
}

}  // namespace

std::string_view to_string(PowerKind kind) {
  switch (kind) {
    case PowerKind::Compute:
      return "compute";
    case PowerKind::MemoryBound:
      return "memory_bound";
    case PowerKind::Communication:
      return "communication";
    case PowerKind::Idle:
      return "idle";
    case PowerKind::Host:
      return "host";
    case PowerKind::Nic:
      return "nic";
    case PowerKind::Switch:
      return "switch";
    case PowerKind::Cooling:
      return "cooling";
  }
  return "";
}

double Energy::total() const { return std::accumulate(joules.begin(), joules.end(), 0.0); }

std::vector<PowerSpan> power_spans(const Workload& workload, const Partition& partition,
                                   const Timeline& timeline, const PowerRates& rates,
                                   std::size_t rank_class) {
  std::vector<PowerSpan> spans;
  visit_power(workload, partition, timeline, rates, rank_class,
              [&](const PowerSpan& span) { spans.push_back(span); });
  return spans;
}

// The sums go from the inside out. Fans take a share of what GPUs draw above idle. The power
// supplies lose a share of everything inside the nodes: GPUs, hosts, fans and NICs. Cooling takes a
// share of all of this and of the switches, since a PUE of 1.2 means that the building draws 1.2
// times what its computers draw.
Energy run_energy(const Cluster& cluster, const Workload& workload, const Partition& partition,
                  const Timeline& timeline, const PowerRates& rates) {
  const double step_s = timeline.makespan_s;
  const double nodes = cluster.facts().nodes;
  Energy energy;
  double fans_j = 0.0;
  for (std::size_t index = 0; index < partition.ranks.size(); ++index) {
    const RankClass& ranks = partition.ranks[index];
    const double idle_w = rates.gpus.at(ranks.program).idle_w;
    std::array<double, kPowerKinds> joules{};
    visit_power(workload, partition, timeline, rates, index, [&](const PowerSpan& span) {
      const double seconds = span.end_s - span.start_s;
      joules[static_cast<std::size_t>(span.kind)] += seconds * span.watts;
      fans_j += ranks.members * seconds * rates.fan_share * (span.watts - idle_w);
    });
    for (std::size_t kind = 0; kind < kPowerKinds; ++kind)
      energy.joules[kind] += ranks.members * joules[kind];
  }
  energy.of(PowerKind::Idle) += idle_gpus(cluster, workload) * rates.idle_gpu_w * step_s;
  const double nics_j = nodes * rates.nic_w * step_s;
  const double inside_j = energy.total() + nodes * rates.host_w * step_s + fans_j + nics_j;
  energy.of(PowerKind::Host) =
      nodes * rates.host_w * step_s + fans_j + rates.supply_loss * inside_j;
  energy.of(PowerKind::Nic) = nics_j;
  energy.of(PowerKind::Switch) = rates.switch_w * step_s;
  energy.of(PowerKind::Cooling) = (rates.pue - 1.0) * energy.total();
  return energy;
}

double PowerSeries::joules() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < at_s.size(); ++i)
    sum += watts[i] * ((i + 1 < at_s.size() ? at_s[i + 1] : end_s) - at_s[i]);
  return sum;
}

double PowerSeries::peak_w() const {
  return watts.empty() ? 0.0 : *std::max_element(watts.begin(), watts.end());
}

// Keeps the candidates for the largest and the least power of the window that ends at segment i. A
// segment is in the window if its end is at most window_s before the start of segment i.
//
// Each list is a monotonic queue: a new segment removes all candidates that it dominates, because
// these leave the window earlier and can never be the extreme again. The front is the extreme of
// the window. Cost: linear in the number of segments.
double PowerSeries::largest_change_w(double window_s) const {
  std::vector<std::size_t> high;
  std::vector<std::size_t> low;
  std::size_t high_first = 0;
  std::size_t low_first = 0;
  double largest = 0.0;
  const auto expired = [&](std::size_t i, std::size_t now) {
    return at_s[now] - at_s[i + 1] > window_s;
  };
  const auto push = [&](std::vector<std::size_t>& queue, std::size_t first, std::size_t i,
                        auto dominates) {
    while (queue.size() > first && dominates(watts[i], watts[queue.back()])) queue.pop_back();
    queue.push_back(i);
  };
  for (std::size_t i = 0; i < at_s.size(); ++i) {
    push(high, high_first, i, [](double a, double b) { return a >= b; });
    push(low, low_first, i, [](double a, double b) { return a <= b; });
    while (high[high_first] < i && expired(high[high_first], i)) ++high_first;
    while (low[low_first] < i && expired(low[low_first], i)) ++low_first;
    largest =
        std::max({largest, watts[high[high_first]] - watts[i], watts[i] - watts[low[low_first]]});
  }
  return largest;
}

PowerSeries PowerSeries::between(double begin_s, double until_s) const {
  PowerSeries part{.end_s = until_s};
  // The first segment is the one that holds begin_s. Its part begins there.
  const auto later = std::upper_bound(at_s.begin(), at_s.end(), begin_s);
  for (auto i = static_cast<std::size_t>(std::max<std::ptrdiff_t>(later - at_s.begin() - 1, 0));
       i < at_s.size() && (part.at_s.empty() || at_s[i] < until_s); ++i) {
    part.at_s.push_back(std::max(at_s[i], begin_s));
    part.watts.push_back(watts[i]);
  }
  return part;
}

namespace {

// The kinds of blocks of nodes, with the power of each at the wall. `wall` is the power at the wall
// of one GPU of each class.
void add_blocks(const Cluster& cluster, const Workload& workload, const Partition& partition,
                const PowerRates& rates, const std::vector<PowerSeries>& wall, std::uint32_t nodes,
                std::vector<PowerSeries>& series, std::vector<PowerGroup>& groups) {
  const std::vector<Members> blocks = members_by_block(cluster, workload, partition, nodes);
  // Blocks of equally many nodes with equal ranks draw equal power: one series serves all of them.
  std::map<std::pair<std::uint32_t, Members>, std::size_t> known;
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    const std::uint32_t size = std::min(nodes, cluster.facts().nodes - block * nodes);
    const auto [found, fresh] = known.try_emplace({size, blocks[block]}, series.size());
    if (!fresh) {
      ++groups[found->second].count;
      continue;
    }
    groups.push_back({.first = block, .count = 1});
    SeriesSum sum(wall.empty() ? 0.0 : wall.front().end_s);
    std::uint32_t ranks = 0;
    for (const auto& [rank_class, count] : blocks[block]) {
      sum.add(wall[rank_class], count);
      ranks += count;
    }
    const double idle = static_cast<double>(size) * cluster.facts().gpus_per_node - ranks;
    series.push_back(sum.series(
        size * constant_node_w(rates) + idle * rates.idle_gpu_w * (1.0 + rates.supply_loss), 1.0));
  }
}

}  // namespace

PowerTraces power_traces(const Cluster& cluster, const Workload& workload,
                         const Partition& partition, const Timeline& timeline,
                         const PowerRates& rates) {
  PowerTraces traces;
  std::vector<PowerSeries> wall;
  SeriesSum sum(timeline.makespan_s);
  for (std::size_t index = 0; index < partition.ranks.size(); ++index) {
    const RankClass& ranks = partition.ranks[index];
    const double idle_w = rates.gpus.at(ranks.program).idle_w;
    traces.gpus.push_back(gpu_series(workload, partition, timeline, rates, index));
    wall.push_back(traces.gpus.back());
    for (double& watts : wall.back().watts) watts = rates.at_wall(watts, idle_w);
    sum.add(wall.back(), ranks.members);
  }
  const double constant =
      cluster.facts().nodes * constant_node_w(rates) + rates.switch_w +
      idle_gpus(cluster, workload) * rates.idle_gpu_w * (1.0 + rates.supply_loss);
  traces.cluster = sum.series(constant, rates.pue);
  add_blocks(cluster, workload, partition, rates, wall, 1, traces.nodes, traces.node_groups);
  add_blocks(cluster, workload, partition, rates, wall, rates.nodes_per_rack, traces.racks,
             traces.rack_groups);
  return traces;
}

PowerTraces between(PowerTraces traces, double begin_s, double until_s) {
  for (auto* all : {&traces.gpus, &traces.nodes, &traces.racks})
    for (PowerSeries& series : *all) series = series.between(begin_s, until_s);
  traces.cluster = traces.cluster.between(begin_s, until_s);
  return traces;
}

}  // namespace trainyard
