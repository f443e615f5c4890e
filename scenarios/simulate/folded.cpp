#include "scenarios/simulate/folded.hpp"

#include <optional>

#include "scenarios/simulate/approximations.hpp"
#include "sim/collectives/profile/profiled_transport.hpp"

namespace trainyard {

nccl::Options nccl_options(const CollectiveChoice& choice) {
  nccl::Options options = nccl::options_of(choice.nccl);
  options.stands_in = true;
  return options;
}

Folded fold_workload(const Lowered& lowered, const Cluster& cluster, const FoldQuestion& question,
                     AlikePlaces* places) {
  const CollectiveChoice& choice = question.collectives;
  std::optional<CollectiveProfile> profile;
  if (!choice.profile.empty()) profile = read_collective_profile(choice.profile);
  const ChosenTransport chosen(cluster, nccl_options(choice), profile ? &*profile : nullptr,
                               choice.profile);
  const Transport& transport = chosen.get();
  const FoldOptions options{.enabled = question.fold,
                            .drop_uncontended = true,
                            .order = lowered.order.get(),
                            .places = places};
  Folded folded;
  folded.partition = fold(cluster, *lowered.workload, transport, options);
  folded.carriers = carriers(*lowered.workload, folded.partition, transport);
  folded.approximations = nccl_approximations(*lowered.workload, cluster, chosen.nccl());
  if (question.reasons)
    folded.reasons = fold_reasons(cluster, *lowered.workload, transport, options, folded.partition);
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
    for (const auto& phases : calls) bytes += sizeof(phases) + phases.size() * sizeof(FoldedPhase);
  for (const auto& places : partition.places) bytes += places.size() * sizeof(SlotPlace);
  return bytes;
}

}  // namespace trainyard
