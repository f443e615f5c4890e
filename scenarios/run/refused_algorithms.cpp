#include "scenarios/run/refused_algorithms.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "models/collectives/collective.hpp"
#include "models/collectives/nccl/transport.hpp"
#include "models/collectives/selection.hpp"
#include "models/lower/lower.hpp"
#include "scenarios/run/replay.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

bool is_chosen(const CollectiveChoice& choice, GroupKind kind, const Call& call) {
  const auto group = choice.algorithm.find(kind);
  return group != choice.algorithm.end() && group->second.contains(call.op) &&
         find_algorithm(call.op, call.algorithm) != nullptr;
}

void check_call(const Scenario& scenario, const Call& call, GroupKind kind,
                const GroupPlace& place) {
  try {
    (void)select_algorithm(call, place);
  } catch (const RunError& refusal) {
    throw InputError(
        {.file = scenario.file,
         .pointer = fmt::format("/collectives/{}/{}", to_string(kind), to_string(call.op)),
         .problem = refusal.what(),
         .hint = {}});
  }
}

// What bounds NCCL's choice holds for every group, so it may leave one nothing to choose.
void check_nccl(const Scenario& scenario, const nccl::NcclTransport& transport, const Call& call,
                std::span<const std::uint32_t> gpus) {
  try {
    (void)transport.stepwise_name(call, gpus);
  } catch (const RunError& refusal) {
    throw InputError({.file = scenario.file,
                      .pointer = "/collectives/nccl",
                      .problem = refusal.what(),
                      .hint = "an algorithm of one operation alone stands in its group: "
                              "{\"data\": {\"all_reduce\": \"tree\"}}"});
  }
}

}  // namespace

void check_chosen_algorithms(const Scenario& scenario, const Cluster& cluster) {
  const Workload workload = lower(scenario.plan);
  const nccl::NcclTransport transport(cluster, options_of(scenario.plan.collectives));
  std::set<std::pair<GroupId, std::uint32_t>> checked;
  for (const Rank& rank : workload.ranks) {
    for (const Operation& op : workload.programs[rank.program].operations.written()) {
      if (op.kind != OpKind::Collective) continue;
      const GroupId id = rank.slots[op.slot].group;
      const Call& call = workload.calls[op.payload];
      const Group& group = workload.groups[id];
      const bool by_nccl = call.algorithm == nccl::kNcclName;
      if (!by_nccl && !is_chosen(scenario.plan.collectives, group.kind, call)) continue;
      if (!checked.emplace(id, op.payload).second) continue;
      std::vector<std::uint32_t> gpus;
      for (const RankId member : group.members) gpus.push_back(workload.ranks[member].gpu);
      if (by_nccl) {
        check_nccl(scenario, transport, call, gpus);
        continue;
      }
      check_call(scenario, call, group.kind,
                 {.cluster = cluster, .gpus = gpus, .matrix = call.matrix});
    }
  }
}

}  // namespace trainyard
