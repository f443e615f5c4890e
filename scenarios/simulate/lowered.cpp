#include "scenarios/simulate/lowered.hpp"

#include <utility>

#include "models/host.hpp"
#include "models/lower/lower.hpp"
#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/device_kinds.hpp"
#include "scenarios/simulate/folded.hpp"
#include "scenarios/simulate/interference.hpp"
#include "sim/nccl/transport.hpp"

namespace trainyard {

Lowered::Lowered(Workload given, const Cluster& cluster) {
  Specialised special = specialise(std::move(given), cluster);
  workload = std::make_shared<const Workload>(std::move(special.workload));
  gpu_of_kernel = std::move(special.gpu_of_kernel);
  used = kernels_used(*workload);
  exchanges_rows = trainyard::exchanges_rows(*workload);
  order = std::make_unique<CallOrder>(*workload);
  known = std::make_unique<KnownPrograms>(*workload, order.get());
}

Lowered lowered_for(const Scenario& scenario, Workload workload, const Cluster& cluster) {
  Lowered lowered(std::move(workload), cluster);
  lowered.hosts =
      host_lanes(*lowered.workload, scenario.host_costs, host_habits(scenario.plan.parallelism));
  return lowered;
}

Lowered lower_scenario(const Scenario& scenario, const Cluster& cluster) {
  return lowered_for(scenario, scenario_workload(scenario, cluster), cluster);
}

std::size_t footprint(const Lowered& lowered) {
  const Workload& workload = *lowered.workload;
  std::size_t bytes = workload.kernels.size() * sizeof(Kernel);
  for (const Call& call : workload.calls) {
    bytes += sizeof(Call) + matrix_of(call).size() * sizeof(std::int64_t);
    if (const auto* relay = std::get_if<RelayCall>(&call))
      bytes += relay->hops.size() * sizeof(RelayHop);
  }
  for (const Group& group : workload.groups)
    bytes += sizeof(Group) + group.members.size() * sizeof(RankId);
  for (const Rank& rank : workload.ranks)
    bytes += sizeof(Rank) + rank.label.size() + rank.slots.size() * sizeof(SlotBinding);
  for (const Program& program : workload.programs) {
    // Order, regions and successors take about as much as the operations themselves.
    constexpr std::size_t kWithWhatFollows = 3;
    bytes += kWithWhatFollows * program.operations.written().size() * sizeof(Operation) +
             program.operations.size() * sizeof(std::uint64_t) +
             program.operations.content().dependencies.size() * sizeof(OpIndex) +
             program.effects.size() * sizeof(MemoryEffect);
  }
  return bytes;
}

Workload scenario_workload(const Scenario& scenario, const Cluster& cluster) {
  Workload workload = lower(scenario.plan);
  if (scenario.collective_model != CollectiveModel::Stepwise) return workload;
  const nccl::NcclTransport transport(cluster, nccl_options(scenario.plan.collectives));
  return expand_collectives(workload, cluster, [&](const Call& call, auto gpus) {
    return transport.stepwise_name(call, gpus);
  });
}

}  // namespace trainyard
