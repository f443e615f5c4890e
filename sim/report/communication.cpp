#include "sim/report/communication.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/workload/call.hpp"

namespace trainyard {
namespace {

using Key = std::tuple<GroupKind, CollectiveOp, std::string, std::uint64_t>;
// The sums over all calls of one table entry. They are doubles because a rank class adds fractions
// of calls.
struct Sums {
  std::string requested = {};
  SelectedAlgorithm selected_algorithm = {};
  double count = 0.0;
  double bytes = 0.0;
  double time_s = 0.0;
};

// Returns the number of calls that one member of a rank class contributes. A collective appears in
// the program of each of its n members, so each member contributes 1/n. A message is counted at its
// sender only. The sum over the members of all classes is then the number of calls.
double calls_per_rank(const Operation& op, std::uint64_t ranks) {
  if (op.kind == OpKind::Send) return 1.0;
  return op.kind == OpKind::Collective ? 1.0 / static_cast<double>(ranks) : 0.0;
}

// Returns the table entry of a call in a group.
Sums& row_of(const RunView& view, GroupId id, std::uint32_t index, std::map<Key, Sums>& rows) {
  const Group& group = view.workload.groups.at(id);
  const Call& call = view.workload.calls.at(index);
  SelectedAlgorithm selected_algorithm = view.selected_algorithm(id, index);
  Sums& sums = rows[{group.kind, op_of(call), selected_algorithm.label, group.members.size()}];
  sums.requested = algorithm_of(call);
  sums.selected_algorithm = std::move(selected_algorithm);
  return sums;
}

// Adds the calls of one rank class. The representative's operations represent those of all
// members.
void add_class(const RunView& view, std::size_t index, std::map<Key, Sums>& rows) {
  const RankClass& ranks = view.partition.ranks[index];
  const Program& program = view.workload.programs.at(ranks.program);
  const Rank& rank = view.workload.ranks.at(ranks.representative);
  const OpTimes& times = view.timeline.classes.at(index);
  std::map<std::pair<GroupId, std::uint32_t>, Sums*> known;
  // The last call looked up at a hash position, with the table entry that it adds to.
  struct Met {
    OpKind kind = OpKind::Collective;
    std::uint16_t slot = 0;
    std::uint32_t call = 0;
    Sums* sums = nullptr;
    double calls = 0.0;  // calls that one operation of the class counts for
    double bytes = 0.0;  // of these calls together
  };
  // A program repeats few distinct calls, so a small direct-mapped cache saves most lookups in
  // `known`.
  std::array<Met, 16> recent{};
  OpIndex next = 0;
  for (const Operation& op : program.operations) {
    const OpIndex i = next++;
    if (op.kind != OpKind::Collective && op.kind != OpKind::Send) continue;
    Met& met = recent[(op.payload * 3 + op.slot) % recent.size()];
    if (met.sums == nullptr || met.kind != op.kind || met.slot != op.slot ||
        met.call != op.payload) {
      const GroupId group = rank.slots.at(op.slot).group;
      const double calls =
          ranks.members * calls_per_rank(op, view.workload.groups[group].members.size());
      Sums*& sums = known[{group, op.payload}];
      if (sums == nullptr) sums = &row_of(view, group, op.payload, rows);
      met = {.kind = op.kind,
             .slot = op.slot,
             .call = op.payload,
             .sums = sums,
             .calls = calls,
             .bytes = calls * static_cast<double>(bytes_of(view.workload.calls[op.payload]))};
    }
    met.sums->count += met.calls;
    met.sums->bytes += met.bytes;
    met.sums->time_s += met.calls * (times.end_s[i] - times.start_s[i]);
  }
}

// Counts the fabric switches between GPUs. The count depends only on the devices to which the two
// NICs attach, so it is computed once per pair of them.
class SwitchCounts {
 public:
  explicit SwitchCounts(const RunView& view) : view_(view) {
    places_.reserve(view.workload.ranks.size());
    for (const Rank& rank : view.workload.ranks)
      places_.push_back({view.cluster.node_of(rank.gpu), attachment(rank.gpu)});
  }

  [[nodiscard]] std::uint32_t node_of(RankId rank) const { return places_[rank].node; }

