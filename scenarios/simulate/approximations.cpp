#include "scenarios/simulate/approximations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "models/layers/layer_block.hpp"
#include "models/rank_groups.hpp"
#include "models/stragglers.hpp"
#include "scenarios/import/hf_config.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

// Counts layers. Balanced loads fill experts of capacity factor 1 exactly and drop nothing.
void add_dropped_rows(const TrainingPlan& plan, Approximations& found) {
  const ExpertSettings& experts = plan.experts;
  const bool even = experts.routing == RoutingKind::Balanced;
  if (!plan.architecture.has_experts() || experts.capacity_factor <= 0.0) return;
  if (even && experts.capacity_factor >= 1.0) return;
  found.push_back(
      {.name = "dropped_rows_counted",
       .count = static_cast<std::uint64_t>(layers_with_experts(plan.architecture)),
       .sentence = "rows beyond an expert's capacity are dropped and take no time, but FLOPs and "
                   "MFU count all experts of every token: compare step times, not MFU"});
}

// Adds what the model of dispatch and combine omits, counted in calls and in chunks.
void add_expert_approximations(const TrainingPlan& plan, Approximations& found) {
  const Parallelism& p = plan.parallelism;
  if (!divides_experts(p, plan.architecture)) return;
  const std::int64_t layers = layers_with_experts(plan.architecture);
  if (sends_tokens_once(plan.experts.dispatcher)) {
    constexpr std::int64_t kDispatches = 4;  // dispatch and combine, forward and backward
    found.push_back(
        {.name = "node_limited_mean_token",
         .count = static_cast<std::uint64_t>(kDispatches * layers * plan.microbatches()),
         .sentence = "every token lies on the mean number of nodes, as if experts of a group were "
                     "alike, and the sum of a token's rows inside a node before they cross back "
                     "takes no time of its own"});
  }
  if (p.schedule.starts_with("dualpipe") || plan.experts.overlap_dispatch) {
    found.push_back(
        {.name = "expert_blocks_unwoven",
         .count = static_cast<std::uint64_t>(p.pipeline * p.interleave),
         .sentence = "the last backward of every chunk, whose gradients are reduced, runs after "
                     "its forward instead of interleaved with it; the other blocks hide an "
                     "exchange under whatever the other side computes next, not by a tuned share "
                     "of SMs"});
  }
}

// States the measured delay of the slowest replica, whether or not the scenario simulates it.
void add_straggler_approximations(const Scenario& scenario, Approximations& found) {
  const double last = last_replica(load_stragglers(), scenario.plan);
  if (last <= 1.0) return;
  const std::string_view sentence =
      scenario.stragglers ? "replicas wait for the last of them, which takes {:.1f} % longer than "
                            "one alone in the mean: all kernels are longer by that"
                          : "replicas keep pace; the last of so many is {:.1f} % later in measured "
                            "runs (--set stragglers=true)";
  found.push_back(
      {.name = scenario.stragglers ? "stragglers_in_the_mean" : "stragglers_not_simulated",
       .count = static_cast<std::uint64_t>(scenario.plan.parallelism.data),
       .sentence = fmt::format(fmt::runtime(sentence), 100.0 * (last - 1.0))});
}

// Reports settings that do not have their intended effect.
void add_settings_without_effect(const TrainingPlan& plan, Approximations& found) {
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  const bool core_alone =
      t.recompute == Recompute::Selective && t.recompute_modules == RecomputeModules{};
  if (core_alone && t.attention != AttentionKind::Unfused)
    found.push_back(
        {.name = "recomputation_without_effect",
         .count = static_cast<std::uint64_t>(plan.architecture.layers),
         .sentence = "selective recomputation of core_attn recomputes the attention core and saves "
                     "almost nothing with flash attention, which keeps no scores (set "
                     "training.recompute to none, or name other recompute_modules)"});
  if (t.recompute != Recompute::Full && (t.recompute_fraction || !t.recompute_layers.empty()))
    found.push_back(
        {.name = "recomputed_layers_without_effect",
         .count = static_cast<std::uint64_t>(plan.architecture.layers),
         .sentence = "recompute_fraction and recompute_layers say which whole layers are computed "
                     "again, and here none are (set training.recompute to full, or leave them "
                     "out)"});
  const bool gathers_keys = p.context > 1 && p.context_exchange == ContextExchange::AllGather;
  if (plan.recipe.attention && gathers_keys)
    found.push_back(
        {.name = "attention_recipe_without_effect",
         .count = static_cast<std::uint64_t>(plan.architecture.layers),
         .sentence = fmt::format("attention to gathered keys and values multiplies in {}, not in "
                                 "the recipe's {} (set parallelism.context_exchange to p2p or a2a)",
                                 to_string(t.precision), to_string(*plan.recipe.attention))});
  const auto neighbours_differ =
      std::ranges::adjacent_find(p.tensor_per_stage, std::not_equal_to<>{});
  if (neighbours_differ != p.tensor_per_stage.end())
    found.push_back({.name = "pieces_in_turn",
                     .count = static_cast<std::uint64_t>(p.pipeline),
                     .sentence =
                         "between stages with unequal numbers of tensor ranks, the pieces of an "
                         "activation that one rank sends or receives follow each other"});
  if (p.schedule.starts_with("zb_") && !p.overlap_p2p && p.pipeline > 1)
    found.push_back(
        {.name = "blocking_sends",
         .count = static_cast<std::uint64_t>(p.pipeline),
         .sentence = fmt::format("overlap_p2p is false: messages hold up their stage, and {} loses "
                                 "more by that than it gains by splitting the backward (set "
                                 "parallelism.overlap_p2p to true)",
                                 p.schedule)});
}

}  // namespace

