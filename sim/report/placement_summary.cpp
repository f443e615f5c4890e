#include "sim/report/placement_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace trainyard {
namespace {

// Every path of a message enters as many switches, so the shares of the links into switches add up
// to that number. GPUs whose NICs hang on the same two switches are as far apart.
class Distances {
 public:
  explicit Distances(const Cluster& cluster) : cluster_(cluster) {
    for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu) {
      attached_.push_back(attachment(gpu));
    }
  }

  std::uint32_t switches(std::uint32_t from, std::uint32_t to) {
    const auto key = std::pair{attached_[from], attached_[to]};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    double entered = 0.0;
    for (const RouteHop& hop : cluster_.route(from, to, RouteDetail::Bundles)) {
      const DeviceId device = cluster_.link(hop.link).to;
      if (is_fabric_switch(cluster_.device(device).kind)) entered += hop.fraction * hop.alike;
    }
    const auto count = static_cast<std::uint32_t>(std::lround(entered));
    known_.emplace(key, count);
    return count;
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
  std::vector<DeviceId> attached_;
  std::map<std::pair<DeviceId, DeviceId>, std::uint32_t> known_;
};

void add(const RunView& view, const Group& group, Distances& distances, GroupSpan& row) {
  const Cluster& cluster = view.cluster;
  const auto gpu_of = [&](std::size_t member) {
    return view.workload.ranks[group.members[member]].gpu;
  };
  std::map<std::uint32_t, std::uint32_t> on_node;
  for (std::size_t i = 0; i < group.members.size(); ++i) ++on_node[cluster.node_of(gpu_of(i))];
  const auto nodes = static_cast<std::uint32_t>(on_node.size());
  row.nodes_least = row.groups == 0 ? nodes : std::min(row.nodes_least, nodes);
  row.nodes_most = std::max(row.nodes_most, nodes);
  for (const auto& [node, members] : on_node) {
    row.per_node_most = std::max(row.per_node_most, members);
  }
  // A group of two has one pair of neighbours, not two.
  const std::size_t pairs = group.members.size() == 2 ? 1 : group.members.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint32_t from = gpu_of(i);
    const std::uint32_t to = gpu_of((i + 1) % group.members.size());
    ++row.neighbours;
    if (cluster.node_of(from) == cluster.node_of(to)) continue;
    ++row.crossings;
    row.switches_most = std::max(row.switches_most, distances.switches(from, to));
  }
  ++row.groups;
}

}  // namespace

std::vector<GroupSpan> placement_summary(const RunView& view) {
  std::map<std::pair<GroupKind, std::uint32_t>, GroupSpan> rows;
  Distances distances(view.cluster);
  for (const Group& group : view.workload.groups) {
    const auto ranks = static_cast<std::uint32_t>(group.members.size());
    GroupSpan& row = rows[{group.kind, ranks}];
    row.kind = group.kind;
    row.ranks = ranks;
    add(view, group, distances, row);
  }
  std::vector<GroupSpan> result;
  for (const auto& [key, row] : rows) result.push_back(row);
  return result;
}

}  // namespace trainyard
