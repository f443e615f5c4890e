// The summary of a run by pipeline stage: where the time of its ranks goes, and their peak memory.
//
//    for (const StageMemory& stage : stage_memory(view)) stage.fits;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {

// The breakdown (sim/timeline/breakdown.hpp), averaged over the ranks of a stage.
struct StageBreakdown {
  std::uint32_t stage = 0;
  std::uint64_t ranks = 0;
  Breakdown mean;
};

// Returns the entries sorted by stage number.
[[nodiscard]] std::vector<StageBreakdown> stage_breakdown(const RunView& view);

// Returns the mean over the ranks of all stages.
[[nodiscard]] Breakdown mean_breakdown(const std::vector<StageBreakdown>& stages);

// The peak memory of the stage's worst rank class, and whether it fits. The worst class has the
// least headroom (capacity minus peak).
struct StageMemory {
  std::uint32_t stage = 0;
  std::uint32_t rank_class = 0;  // the worst class; the lowest among equals
  MemoryPeak peak;
  std::int64_t capacity_bytes = 0;  // 0: not known, then `fits` is true
  bool fits = true;
  std::string gpu = {};  // GPU profile; empty where all GPUs of the cluster are of one kind
};

// Returns the entries sorted by stage number.
[[nodiscard]] std::vector<StageMemory> stage_memory(const RunView& view);

// Returns the stage with the least headroom; nullptr when the list is empty.
[[nodiscard]] const StageMemory* worst_stage(const std::vector<StageMemory>& stages);

// Names the operation whose allocation reaches the peak: "backward layer 3, microbatch 7".
[[nodiscard]] std::string peak_operation(const RunView& view, const StageMemory& stage);

// The host memory that the ranks of one node hold, each rank at its own peak, for the node that
// holds most.
struct HostMemory {
  std::uint32_t node = 0;
  std::int64_t bytes = 0;
  std::int64_t capacity_bytes = 0;  // 0: not known
  bool fits = true;
};
// Returns nothing where the step holds nothing in host memory.
[[nodiscard]] std::optional<HostMemory> host_memory(const RunView& view);

// Whether every stage fits its GPU and the offloaded state fits the host.
[[nodiscard]] bool everything_fits(const RunView& view);

// Returns "3 x 17, 10": numbers of stages or replicas, where equal neighbours are counted.
[[nodiscard]] std::string counted_text(const std::vector<std::int64_t>& numbers);

}  // namespace trainyard
