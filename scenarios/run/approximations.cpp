#include "scenarios/run/approximations.hpp"

#include <algorithm>

namespace trainyard {

void add_plan_approximations(const Scenario& scenario, RunFacts& facts) {
  if (!scenario.interference) {
    facts.approximations.push_back(
        {.name = "overlap_without_interference",
         .count = 1,
         .sentence = "the scenario switches interference off: communication beside computation "
                     "does not slow it"});
  }
  facts.approximations.push_back({.name = "host_not_simulated",
                                  .count = 1,
                                  .sentence = "kernels are issued in no time; layers shorter than "
                                              "some 0.2 ms would wait for the host"});
}

void add_cost_approximations(const Workload& workload, const Partition& partition,
                             std::span<const Cost> costs, RunFacts& facts) {
  std::vector<bool> used(workload.kernels.size(), false);
  for (const RankClass& entry : partition.ranks) {
    for (const Operation& op : workload.programs[entry.program].operations) {
      if (op.kind == OpKind::Compute) used[op.payload] = true;
    }
  }
  std::uint64_t extrapolated = 0;
  for (std::size_t kernel = 0; kernel < costs.size(); ++kernel) {
    if (used[kernel] && costs[kernel].provenance == Provenance::Extrapolated) ++extrapolated;
  }
  if (extrapolated == 0) return;
  facts.approximations.push_back({.name = "profile_extrapolated",
                                  .count = extrapolated,
                                  .sentence = "kernel shapes lie outside what was measured on this "
                                              "GPU; their times follow from its data sheet "
                                              "and the nearest measured efficiency"});
}

void add_engine_approximations(const Timeline& timeline, RunFacts& facts) {
  if (timeline.counters.rounded_weights == 0) return;
  facts.approximations.push_back({.name = "rounded_link_weights",
                                  .count = timeline.counters.rounded_weights,
                                  .sentence =
                                      "shares of a flow on a link are no ratio of small whole "
                                      "numbers and were rounded up to 1/32 of its "
                                      "largest load; only flows that contend there notice"});
}

}  // namespace trainyard
