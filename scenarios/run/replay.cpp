#include "scenarios/run/replay.hpp"

#include <memory>

#include "models/collectives/nccl/transport.hpp"
#include "models/collectives/profile/chosen_transport.hpp"
#include "scenarios/run/approximations.hpp"
#include "scenarios/run/interference.hpp"
#include "sim/base/beside.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {

namespace {

std::optional<CollectiveProfile> profile_of(const CollectiveChoice& choice) {
  if (choice.profile.empty()) return {};
  return read_collective_profile(choice.profile);
}

}  // namespace

nccl::Options options_of(const CollectiveChoice& choice) {
  nccl::Options options = nccl::options_of(choice.nccl);
  options.stands_in = true;
  return options;
}

void replay(Run& run, const CollectiveChoice& choice, const RunOptions& options,
            KeptForReplays& kept) {
  const Cluster& cluster = *run.cluster;
  const std::optional<CollectiveProfile> profile = profile_of(choice);
  const ChosenTransport chosen(cluster, options_of(choice), profile ? &*profile : nullptr,
                               choice.profile);
  const Transport& transport = chosen.get();
  if (!kept.order) kept.order.emplace(run.workload);
  kept.known.orders = &*kept.order;
  const FoldOptions folding{
      .enabled = options.fold, .drop_uncontended = true, .order = &*kept.order};
  const bool interferes = options.interference && options.suppose.interference;
  const bool keeps_sms = interferes && exchanges_rows(run.workload);
  // The first replay reads the GPU's profile, which takes half as long as many a fold.
  beside(
      !kept.used,
      [&] {
        run.kernel_costs = price_kernels(run.workload, kept.gpu_of_kernel, kept.pricings, keeps_sms,
                                         options.suppose);
      },
      [&] {
        FoldOptions first = folding;
        first.ground = kept.ground ? &*kept.ground : nullptr;
        run.partition = fold(cluster, run.workload, transport, first);
        kept.ground.reset();
      });
  if (options.fold_reasons) {
    run.fold_reasons = fold_reasons(cluster, run.workload, transport, folding, run.partition);
  }
  run.carriers = carriers(run.workload, run.partition, transport);
  suppose_communication(options.suppose, run.workload, run.partition);
  std::vector<double> seconds;
  seconds.reserve(run.kernel_costs.size());
  for (const Cost& cost : run.kernel_costs) seconds.push_back(cost.time.value());
  std::vector<std::vector<double>> compute_loss;
  std::vector<double> communication_loss;
  if (interferes) {
    const KernelPricing& pricing = kept.pricings.of(cluster.facts().gpu);
    compute_loss = compute_losses(run, pricing.gpu.sheet, pricing.times.exchange_sms);
    communication_loss = communication_losses(run.partition, pricing.gpu.sheet);
  }
  if (!options.suppose.contention) run.facts.engine = "ideal";
  const std::unique_ptr<Engine> engine = make_engine(run.facts.engine);
  run.timeline = engine->run({.cluster = cluster,
                              .workload = run.workload,
                              .partition = run.partition,
                              .kernel_seconds = seconds,
                              .progress = options.progress,
                              .compute_loss = compute_loss,
                              .communication_loss = communication_loss,
                              .hosts = kept.hosts,
                              .contract = options.contract,
                              .known = &kept.known});
  if (run.facts.engine == "simgrid")
    run.facts.engine_version = "SimGrid " TRAINYARD_SIMGRID_VERSION;
  run.facts.gpu_memory = cluster.facts().gpu_memory;
  add_nccl_approximations(run.workload, cluster, chosen.nccl(), run.facts);
  add_engine_approximations(run.timeline, run.facts);
  if (!kept.used) kept.used = kernels_used(run.workload);
  add_cost_approximations(*kept.used, run.kernel_costs, run.facts);
}

}  // namespace trainyard
