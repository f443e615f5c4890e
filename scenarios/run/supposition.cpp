#include "scenarios/run/supposition.hpp"

#include <algorithm>

namespace trainyard {

namespace {

double capacity_factor(const Supposition& suppose, LinkKind kind) {
  switch (kind) {
    case LinkKind::NvLink:
    case LinkKind::ChipToChip:
    case LinkKind::Socket:
      return suppose.nvlink;
    case LinkKind::Pcie:
    case LinkKind::NicPort:
    case LinkKind::LeafSpine:
    case LinkKind::SpineCore:
    case LinkKind::Local:
    case LinkKind::Global:
      return suppose.network;
  }
  return 1.0;
}

double time_factor(const Supposition& suppose, const Kernel& kernel) {
  if (std::holds_alternative<Gemm>(kernel) || std::holds_alternative<GroupedGemm>(kernel))
    return suppose.gemm;
  if (std::holds_alternative<Attention>(kernel)) return suppose.attention;
  if (const auto* copy = std::get_if<Copy>(&kernel))
    return copy->kind == CopyKind::DeviceToDevice ? suppose.memory_bound : 1.0;
  if (flops(kernel).value() > 0.0) return suppose.gemm;  // a recorded one that computes
  return suppose.memory_bound;
}

}  // namespace

Cluster supposed_cluster(const Supposition& suppose, const Cluster& cluster) {
  Wiring wiring = cluster.wiring();
  wiring.change_wires([&](Wire& wire) {
    const double factor = capacity_factor(suppose, wire.kind);
    wire.capacity = wire.capacity * factor;
    wire.nominal = wire.nominal * factor;
  });
  return {cluster.facts(), std::move(wiring), cluster.gpus(), cluster.nic_of_gpu()};
}

void suppose_communication(const Supposition& suppose, const Workload& workload,
                           Partition& partition) {
  for (std::size_t group = 0; group < partition.groups.size(); ++group) {
    const GroupKind kind = workload.groups[partition.groups[group].representative].kind;
    const bool free =
        std::find(suppose.free.begin(), suppose.free.end(), kind) != suppose.free.end();
    for (std::vector<FoldedPhase>& phases : partition.phases[group]) {
      for (FoldedPhase& phase : phases) {
        phase.latency_s = free ? 0.0 : phase.latency_s * suppose.latency;
        if (free) phase.flows.clear();
      }
    }
  }
}

Cost supposed_cost(const Supposition& suppose, const Kernel& kernel, Cost cost) {
  cost.time = Seconds{cost.time.value() * time_factor(suppose, kernel)};
  return cost;
}

}  // namespace trainyard
