#include "scenarios/run/run.hpp"

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <map>

#include "kernels/gpu.hpp"
#include "models/collectives/nccl/transport.hpp"
#include "models/collectives/profile/chosen_transport.hpp"
#include "models/framework_times.hpp"
#include "models/host/host_lanes.hpp"
#include "models/lower/lower.hpp"
#include "scenarios/run/approximations.hpp"
#include "scenarios/run/device_kinds.hpp"
#include "scenarios/run/facts.hpp"
#include "scenarios/run/interference.hpp"
#include "scenarios/run/memory_overheads.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {

namespace {

// Wall time and peak memory of the process so far, into the facts.
class Stopwatch {
 public:
  void record(RunFacts& facts) const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    facts.wall_s = elapsed.count();
    facts.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Kernels of a kind of GPU as a framework's software runs them; without a name as in its profile.
struct KernelPricing {
  explicit KernelPricing(const std::string& name, const std::string& framework)
      : gpu(load_gpu(name)) {
    if (!framework.empty()) times = load_framework_times(framework, gpu.sheet.generation);
  }
  PricedGpu gpu;
  FrameworkTimes times = {};
};

// Of each kind of GPU once, when it is first asked for.
class KernelPricings {
 public:
  explicit KernelPricings(std::string framework) : framework_(std::move(framework)) {}

  [[nodiscard]] const KernelPricing& of(const std::string& gpu) {
    return pricings_.try_emplace(gpu, gpu, framework_).first->second;
  }

 private:
  std::string framework_;
  std::map<std::string, KernelPricing> pricings_;
};

// `gpu_of_kernel`: on which GPU each of them runs, there on the slowest rank. `keeps_sms`: whether
// exchanges of experts keep the SMs that the framework gives them.
std::vector<Cost> price_kernels(const Workload& workload,
                                const std::vector<std::string>& gpu_of_kernel,
                                KernelPricings& pricings, bool keeps_sms,
                                const Supposition& suppose) {
  const auto ranks = static_cast<std::int64_t>(workload.ranks.size());
  std::vector<Cost> costs;
  costs.reserve(workload.kernels.size());
  for (std::size_t index = 0; index < workload.kernels.size(); ++index) {
    const KernelPricing& pricing = pricings.of(gpu_of_kernel[index]);
    const Kernel& kernel = workload.kernels[index];
    Cost cost = pricing.gpu.model->cost(kernel);
    cost.time = cost.time * (pricing.times.of(kernel) * pricing.times.slowest_of(ranks));
    if (keeps_sms) {
      const GpuSheet& sheet = pricing.gpu.sheet;
      cost.time = cost.time * pricing.times.beside_exchanges(kernel, sheet.sms,
                                                             sheet.communication_sms.compute_loss);
    }
    costs.push_back(supposed_cost(suppose, kernel, cost));
  }
  return costs;
}

// Where GPUs differ, what they reach on average.
FlopsPerSecond mean_peak(const Cluster& cluster, DataType precision) {
  double sum = 0.0;
  std::map<std::string, double> peaks;
  for (const GpuKind& gpu : cluster.facts().mixed_gpus) {
    const auto [peak, fresh] = peaks.try_emplace(gpu.profile, 0.0);
    if (fresh) peak->second = load_gpu_sheet(gpu.profile).peak(precision).value();
    sum += peak->second;
  }
  return FlopsPerSecond{sum / static_cast<double>(cluster.facts().mixed_gpus.size())};
}

nccl::Options options_of(const CollectiveChoice& choice) {
  nccl::Options options = nccl::options_of(choice.nccl);
  options.stands_in = true;
  return options;
}

std::optional<CollectiveProfile> profile_of(const CollectiveChoice& choice) {
  if (choice.profile.empty()) return {};
  return read_collective_profile(choice.profile);
}

std::shared_ptr<const Cluster> cluster_of(const ClusterSpec& spec, const Supposition& suppose) {
  std::shared_ptr<const Cluster> cluster = shared_cluster(spec);
  if (!suppose.changes_links()) return cluster;
  return std::make_shared<const Cluster>(supposed_cluster(suppose, *cluster));
}

// Folds, prices and replays run.workload on run.cluster; `gpu_of_kernel` as `specialise` says.
void replay(Run& run, const std::vector<std::string>& gpu_of_kernel, const std::string& framework,
            const CollectiveChoice& choice, std::span<const HostLane> hosts,
            const RunOptions& options) {
  const Cluster& cluster = *run.cluster;
  const std::optional<CollectiveProfile> profile = profile_of(choice);
  const ChosenTransport chosen(cluster, options_of(choice), profile ? &*profile : nullptr,
                               choice.profile);
  const Transport& transport = chosen.get();
  const FoldOptions folding{.enabled = options.fold, .drop_uncontended = true};
  run.partition = fold(cluster, run.workload, transport, folding);
  if (options.fold_reasons) {
    run.fold_reasons = fold_reasons(cluster, run.workload, transport, folding, run.partition);
  }
  run.carriers = carriers(run.workload, run.partition, transport);
  suppose_communication(options.suppose, run.workload, run.partition);
  const bool interferes = options.interference && options.suppose.interference;
  const bool keeps_sms = interferes && exchanges_rows(run.workload);
  KernelPricings pricings(framework);
  run.kernel_costs =
      price_kernels(run.workload, gpu_of_kernel, pricings, keeps_sms, options.suppose);
  std::vector<double> seconds;
  seconds.reserve(run.kernel_costs.size());
  for (const Cost& cost : run.kernel_costs) seconds.push_back(cost.time.value());
  std::vector<std::vector<double>> compute_loss;
  std::vector<double> communication_loss;
  if (interferes) {
    const KernelPricing& pricing = pricings.of(cluster.facts().gpu);
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
                              .hosts = hosts,
                              .contract = options.contract});
  if (run.facts.engine == "simgrid")
    run.facts.engine_version = "SimGrid " TRAINYARD_SIMGRID_VERSION;
  run.facts.gpu_memory = cluster.facts().gpu_memory;
  add_nccl_approximations(run.workload, cluster, chosen.nccl(), run.facts);
  add_engine_approximations(run.timeline, run.facts);
  add_cost_approximations(run.workload, run.partition, run.kernel_costs, run.facts);
}

}  // namespace

