#include "scenarios/run/interference.hpp"

#include <algorithm>

namespace trainyard {

namespace {

bool crosses_nodes(const Cluster& cluster, const Workload& workload, const Group& group) {
  const std::uint32_t first = cluster.node_of(workload.ranks[group.members.front()].gpu);
  return std::any_of(group.members.begin(), group.members.end(), [&](RankId rank) {
    return cluster.node_of(workload.ranks[rank].gpu) != first;
  });
}

// Does a group of the class send messages rather than run collectives?
bool sends(const Workload& workload, const std::vector<std::vector<FoldedPhase>>& phases_of_call) {
  for (std::size_t call = 0; call < phases_of_call.size(); ++call) {
    if (!phases_of_call[call].empty() && workload.calls[call].op == CollectiveOp::SendRecv)
      return true;
  }
  return false;
}

}  // namespace

std::vector<double> compute_losses(const Cluster& cluster, const Workload& workload,
                                   const Partition& partition, const GpuSheet& gpu) {
  const CommunicationSms& held = gpu.communication_sms;
  std::vector<double> losses;
  losses.reserve(partition.groups.size());
  for (std::size_t group_class = 0; group_class < partition.groups.size(); ++group_class) {
    const Group& group = workload.groups[partition.groups[group_class].representative];
    std::int64_t sms = held.intra;
    if (crosses_nodes(cluster, workload, group)) {
      sms = sends(workload, partition.phases[group_class]) ? held.send_recv : held.inter;
    }
    losses.push_back(static_cast<double>(sms) / static_cast<double>(gpu.sms));
  }
  return losses;
}

}  // namespace trainyard