Approximations plan_approximations(const Scenario& scenario) {
  Approximations found;
  add_settings_without_effect(scenario.plan, found);
  for (const std::string& note : notes_of_source(scenario.plan.architecture.source))
    found.push_back(
        {.name = "model_configuration", .count = 1, .sentence = "of the model, " + note});
  add_expert_approximations(scenario.plan, found);
  add_dropped_rows(scenario.plan, found);
  if (!scenario.interference) {
    found.push_back({.name = "overlap_without_interference",
                     .count = 1,
                     .sentence =
                         "the scenario switches interference off: communication during computation "
                         "does not slow it"});
  }
  add_straggler_approximations(scenario, found);
  if (scenario.plan.recipe.four_bit_gemms) {
    found.push_back({.name = "four_bit_gemms_by_data_sheet",
                     .count = 1,
                     .sentence = "no 4-bit GEMM was measured: they take the time of 8-bit GEMMs by "
                                 "the rates of the GPU's data sheet"});
  }
  if (scenario.host_costs.free()) {
    found.push_back({.name = "host_not_simulated",
                     .count = 1,
                     .sentence = "the scenario's host issues kernels in no time; "
                                 "layers shorter than some 0.2 ms would wait for a "
                                 "real one"});
  }
  return found;
}

// Finds the slowest link on the host side of a route to another node, and reports it if it is
// slower than the NIC.
Approximations cluster_approximations(const Cluster& cluster) {
  Approximations found;
  // Tolerance: a NIC is often some per cent faster than its PCIe slot.
  constexpr double kWorthSaying = 1.05;
  const std::uint32_t per_node = cluster.facts().gpus_per_node;
  if (cluster.gpus().size() <= per_node) return {};
  double nic = 0.0;
  std::optional<Link> slowest;
  // The route from the first GPU to the first one of the second node stands for all.
  for (const RouteHop& hop : cluster.router().route(0, per_node)) {
    const Link link = cluster.link(hop.link);
    if (link.kind == LinkKind::NicPort) nic = std::max(nic, link.capacity.value());
    if (is_host_side(link.kind) && (!slowest || link.capacity < slowest->capacity)) slowest = link;
  }
  if (!slowest || nic <= kWorthSaying * slowest->capacity.value()) return {};
  found.push_back(
      {.name = "nic_behind_slower_link",
       .count = cluster.facts().nodes,
       .sentence = fmt::format("what leaves a node is bound by {}, {} a GPU, and not by its NIC of "
                               "{}: a faster NIC changes nothing",
                               slowest->kind == LinkKind::Socket ? "the host bridge between CPUs"
                               : slowest->kind == LinkKind::Pcie ? "PCIe"
                                                                 : "the link between GPU and CPU",
                               to_text(slowest->capacity), to_text(BytesPerSecond{nic}))});
  return found;
}

namespace {

// Returns the kernels that the program computes, each once. It reads each block once, not each
// instance.
std::vector<std::uint32_t> payloads_computed(const Program& program) {
  std::uint32_t most = 0;
  for (const Operation& op : program.operations.written()) most = std::max(most, op.payload);
  std::vector<std::uint8_t> named(most + std::size_t{1}, 0);
  std::uint8_t* const names = named.data();
  for (const Operation& op : program.operations.written())
    if (op.kind == OpKind::Compute) names[op.payload] = 1;
  std::vector<std::uint32_t> payloads;
  for (std::uint32_t payload = 0; payload < named.size(); ++payload)
    if (named[payload] != 0) payloads.push_back(payload);
  return payloads;
}

}  // namespace