  std::uint32_t between(RankId from, RankId to) {
    const DeviceId here = places_[from].attached;
    const DeviceId there = places_[to].attached;
    Recent& recent = recent_[(here * 31U + there) % recent_.size()];
    if (recent.from != here || recent.to != there) recent = {here, there, found(from, to)};
    return recent.count;
  }

 private:
  struct Place {
    std::uint32_t node = 0;
    DeviceId attached = 0;
  };
  // A count that was looked up recently. Consecutive groups have neighbours on the same switches,
  // so this cache avoids most lookups in the hash map.
  struct Recent {
    DeviceId from = kNone;
    DeviceId to = kNone;
    std::uint32_t count = 0;
  };

  std::uint32_t found(RankId from, RankId to) {
    const std::uint64_t key = std::uint64_t{places_[from].attached} << 32U | places_[to].attached;
    const auto [known, fresh] = known_.try_emplace(key, 0);
    if (fresh) {
      const std::uint32_t gpu = view_.workload.ranks[from].gpu;
      const std::uint32_t other = view_.workload.ranks[to].gpu;
      const auto count = view_.cluster.router().switches_between(gpu, other);
      known->second = count ? *count : on_route(gpu, other);
    }
    return known->second;
  }

  // Returns the first fabric switch behind the GPU's NIC; the NIC where there is none; the GPU
  // where the cluster has no NICs.
  [[nodiscard]] DeviceId attachment(std::uint32_t gpu) const {
    const Cluster& cluster = view_.cluster;
    if (cluster.nic_of_gpu().empty()) return cluster.gpus()[gpu];
    const DeviceId nic = cluster.nic_of_gpu()[gpu];
    const LinkId end = cluster.wiring().first_link_from(nic + 1);
    for (LinkId link = cluster.wiring().first_link_from(nic); link < end; ++link) {
      const DeviceId to = cluster.wiring().to(link);
      if (is_fabric_switch(cluster.device(to).kind)) return to;
    }
    return nic;
  }

  // Counts the switches on the route itself, where the router has no count. All paths of a message
  // enter the same number of switches, so the traffic shares of the links that lead into a switch
  // add up to that number.
  [[nodiscard]] std::uint32_t on_route(std::uint32_t from, std::uint32_t to) const {
    const Cluster& cluster = view_.cluster;
    double entered = 0.0;
    for (const RouteHop& hop : cluster.router().route(from, to, RouteDetail::ParallelLinks))
      if (is_fabric_switch(cluster.device(cluster.wiring().to(hop.link)).kind))
        entered += hop.fraction * hop.parallel_count;
    return static_cast<std::uint32_t>(std::lround(entered));
  }

  const RunView& view_;
  std::vector<Place> places_;                               // by rank
  std::unordered_map<std::uint64_t, std::uint32_t> known_;  // by the two devices of attachment
  std::vector<Recent> recent_ = std::vector<Recent>(4096);
};

// Collects the placement of groups, one table entry per kind and size of group.
class Spans {
 public:
  explicit Spans(const RunView& view) : switches_(view) {}

  void add(const Group& group) {
    const std::pair kind{group.kind, static_cast<std::uint32_t>(group.members.size())};
    if (last_ == rows_.end() || last_->first != kind) last_ = rows_.try_emplace(kind).first;
    GroupSpan& row = last_->second;
    std::tie(row.kind, row.ranks) = kind;
    count_nodes(group, row);
    count_neighbours(group, row);
    ++row.groups;
  }

  [[nodiscard]] std::vector<GroupSpan> rows() const {
    std::vector<GroupSpan> result;
    for (const auto& [kind, row] : rows_) result.push_back(row);
    return result;
  }

 private:
  // Sorts the nodes of the members, so that members on one node are adjacent and each run is one
  // node.
  void count_nodes(const Group& group, GroupSpan& row) {
    nodes_.clear();
    for (const RankId rank : group.members) nodes_.push_back(switches_.node_of(rank));
    if (!std::ranges::is_sorted(nodes_)) std::ranges::sort(nodes_);
    std::uint32_t nodes = 0;
    for (std::size_t begin = 0, end = 0; begin < nodes_.size(); begin = end) {
      while (end < nodes_.size() && nodes_[end] == nodes_[begin]) ++end;
      row.per_node_most = std::max(row.per_node_most, static_cast<std::uint32_t>(end - begin));
      ++nodes;
    }
    row.nodes_least = row.groups == 0 ? nodes : std::min(row.nodes_least, nodes);
    row.nodes_most = std::max(row.nodes_most, nodes);
  }

