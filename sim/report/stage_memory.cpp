#include "sim/report/stage_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace trainyard {

std::vector<StageMemory> stage_memory(const RunView& view) {
  const auto capacity = static_cast<std::int64_t>(std::floor(view.facts.gpu_memory.value()));
  std::map<std::uint32_t, StageMemory> worst;
  for (std::uint32_t index = 0; index < view.partition.ranks.size(); ++index) {
    const std::uint32_t stage =
        view.workload.programs.at(view.partition.ranks[index].program).stage;
    MemoryPeak peak = memory_peak(view.workload, view.partition, view.timeline, index);
    const auto known = worst.find(stage);
    if (known != worst.end() && known->second.peak.bytes >= peak.bytes) continue;
    const bool fits = capacity == 0 || peak.bytes <= capacity;
    worst[stage] = {.stage = stage,
                    .rank_class = index,
                    .peak = std::move(peak),
                    .capacity_bytes = capacity,
                    .fits = fits};
  }
  std::vector<StageMemory> stages;
  stages.reserve(worst.size());
  for (auto& [stage, memory] : worst) stages.push_back(std::move(memory));
  return stages;
}

const StageMemory* worst_stage(const std::vector<StageMemory>& stages) {
  const auto worst = std::max_element(
      stages.begin(), stages.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.peak.bytes < b.peak.bytes; });
  return worst == stages.end() ? nullptr : &*worst;
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

}  // namespace trainyard