std::vector<bool> kernels_used(const Workload& workload) {
  std::vector<bool> used(workload.kernels.size(), false);
  std::vector<bool> runs(workload.programs.size(), false);
  for (const Rank& rank : workload.ranks) runs[rank.program] = true;
  const std::vector<std::uint32_t> templates = program_templates(workload.programs);
  // By template: programs of one template have equal payloads.
  std::map<std::uint32_t, std::vector<std::uint32_t>> payloads;
  for (std::uint32_t index = 0; index < runs.size(); ++index) {
    if (!runs[index]) continue;
    const Program& program = workload.programs[index];
    const auto [known, fresh] = payloads.try_emplace(templates[index]);
    if (fresh) known->second = payloads_computed(program);
    for (const std::uint32_t payload : known->second) used[program.kernel_of(payload)] = true;
  }
  return used;
}

Approximations cost_approximations(const std::vector<bool>& used, std::span<const Cost> costs) {
  Approximations found;
  const auto note = [&](Provenance provenance, const char* name, const char* sentence) {
    std::uint64_t count = 0;
    for (std::size_t kernel = 0; kernel < costs.size(); ++kernel) {
      if (used[kernel] && costs[kernel].provenance == provenance) ++count;
    }
    if (count > 0) found.push_back({.name = name, .count = count, .sentence = sentence});
  };
  note(Provenance::Extrapolated, "profile_extrapolated",
       "kernel shapes lie outside what was measured on this GPU; their times follow from its data "
       "sheet and the nearest measured efficiency");
  note(Provenance::Roofline, "profile_roofline",
       "kernels take what the GPU's data sheet says they need at least: nothing was measured that "
       "tells more");
  return found;
}

Approximations software_approximations(const Workload& workload) {
  Approximations found;
  found.push_back(
      {.name = "software_unknown",
       .count = workload.programs.size(),
       .sentence =
           "a workload says nothing of framework and host: kernels take their profile's "
           "time, issued in no time (name a scenario together with --workload for its software)"});
  return found;
}

Approximations nccl_approximations(const Workload& workload, const Cluster& cluster,
                                   const nccl::NcclModel& communication) {
  Approximations found;
  const auto calls = static_cast<std::uint64_t>(
      std::count_if(workload.calls.begin(), workload.calls.end(),
                    [](const Call& call) { return algorithm_of(call) == nccl::kNcclName; }));
  if (calls == 0) return {};
  if (!communication.host()) {
    found.push_back(
        {.name = "nccl_stood_in_for",
         .count = calls,
         .sentence = fmt::format("NCCL's choices on \"{}\" are not known (RCCL and others have "
                                 "their own): calls are carried by the plain ring or tree, "
                                 "whichever is quicker alone",
                                 cluster.facts().gpu)});
  } else if (!communication.host()->cpu_is_known) {
    found.push_back(
        {.name = "nccl_host_unknown",
         .count = calls,
         .sentence = fmt::format("NCCL rates paths through the host by its CPU, which is not known "
                                 "of node type \"{}\": it is taken for Intel's",
                                 cluster.facts().node)});
  }
  if (!communication.host() || communication.priced_by() == nccl::PricedBy::ThisGpu) return found;
  const bool generation = communication.priced_by() == nccl::PricedBy::ItsGeneration;
  found.push_back(
      {.name = "nccl_times_of_another_gpu",
       .count = calls,
       .sentence = fmt::format("no collective was measured on \"{}\": {} says how long NCCL's "
                               "choices take",
                               cluster.facts().gpu,
                               generation ? "what another GPU of its generation needs, over links "
                                            "as fast as these,"
                                          : "NCCL's own tuning model")});
  return found;
}

Approximations pace_approximations(const std::vector<std::uint32_t>& steps_of_worker) {
  Approximations found;
  const auto [fewest, most] = std::ranges::minmax_element(steps_of_worker);
  if (*fewest == *most) return {};
  found.push_back(
      {.name = "steps_at_own_pace",
       .count = steps_of_worker.size(),
       .sentence = fmt::format("workers take steps at their own pace, {} to {} each, until all "
                               "together have made as many as the run has; a step is what "
                               "as many steps as there are workers take",
                               *fewest, *most)});
  return found;
}

Approximations engine_approximations(const Timeline& timeline) {
  Approximations found;
  if (timeline.counters.rounded_weights == 0) return {};
  found.push_back({.name = "rounded_link_weights",
                   .count = timeline.counters.rounded_weights,
                   .sentence = "shares of a flow on a link are no ratio of small whole "
                               "numbers and were rounded up to 1/32 of its "
                               "largest load; only flows that contend there notice"});
  return found;
}

}  // namespace trainyard