  // Counts pairs of neighbours in the ring of the members. A group of two has one pair, not two.
  void count_neighbours(const Group& group, GroupSpan& row) {
    const std::size_t size = group.members.size();
    const std::size_t pairs = size == 2 ? 1 : size;
    row.neighbours += pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
      const RankId from = group.members[i];
      const RankId to = group.members[i + 1 < size ? i + 1 : 0];
      if (switches_.node_of(from) == switches_.node_of(to)) continue;
      ++row.crossings;
      row.switches_most = std::max(row.switches_most, switches_.between(from, to));
    }
  }

  SwitchCounts switches_;
  using Rows = std::map<std::pair<GroupKind, std::uint32_t>, GroupSpan>;
  Rows rows_;
  // The entry of the last group. Consecutive groups mostly share it.
  Rows::iterator last_ = rows_.end();
  std::vector<std::uint32_t> nodes_;  // node of each member of the current group
};

}  // namespace

std::vector<CollectiveSummary> collective_summary(const RunView& view) {
  std::map<Key, Sums> rows;
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index)
    add_class(view, index, rows);
  std::vector<CollectiveSummary> result;
  for (const auto& [key, sums] : rows) {
    const auto& [group, op, label, ranks] = key;
    const double busbw =
        sums.time_s > 0.0 ? bus_bandwidth_factor(op, ranks) * sums.bytes / sums.time_s : 0.0;
    result.push_back({.group = group,
                      .op = op,
                      .requested = sums.requested,
                      .selected_algorithm = sums.selected_algorithm,
                      .ranks = ranks,
                      .count = static_cast<std::uint64_t>(std::llround(sums.count)),
                      .bytes = sums.bytes,
                      .time_s = sums.time_s,
                      .busbw_bytes_per_s = busbw});
  }
  return result;
}

std::vector<LinkSummary> link_summary(const RunView& view) {
  TY_CHECK(view.timeline.links.size() == view.partition.links.size(), view.timeline.links.size(),
           view.partition.links.size());
  const double step_s = view.timeline.makespan_s;
  std::map<std::pair<LinkKind, double>, LinkSummary> rows;
  for (std::size_t index = 0; index < view.partition.links.size(); ++index) {
    const LinkClass& links = view.partition.links[index];
    const LinkUse& use = view.timeline.links[index];
    const Link& link = view.cluster.link(links.representative);
    const auto members = static_cast<double>(links.members);
    const double busy = step_s > 0.0 ? use.busy_s / step_s : 0.0;
    LinkSummary& row = rows[{link.kind, link.capacity.value()}];
    row.kind = link.kind;
    row.capacity_bytes_per_s = link.capacity.value();
    row.links += links.members;
    row.bytes += members * use.bytes;
    row.busy_fraction += members * busy;  // a sum first; divided by the links below
    row.busiest_bytes = std::max(row.busiest_bytes, use.bytes);
    row.busiest_fraction = std::max(row.busiest_fraction, busy);
    row.peak_utilisation = std::max(row.peak_utilisation, use.peak_utilisation);
  }
  std::vector<LinkSummary> result;
  for (auto& [key, row] : rows) {
    const auto links = static_cast<double>(row.links);
    row.busy_fraction /= links;
    const double room = row.capacity_bytes_per_s * step_s * links;
    row.mean_utilisation = room > 0.0 ? row.bytes / room : 0.0;
    result.push_back(row);
  }
  return result;
}

bool crosses_nodes(const RunView& view, GroupKind kind) {
  const auto node_of = [&](RankId rank) {
    return view.cluster.node_of(view.workload.ranks[rank].gpu);
  };
  return std::ranges::any_of(view.workload.groups, [&](const Group& group) {
    if (group.kind != kind) return false;
    const std::uint32_t first = node_of(group.members.front());
    return std::ranges::any_of(group.members, [&](RankId rank) { return node_of(rank) != first; });
  });
}

std::vector<GroupSpan> placement_summary(const RunView& view) {
  Spans spans(view);
  for (const Group& group : view.workload.groups) spans.add(group);
  return spans.rows();
}

}  // namespace trainyard
