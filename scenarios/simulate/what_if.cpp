#include "scenarios/simulate/what_if.hpp"

#include <algorithm>
#include <utility>

#include "topologies/topology.hpp"

namespace trainyard {

namespace {

double capacity_factor(const WhatIf& what_if, LinkKind kind) {
  switch (kind) {
    case LinkKind::NvLink:
    case LinkKind::ChipToChip:
    case LinkKind::Socket:
      return what_if.nvlink;
    case LinkKind::Pcie:
    case LinkKind::NicPort:
    case LinkKind::LeafSpine:
    case LinkKind::SpineCore:
    case LinkKind::Local:
    case LinkKind::Global:
      return what_if.network;
  }
  return 1.0;
}

double time_factor(const WhatIf& what_if, const Kernel& kernel) {
  if (std::holds_alternative<Gemm>(kernel) || std::holds_alternative<GroupedGemm>(kernel))
    return what_if.gemm;
  if (std::holds_alternative<Attention>(kernel)) return what_if.attention;
  if (const auto* copy = std::get_if<Copy>(&kernel))
    return copy->kind == CopyKind::DeviceToDevice ? what_if.memory_bound : 1.0;
  // A recorded kernel with FLOPs counts as a GEMM.
  if (flops(kernel).value() > 0.0) return what_if.gemm;
  return what_if.memory_bound;
}

Cluster changed_cluster(const WhatIf& what_if, const Cluster& cluster) {
  return cluster.with_rates([&](LinkKind kind) { return capacity_factor(what_if, kind); });
}

}  // namespace

std::shared_ptr<const Cluster> build_cluster(const ClusterSpec& spec, const WhatIf& what_if,
                                             Memo& memo) {
  const std::shared_ptr<const Cluster> cluster = shared_cluster(spec);
  if (!what_if.changes_links()) return cluster;
  return memo.get<Cluster>([&] { return changed_cluster(what_if, *cluster); }, spec, what_if.nvlink,
                           what_if.network);
}

std::shared_ptr<const Partition> changed_partition(const WhatIf& what_if, const Workload& workload,
                                                   std::shared_ptr<const Partition> original) {
  if (!what_if.changes_communication()) return original;
  Partition partition = *original;
  for (std::size_t group = 0; group < partition.groups.size(); ++group) {
    const GroupKind kind = workload.groups[partition.groups[group].representative].kind;
    const bool free =
        std::find(what_if.free.begin(), what_if.free.end(), kind) != what_if.free.end();
    for (std::vector<FoldedPhase>& phases : partition.phases[group]) {
      for (FoldedPhase& phase : phases) {
        phase.latency_s = free ? 0.0 : phase.latency_s * what_if.latency;
        if (free) phase.flows.clear();
      }
    }
  }
  return std::make_shared<const Partition>(std::move(partition));
}

Cost changed_cost(const WhatIf& what_if, const Kernel& kernel, Cost cost) {
  cost.time = Seconds{cost.time.value() * time_factor(what_if, kernel)};
  return cost;
}

}  // namespace trainyard
