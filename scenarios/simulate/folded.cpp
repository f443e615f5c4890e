#include "scenarios/simulate/folded.hpp"

#include <optional>
#include <utility>

#include "scenarios/simulate/approximations.hpp"
#include "sim/collectives/profile/profiled_model.hpp"
#include "sim/contention/joint_graph.hpp"

namespace trainyard {

// The intermediate results of a large cluster's fold take as much memory as the fold itself, so
// they are not cached.
Folded fold_workload(const Lowered& lowered, const Cluster& cluster, const FoldRequest& question,
                     std::shared_ptr<IsomorphicPlacements> places, Memo& memo) {
  const CollectiveChoice& choice = question.collectives;
  std::optional<CollectiveProfile> profile;
  if (!choice.profile.empty()) profile = read_collective_profile(choice.profile);
  const ChosenModel chosen(cluster, nccl_options(choice), profile ? &*profile : nullptr,
                           choice.profile);
  const CommunicationModel& communication = chosen.get();
  Memo once{0};
  const FoldOptions options{.enabled = question.fold,
                            // A price that drops loads assumes constant links.
                            .drop_uncontended = !has_timed_links(cluster.facts()),
                            .known = {.calls = {lowered.workload, lowered.analysis},
                                      .places = std::move(places),
                                      .memo = is_large(cluster) ? &once : &memo}};
  Folded folded;
  folded.partition = fold(cluster, *lowered.workload, communication, options);
  folded.selected_algorithms =
      selected_algorithms(*lowered.workload, folded.partition, communication);
  folded.approximations = nccl_approximations(*lowered.workload, cluster, chosen.nccl());
  if (question.reasons)
    folded.reasons =
        fold_reasons(cluster, *lowered.workload, communication, options, folded.partition);
  return folded;
}

std::size_t footprint(const Folded& folded) {
  const Partition& partition = folded.partition;
  std::size_t bytes = (partition.class_of_rank.size() + partition.class_of_group.size() +
                       partition.class_of_link.size()) *
                      sizeof(std::uint32_t);
  for (const FlowClass& flow : partition.flows)
    bytes += sizeof(FlowClass) + flow.weights.size() * sizeof(FlowClass::Weight);
  for (const auto& calls : partition.phases)
    for (const auto& phases : calls)
      bytes += sizeof(std::vector<FoldedPhase>) + phases.size() * sizeof(FoldedPhase);
  for (const auto& places : partition.places) bytes += places.size() * sizeof(SlotTarget);
  return bytes;
}

// Workloads with equal calls share a fold, whatever their kernels are.
std::shared_ptr<const Folded> fold_step(const LoweredStep& step, FoldRequest question, Memo& memo) {
  if (step.software) question.collectives = step.software->plan.collectives;
  // Reasons name programs, which workloads with equal calls need not share.
  const auto named = question.reasons ? step.lowered : nullptr;
  return memo.get<Folded>(
      [&] { return fold_workload(*step.lowered, *step.cluster, question, step.places, memo); },
      step.cluster, named, FoldedCalls{step.lowered->workload, step.lowered->analysis}, question);
}

}  // namespace trainyard
