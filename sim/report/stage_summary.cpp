#include "sim/report/stage_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace trainyard {

namespace {

// Returns the GPU kind of a rank class. All GPUs of a class have the same kind.
GpuKind gpu_of(const RunView& view, std::uint32_t rank_class) {
  if (!view.cluster.has_mixed_gpus()) return {.profile = {}, .memory = view.facts.gpu_memory};
  const RankId rank = view.partition.ranks[rank_class].representative;
  return view.cluster.gpu_kind(view.workload.ranks[rank].gpu);
}

}  // namespace

std::vector<StageBreakdown> stage_breakdown(const RunView& view) {
  std::map<std::uint32_t, StageBreakdown> stages;
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index) {
    const RankClass& ranks = view.partition.ranks[index];
    const Breakdown times = view.breakdown_of(index);
    StageBreakdown& stage = stages[view.workload.programs.at(ranks.program).stage];
    stage.ranks += ranks.members;
    for (std::size_t share = 0; share < kTimeShares; ++share) {
      stage.mean.seconds[share] += ranks.members * times.seconds[share];
    }
  }
  std::vector<StageBreakdown> result;
  for (auto& [number, stage] : stages) {
    stage.stage = number;
    for (double& seconds : stage.mean.seconds) seconds /= static_cast<double>(stage.ranks);
    result.push_back(stage);
  }
  return result;
}

Breakdown mean_breakdown(const std::vector<StageBreakdown>& stages) {
  Breakdown mean;
  double ranks = 0.0;
  for (const StageBreakdown& stage : stages) {
    ranks += static_cast<double>(stage.ranks);
    for (std::size_t share = 0; share < kTimeShares; ++share) {
      mean.seconds[share] += static_cast<double>(stage.ranks) * stage.mean.seconds[share];
    }
  }
  for (double& seconds : mean.seconds) seconds /= ranks;
  return mean;
}

std::vector<StageMemory> stage_memory(const RunView& view) {
  std::map<std::uint32_t, StageMemory> worst;
  for (std::uint32_t index = 0; index < view.partition.ranks.size(); ++index) {
    const std::uint32_t stage =
        view.workload.programs.at(view.partition.ranks[index].program).stage;
    GpuKind gpu = gpu_of(view, index);
    const auto capacity = static_cast<std::int64_t>(std::floor(gpu.memory.value()));
    MemoryPeak peak = view.memory_peak_of(index);
    const auto known = worst.find(stage);
    // The worst class is the one with the least headroom, since capacities differ on mixed
    // clusters.
    if (known != worst.end() &&
        known->second.peak.bytes - known->second.capacity_bytes >= peak.bytes - capacity)
      continue;
    const bool fits = capacity == 0 || peak.bytes <= capacity;
    worst[stage] = {.stage = stage,
                    .rank_class = index,
                    .peak = std::move(peak),
                    .capacity_bytes = capacity,
                    .fits = fits,
                    .gpu = std::move(gpu.profile)};
  }
  std::vector<StageMemory> stages;
  stages.reserve(worst.size());
  for (auto& [stage, memory] : worst) stages.push_back(std::move(memory));
  return stages;
}

const StageMemory* worst_stage(const std::vector<StageMemory>& stages) {
  const auto worst = std::max_element(
      stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) {
        return a.peak.bytes - a.capacity_bytes < b.peak.bytes - b.capacity_bytes;
      });
  return worst == stages.end() ? nullptr : &*worst;
}

std::optional<HostMemory> host_memory(const RunView& view) {
  const auto& categories = view.workload.categories;
  if (std::ranges::find(categories, kHostCategory) == categories.end()) return std::nullopt;
  // Each rank counts with its own peak, so the sum is an upper bound of what a node holds at once.
  std::vector<std::int64_t> of_class;
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index)
    of_class.push_back(host_memory_peak(view.workload, view.partition, view.timeline, index));
  std::map<std::uint32_t, std::int64_t> of_node;
  for (RankId rank = 0; rank < view.workload.ranks.size(); ++rank)
    of_node[view.cluster.node_of(view.workload.ranks[rank].gpu)] +=
        of_class[view.partition.class_of_rank[rank]];
  HostMemory most;
  for (const auto& [node, bytes] : of_node)
    if (bytes > most.bytes) most = {.node = node, .bytes = bytes};
  most.capacity_bytes =
      static_cast<std::int64_t>(std::floor(view.cluster.facts().host_memory.value()));
  most.fits = most.capacity_bytes == 0 || most.bytes <= most.capacity_bytes;
  return most;
}

std::string peak_operation(const RunView& view, const StageMemory& stage) {
  if (stage.peak.operation == kNone) return "resident memory";
  const Program& program =
      view.workload.programs.at(view.partition.ranks.at(stage.rank_class).program);
  const Operation& op = program.operations.at(stage.peak.operation);
  std::string text = view.workload.names.at(op.name);
  if (op.layer >= 0) text += fmt::format(", layer {}", op.layer);
  if (op.microbatch >= 0) text += fmt::format(", microbatch {}", op.microbatch);
  return text;
}

bool everything_fits(const RunView& view) {
  const std::optional<HostMemory> host = host_memory(view);
  return std::ranges::all_of(stage_memory(view), &StageMemory::fits) && (!host || host->fits);
}

std::string counted_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> runs;
  for (auto begin = numbers.begin(); begin != numbers.end();) {
    const auto end =
        std::find_if(begin, numbers.end(), [&](auto number) { return number != *begin; });
    runs.push_back(end - begin > 1 ? fmt::format("{} x {}", end - begin, *begin)
                                   : fmt::format("{}", *begin));
    begin = end;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

}  // namespace trainyard
