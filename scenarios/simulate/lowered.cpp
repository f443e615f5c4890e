#include "scenarios/simulate/lowered.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "models/host.hpp"
#include "models/lower/lower.hpp"
#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/memory_overheads.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard {

namespace {

// Appends copies of the first `count` kernels and returns the index of the first copy.
std::uint32_t append_copies(Workload& workload, std::size_t count) {
  const auto first = static_cast<std::uint32_t>(workload.kernels.size());
  for (std::size_t kernel = 0; kernel < count; ++kernel)
    workload.kernels.emplace_back(workload.kernels[kernel]);
  return first;
}

// Appends copies of the first `count` kernels for each kind of GPU but the usual one, and returns
// the index of the first copy by kind.
std::map<std::string, std::uint32_t> copy_kernels(Workload& workload, const Cluster& cluster,
                                                  std::vector<std::string>& gpu_of_kernel) {
  const std::size_t count = workload.kernels.size();
  std::map<std::string, std::uint32_t> first{{cluster.facts().gpu, 0}};
  for (const auto& [profile, memory] : cluster.facts().mixed_gpus) {
    if (first.contains(profile)) continue;
    first[profile] = append_copies(workload, count);
    gpu_of_kernel.resize(workload.kernels.size(), profile);
  }
  return first;
}

// Makes the program use the kernels from number `first` on. There are `count` kernels for each kind
// of GPU.
void move_kernels(Program& program, std::size_t count, std::uint32_t first) {
  if (first == 0) return;
  if (program.kernels.empty()) {
    program.kernels.resize(count);
    std::iota(program.kernels.begin(), program.kernels.end(), 0U);
  }
  for (std::uint32_t& kernel : program.kernels) kernel += first;
}

}  // namespace

// Gives ranks on other GPUs a copy of their program with separate kernels, whose costs differ. The
// first kind of GPU that runs a program keeps the original.
Specialised specialise(Workload given, const Cluster& cluster) {
  Specialised result{.workload = std::move(given)};
  auto& [workload, gpu_of_kernel, clock_of_kernel] = result;
  gpu_of_kernel.assign(workload.kernels.size(), cluster.facts().gpu);
  clock_of_kernel.assign(workload.kernels.size(), 1.0);
  if (!cluster.has_mixed_gpus()) return result;
  const std::size_t count = workload.kernels.size();
  const auto first = copy_kernels(workload, cluster, gpu_of_kernel);
  clock_of_kernel.resize(workload.kernels.size(), 1.0);
  const std::vector<Program> plain = workload.programs;
  std::map<std::pair<std::uint32_t, GpuKind>, std::uint32_t> made;
  std::vector<bool> taken(plain.size(), false);
  for (Rank& rank : workload.ranks) {
    const std::uint32_t from = rank.program;
    const GpuKind kind = cluster.gpu_kind(rank.gpu);
    const auto [entry, fresh] = made.try_emplace({from, kind}, from);
    if (fresh) {
      if (taken[from]) {  // another kind uses the original program
        entry->second = static_cast<std::uint32_t>(workload.programs.size());
        workload.programs.push_back(plain[from]);
        workload.programs.back().name += " on " + kind.profile;
      }
      taken[from] = true;
      move_kernels(workload.programs[entry->second], count, first.at(kind.profile));
    }
    rank.program = entry->second;
  }
  return result;
}

double stage_clock(const PowerSettings& power, const Program& program) {
  constexpr double kPercent = 0.01;
  if (program.stage >= power.stage_clocks.size()) return 1.0;
  return kPercent * static_cast<double>(power.stage_clocks[program.stage]);
}

Specialised with_stage_clocks(Specialised special, const PowerSettings& power) {
  auto& [workload, gpu_of_kernel, clock_of_kernel] = special;
  const std::size_t count = workload.kernels.size();
  std::map<double, std::uint32_t> first{{1.0, 0}};  // copy of the kernels, by clock
  for (Program& program : workload.programs) {
    const double clock = stage_clock(power, program);
    if (!first.contains(clock)) {
      first[clock] = append_copies(workload, count);
      for (std::size_t kernel = 0; kernel < count; ++kernel)
        gpu_of_kernel.emplace_back(gpu_of_kernel[kernel]);
      clock_of_kernel.resize(workload.kernels.size(), clock);
    }
    move_kernels(program, count, first[clock]);
  }
  return special;
}

Lowered::Lowered(Workload given, const Cluster& cluster)
    : Lowered(specialise(std::move(given), cluster)) {}

Lowered::Lowered(Specialised special) {
  workload = std::make_shared<const Workload>(std::move(special.workload));
  gpu_of_kernel = std::move(special.gpu_of_kernel);
  clock_of_kernel = std::move(special.clock_of_kernel);
  used = kernels_used(*workload);
  dispatches_tokens = trainyard::dispatches_tokens(*workload);
  analysis = std::make_shared<ProgramAnalysis>(*workload);
  known = std::make_unique<EnginePrograms>(*workload, *analysis);
}

// A rearranged program reuses what the analysis of the other workload has found.
Lowered::Lowered(const Lowered& other, std::vector<Program> programs)
    : gpu_of_kernel(other.gpu_of_kernel),
      clock_of_kernel(other.clock_of_kernel),
      used(other.used),
      dispatches_tokens(other.dispatches_tokens) {
  Workload arranged = *other.workload;
  arranged.programs = std::move(programs);
  workload = std::make_shared<const Workload>(std::move(arranged));
  analysis = std::make_shared<ProgramAnalysis>(*workload, other.analysis.get());
  known = std::make_unique<EnginePrograms>(*workload, *analysis, other.known.get());
}

