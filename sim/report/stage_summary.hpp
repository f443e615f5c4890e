// The run by pipeline stage: where the time of its ranks goes, and their peak memory.
//
//   for (const StageMemory& stage : stage_memory(view)) stage.fits;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {

// The breakdown (sim/timeline/breakdown.hpp) as the mean over the ranks of a stage.
struct StageBreakdown {
  std::uint32_t stage = 0;
  std::uint64_t ranks = 0;
  Breakdown mean;
};

// Sorted by stage number.
[[nodiscard]] std::vector<StageBreakdown> stage_breakdown(const RunView& view);

// The peak memory of a stage: the worst of its rank classes, and whether it fits.
struct StageMemory {
  std::uint32_t stage = 0;
  std::uint32_t rank_class = 0;  // the worst, the lowest among equals
  MemoryPeak peak;
  std::int64_t capacity_bytes = 0;  // 0: not known, then `fits` is true
  bool fits = true;
  std::string gpu = {};  // profile, where the cluster's GPUs are not all alike
};

// Sorted by stage number.
[[nodiscard]] std::vector<StageMemory> stage_memory(const RunView& view);

// The stage with the highest peak; nullptr when there is none.
[[nodiscard]] const StageMemory* worst_stage(const std::vector<StageMemory>& stages);

// "backward layer 3, microbatch 7": the operation that reached the peak.
[[nodiscard]] std::string peak_operation(const RunView& view, const StageMemory& stage);

// The bytes that the ranks of a node keep in the memory of its CPUs, each rank at its own peak, on
// the node where they are most.
struct HostMemory {
  std::uint32_t node = 0;
  std::int64_t bytes = 0;
  std::int64_t capacity_bytes = 0;  // 0: not known
  bool fits = true;
};
// Nothing where the step keeps nothing there.
[[nodiscard]] std::optional<HostMemory> host_memory(const RunView& view);

}  // namespace trainyard
