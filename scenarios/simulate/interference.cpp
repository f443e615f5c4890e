#include "scenarios/simulate/interference.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "sim/collectives/algorithms/node_limited.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {

namespace {

bool crosses_nodes(const Cluster& cluster, const Workload& workload, const Group& group) {
  const auto node_of = [&](RankId rank) { return cluster.node_of(workload.ranks[rank].gpu); };
  const std::uint32_t first = node_of(group.members.front());
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](RankId rank) { return node_of(rank) != first; });
}

std::int64_t sms_by_sheet(const CommunicationSms& sheet, CollectiveOp op, bool across) {
  if (!across) return sheet.intra;
  return op == CollectiveOp::SendRecv ? sheet.send_recv : sheet.inter;
}

bool is_dispatch(CollectiveOp op) {
  return op == CollectiveOp::SendRecv || op == CollectiveOp::AllToAll;
}

// The loss by the kernels of DeepEP or HybridEP; 0 for other calls.
double library_loss(const Call& call) {
  const auto* collective = std::get_if<CollectiveCall>(&call);
  if (collective == nullptr || collective->op != CollectiveOp::AllToAll) return 0.0;
  const ExchangeConstants* library = exchange_library_of(collective->algorithm);
  return library == nullptr ? 0.0 : library->compute_loss;
}

}  // namespace

std::vector<std::vector<double>> compute_losses(const Cluster& cluster, const Workload& workload,
                                                const Partition& partition,
                                                const SelectedAlgorithms& selected_algorithms,
                                                const GpuSheet& gpu, std::int64_t dispatch_sms) {
  const std::vector<GroupClass>& classes = partition.groups;
  std::vector<std::vector<double>> losses(classes.size());
  for (std::uint32_t group_class = 0; group_class < classes.size(); ++group_class) {
    const Group& group = workload.groups[classes[group_class].representative];
    const bool across = crosses_nodes(cluster, workload, group);
    const auto& calls = partition.phases[group_class];
    losses[group_class].assign(calls.size(), 0.0);
    for (std::uint32_t call = 0; call < calls.size(); ++call) {
      if (calls[call].empty()) continue;  // the class never makes this call
      const CollectiveOp op = op_of(workload.calls[call]);
      if (op == CollectiveOp::HostCopy) continue;  // copy engines hold no SMs
      if (dispatch_sms > 0 && group.kind == GroupKind::Expert && op == CollectiveOp::AllToAll)
        continue;
      if (const double loss = library_loss(workload.calls[call]); loss > 0.0) {
        losses[group_class][call] = loss;
        continue;
      }
      // A collective of NCCL holds one SM per channel.
      const std::uint32_t channels =
          is_dispatch(op)
              ? 0
              : selected_algorithm_of(selected_algorithms, workload, group_class, call).channels;
      const auto sms = channels > 0
                           ? static_cast<double>(channels)
                           : static_cast<double>(sms_by_sheet(gpu.communication_sms, op, across));
      const double share = sms / static_cast<double>(gpu.sms);
      losses[group_class][call] =
          std::min(share * gpu.communication_sms.compute_loss, kComputeLossMost);
    }
  }
  return losses;
}

bool dispatches_tokens(const Workload& workload) {
  return std::any_of(workload.calls.begin(), workload.calls.end(),
                     [](const Call& call) { return op_of(call) == CollectiveOp::AllToAll; }) &&
         std::any_of(workload.groups.begin(), workload.groups.end(),
                     [](const Group& group) { return group.kind == GroupKind::Expert; });
}

std::vector<double> communication_losses(const Partition& partition, const GpuSheet& gpu) {
  if (!(gpu.communication_sms.slowed > 0.0)) return {};
  return std::vector<double>(partition.groups.size(), gpu.communication_sms.slowed);
}

namespace {

Interference on_one_gpu(const Cluster& cluster, const Lowered& lowered, const Folded& folded,
                        const KernelPricing& pricing) {
  return {.compute = compute_losses(cluster, *lowered.workload, folded.partition,
                                    folded.selected_algorithms, pricing.gpu.sheet,
                                    pricing.times.dispatch_sms),
          .communication = communication_losses(folded.partition, pricing.gpu.sheet)};
}

// Each group loses as much as on the one of its GPUs that loses most.
void add_losses(const Interference& own, std::size_t group_class, Interference& all) {
  std::vector<double>& losses = all.compute[group_class];
  for (std::size_t call = 0; call < losses.size(); ++call)
    losses[call] = std::max(losses[call], own.compute[group_class][call]);
  if (own.communication.empty()) return;
  all.communication.resize(all.compute.size(), 0.0);
  all.communication[group_class] =
      std::max(all.communication[group_class], own.communication[group_class]);
}

}  // namespace

Interference find_interference(const Cluster& cluster, const Lowered& lowered, const Folded& folded,
                               KernelPricings& pricings) {
  if (!cluster.has_mixed_gpus())
    return on_one_gpu(cluster, lowered, folded, pricings.of(cluster.facts().gpu));
  const Workload& workload = *lowered.workload;
  const std::vector<GroupClass>& classes = folded.partition.groups;
  std::map<std::string, std::set<std::size_t>> by_gpu;  // classes of groups with such a GPU
  for (std::size_t group_class = 0; group_class < classes.size(); ++group_class)
    for (const RankId rank : workload.groups[classes[group_class].representative].members)
      by_gpu[cluster.gpu_kind(workload.ranks[rank].gpu).profile].insert(group_class);
  Interference all;
  for (const auto& [gpu, own_classes] : by_gpu) {
    const Interference own = on_one_gpu(cluster, lowered, folded, pricings.of(gpu));
    if (all.compute.empty())
      for (const std::vector<double>& losses : own.compute)
        all.compute.emplace_back(losses.size(), 0.0);
    for (const std::size_t group_class : own_classes) add_losses(own, group_class, all);
  }
  return all;
}

}  // namespace trainyard
