#include "scenarios/run/approximations.hpp"

#include <fmt/format.h>

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
  if (scenario.host_costs.free()) {
    facts.approximations.push_back({.name = "host_not_simulated",
                                    .count = 1,
                                    .sentence = "the scenario's host issues kernels in no time; "
                                                "layers shorter than some 0.2 ms would wait for a "
                                                "real one"});
  }
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

void add_nccl_approximations(const Workload& workload, const Cluster& cluster,
                             const nccl::NcclTransport& transport, RunFacts& facts) {
  const auto calls = static_cast<std::uint64_t>(
      std::count_if(workload.calls.begin(), workload.calls.end(),
                    [](const Call& call) { return call.algorithm == nccl::kNcclName; }));
  if (calls == 0) return;
  if (!transport.host()) {
    facts.approximations.push_back(
        {.name = "nccl_stood_in_for",
         .count = calls,
         .sentence = fmt::format("NCCL's choices on \"{}\" are not known (RCCL and others have "
                                 "their own): calls are carried by the plain ring or tree, "
                                 "whichever is quicker alone",
                                 cluster.facts().gpu)});
  } else if (!transport.host()->cpu_is_known) {
    facts.approximations.push_back(
        {.name = "nccl_host_unknown",
         .count = calls,
         .sentence = fmt::format("NCCL rates paths through the host by its CPU, which is not known "
                                 "of node type \"{}\": it is taken for Intel's",
                                 cluster.facts().node)});
  }
  if (!transport.host() || transport.priced_by() == nccl::PricedBy::ThisGpu) return;
  const bool generation = transport.priced_by() == nccl::PricedBy::ItsGeneration;
  facts.approximations.push_back(
      {.name = "nccl_times_of_another_gpu",
       .count = calls,
       .sentence = fmt::format("no collective was measured on \"{}\": {} tells how long NCCL's "
                               "choices take",
                               cluster.facts().gpu,
                               generation ? "what another GPU of its generation needs, over links "
                                            "as fast as these,"
                                          : "NCCL's own tuning model")});
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
