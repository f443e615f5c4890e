#include "sim/report/placement_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace trainyard {
namespace {

// Every path of a message enters as many switches, so the shares of the links into switches add up
// to that number. GPUs whose NICs hang on the same two switches are as far apart.
class Distances {
 public:
  explicit Distances(const Cluster& cluster) : cluster_(cluster) {
    node_.reserve(cluster.gpus().size());
    attached_.reserve(cluster.gpus().size());
    for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu) {
      node_.push_back(cluster.node_of(gpu));
      attached_.push_back(attachment(gpu));
    }
  }

  [[nodiscard]] std::uint32_t node_of(std::uint32_t gpu) const { return node_[gpu]; }

  std::uint32_t switches(std::uint32_t from, std::uint32_t to) {
    const std::uint64_t key = std::uint64_t{attached_[from]} << 32U | attached_[to];
    const auto [known, fresh] = known_.try_emplace(key, 0);
    if (!fresh) return known->second;
    double entered = 0.0;
    for (const RouteHop& hop : cluster_.route(from, to, RouteDetail::Bundles)) {
      const DeviceId device = cluster_.wiring().to(hop.link);
      if (is_fabric_switch(cluster_.device(device).kind)) entered += hop.fraction * hop.alike;
    }
    return known->second = static_cast<std::uint32_t>(std::lround(entered));
  }

 private:
  // The first switch on a GPU's way out, or its NIC.
  [[nodiscard]] DeviceId attachment(std::uint32_t gpu) const {
    if (cluster_.nic_of_gpu().empty()) return cluster_.gpus()[gpu];
    const DeviceId nic = cluster_.nic_of_gpu()[gpu];
    for (const Link link : cluster_.links_from(nic))
      if (is_fabric_switch(cluster_.device(link.to).kind)) return link.to;
    return nic;
  }

  const Cluster& cluster_;
  std::vector<std::uint32_t> node_;  // by GPU
  std::vector<DeviceId> attached_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

class Spans {
 public:
  explicit Spans(const RunView& view) : view_(view), distances_(view.cluster) {}

  void add(const Group& group) {
    const std::pair kind{group.kind, static_cast<std::uint32_t>(group.members.size())};
    if (last_ == rows_.end() || last_->first != kind) last_ = rows_.try_emplace(kind).first;
    GroupSpan& row = last_->second;
    std::tie(row.kind, row.ranks) = kind;
    gpus_.clear();
    for (const RankId rank : group.members) gpus_.push_back(view_.workload.ranks[rank].gpu);
    count_nodes(row);
    count_neighbours(row);
    ++row.groups;
  }

  [[nodiscard]] std::vector<GroupSpan> rows() const {
    std::vector<GroupSpan> result;
    for (const auto& [kind, row] : rows_) result.push_back(row);
    return result;
  }

 private:
  void count_nodes(GroupSpan& row) {
    nodes_.clear();
    for (const std::uint32_t gpu : gpus_) nodes_.push_back(distances_.node_of(gpu));
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
  void count_neighbours(GroupSpan& row) {
    const std::size_t pairs = gpus_.size() == 2 ? 1 : gpus_.size();
    row.neighbours += pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::uint32_t from = gpus_[i];
      const std::uint32_t to = gpus_[i + 1 < gpus_.size() ? i + 1 : 0];
      if (distances_.node_of(from) == distances_.node_of(to)) continue;
      ++row.crossings;
      row.switches_most = std::max(row.switches_most, distances_.switches(from, to));
    }
  }

  const RunView& view_;
  Distances distances_;
  using Rows = std::map<std::pair<GroupKind, std::uint32_t>, GroupSpan>;
  Rows rows_;
  Rows::iterator last_ = rows_.end();  // most groups are like the one before
  std::vector<std::uint32_t> gpus_;    // of the group at hand
  std::vector<std::uint32_t> nodes_;
};

}  // namespace

std::vector<GroupSpan> placement_summary(const RunView& view) {
  Spans spans(view);
  for (const Group& group : view.workload.groups) spans.add(group);
  return spans.rows();
}

}  // namespace trainyard
