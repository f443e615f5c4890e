#include "sim/report/placement_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace trainyard {
namespace {

// Switches between GPUs. Those whose NICs hang on the same two switches are as far apart.
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
  // What was lately asked for: groups in a row have their neighbours on the same switches.
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

  // The first switch on a GPU's way out, or its NIC.
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

  // Every path of a message enters as many switches, so the shares of the links into switches add
  // up to that number.
  [[nodiscard]] std::uint32_t on_route(std::uint32_t from, std::uint32_t to) const {
    const Cluster& cluster = view_.cluster;
    double entered = 0.0;
    for (const RouteHop& hop : cluster.router().route(from, to, RouteDetail::Bundles))
      if (is_fabric_switch(cluster.device(cluster.wiring().to(hop.link)).kind))
        entered += hop.fraction * hop.alike;
    return static_cast<std::uint32_t>(std::lround(entered));
  }

  const RunView& view_;
  std::vector<Place> places_;  // by rank
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
  std::vector<Recent> recent_ = std::vector<Recent>(4096);
};

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

  // A group of two has one pair of neighbours, not two.
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
  Rows::iterator last_ = rows_.end();  // most groups are like the one before
  std::vector<std::uint32_t> nodes_;   // of the group at hand
};

}  // namespace

std::vector<GroupSpan> placement_summary(const RunView& view) {
  Spans spans(view);
  for (const Group& group : view.workload.groups) spans.add(group);
  return spans.rows();
}

}  // namespace trainyard