namespace {

Lowered with_hosts(Lowered lowered, const Scenario& scenario) {
  lowered.hosts =
      host_lanes(*lowered.workload, scenario.host_costs, host_habits(scenario.plan.parallelism));
  return lowered;
}

}  // namespace

Lowered lowered_for(const Scenario& scenario, Workload workload, const Cluster& cluster) {
  add_overhead_categories(workload);
  Specialised special = specialise(std::move(workload), cluster);
  if (scenario.power) special = with_stage_clocks(std::move(special), *scenario.power);
  return with_hosts(Lowered(std::move(special)), scenario);
}

Lowered lower_scenario(const Scenario& scenario, const Cluster& cluster) {
  if (scenario.collective_model == CollectiveModel::Stepwise)
    return lowered_for(scenario, scenario_workload(scenario, cluster), cluster);
  SteppedWorkload stepped = lower_stepped(scenario.plan);
  Lowered lowered = lowered_for(scenario, std::move(stepped.workload), cluster);
  lowered.books = std::move(stepped.books);
  return lowered;
}

std::optional<Lowered> rearrange_scenario(const Scenario& scenario, const Lowered& known) {
  auto programs = rearranged(known.workload->programs, known.books, scenario.plan);
  if (!programs) return std::nullopt;
  return with_hosts(Lowered(known, *std::move(programs)), scenario);
}

// Estimated bytes, by which the cache decides what to drop.
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
    // Order, regions and successors take about as much memory as the operations themselves.
    constexpr std::size_t kWithWhatFollows = 3;
    bytes += kWithWhatFollows * program.operations.written().size() * sizeof(Operation) +
             program.operations.size() * sizeof(std::uint64_t) +
             program.operations.dependencies().size() * sizeof(OpIndex) +
             program.effects.size() * sizeof(MemoryEffect);
  }
  return bytes;
}

Workload with_collective_model(const Scenario& scenario, Workload workload,
                               const Cluster& cluster) {
  if (scenario.collective_model != CollectiveModel::Stepwise) return workload;
  const nccl::NcclModel communication(cluster, nccl_options(scenario.plan.collectives));
  return expand_collectives(workload, cluster, [&](const Call& call, auto gpus) {
    return communication.stepwise_name(call, gpus);
  });
}

Workload scenario_workload(const Scenario& scenario, const Cluster& cluster) {
  return with_collective_model(scenario, lower(scenario.plan), cluster);
}

Workload placed_workload(const Scenario& scenario, const Cluster& cluster,
                         std::span<const std::uint32_t> gpus) {
  Workload workload = lower(scenario.plan);
  for (Rank& rank : workload.ranks) rank.gpu = gpus[rank.gpu];
  return with_collective_model(scenario, std::move(workload), cluster);
}

// A scenario also runs on GPUs for which NCCL's choice is unknown; the result reports the
// substitute.
nccl::Options nccl_options(const CollectiveChoice& choice) {
  nccl::Options options = nccl::options_of(choice.nccl);
  options.allow_fallback = true;
  return options;
}

namespace {

// A cache key that is equal for all plans that differ only in the number of microbatches, if that
// is two or more.
struct AnyLength {
  explicit AnyLength(TrainingPlan of) : plan(std::move(of)) {
    Training& training = plan.training;
    training.global_batch_size = training.micro_batch_size * plan.parallelism.data *
                                 std::min<std::int64_t>(plan.microbatches(), 2);
  }
  TrainingPlan plan;
  bool operator==(const AnyLength&) const = default;
};

// The part of a cluster that lowering reads: programs differ by the GPUs of their ranks, and not by
// links. Clusters with other links therefore share programs, regions and edges.
ClusterSpec lowered_gpus(const ClusterSpec& spec, const Cluster& cluster) {
  return cluster.has_mixed_gpus() ? spec : ClusterSpec{.node = {.gpu = cluster.facts().gpu}};
}

}  // namespace

LoweredStep lower_step(const Scenario& scenario, const std::shared_ptr<const Cluster>& cluster,
                       Memo& memo) {
  LoweredStep step{.cluster = cluster, .software = &scenario, .engine = scenario.engine};
  const auto lower_it = [&] {
    if (!is_large(*cluster)) return lower_scenario(scenario, *cluster);
    return run_concurrently(
        true, [&] { step.places = std::make_shared<IsomorphicPlacements>(*cluster); },
        [&] { return lower_scenario(scenario, *cluster); });
  };
  // Stepwise collectives are expanded in the workload as NCCL chooses them on these links, so the
  // key contains the cluster.
  const bool stepwise = scenario.collective_model == CollectiveModel::Stepwise;
  const auto links = stepwise ? cluster : nullptr;
  const ClusterSpec gpus = lowered_gpus(scenario.cluster, *cluster);
  const auto clocks = scenario.power ? scenario.power->stage_clocks : std::vector<std::int64_t>{};
  // The first plan of its key is lowered; the others are rearranged from it.
  bool is_first = false;
  const auto first = memo.get<Lowered>(
      [&] {
        is_first = true;
        return lower_it();
      },
      AnyLength(scenario.plan), scenario.host_costs, gpus, links, clocks);
  step.lowered = memo.get<Lowered>(
      [&] {
        if (is_first) return first;
        std::optional<Lowered> arranged = rearrange_scenario(scenario, *first);
        return std::make_shared<const Lowered>(arranged ? *std::move(arranged) : lower_it());
      },
      scenario.plan, scenario.host_costs, gpus, links, clocks);
  return step;
}

}  // namespace trainyard