Workload scenario_workload(const Scenario& scenario, const Cluster& cluster) {
  Workload workload = lower(scenario.plan);
  if (scenario.collective_model != "stepwise") return workload;
  const nccl::NcclTransport transport(cluster, options_of(scenario.plan.collectives));
  return expand_collectives(workload, cluster, [&](const Call& call, auto gpus) {
    return transport.stepwise_name(call, gpus);
  });
}

Run run_scenario(const Scenario& scenario, const RunOptions& options) {
  const Stopwatch stopwatch;
  Run run;
  run.cluster = cluster_of(scenario.cluster, options.suppose);
  run.facts = scenario_facts(scenario, load_gpu_sheet(run.cluster->facts().gpu));
  if (run.cluster->has_mixed_gpus())
    run.facts.gpu_peak = mean_peak(*run.cluster, scenario.plan.training.precision);
  run.workload = scenario_workload(scenario, *run.cluster);
  add_plan_approximations(scenario, run.facts);
  RunOptions chosen = options;
  chosen.interference = options.interference && scenario.interference;
  const std::vector<std::string> gpu_of_kernel = specialise(run.workload, *run.cluster);
  const std::vector<HostLane> hosts =
      host_lanes(run.workload, scenario.host_costs, host_habits(scenario.plan.parallelism));
  replay(run, gpu_of_kernel, scenario.framework, scenario.plan.collectives, hosts, chosen);
  add_memory_overheads(scenario.plan.framework, run);
  run.facts.published =
      compare_published(scenario, run.facts, Seconds{run.timeline.makespan_s} / run.facts.steps);
  if (options.timing) stopwatch.record(run.facts);
  return run;
}

Run run_workload(WorkloadQuestion question, const RunOptions& options) {
  const Stopwatch stopwatch;
  Run run;
  run.cluster = shared_cluster(question.cluster);
  run.facts.title = std::move(question.title);
  run.facts.engine = question.engine;
  run.workload = std::move(question.workload);
  const std::vector<std::string> gpu_of_kernel = specialise(run.workload, *run.cluster);
  replay(run, gpu_of_kernel, {}, {}, {}, options);
  if (options.timing) stopwatch.record(run.facts);
  return run;
}

}  // namespace trainyard
