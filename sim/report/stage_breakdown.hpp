// The breakdown (sim/timeline/breakdown.hpp) by pipeline stage: the mean over the ranks of the
// stage.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/timeline/breakdown.hpp"

namespace trainyard {

struct StageBreakdown {
  std::uint32_t stage = 0;
  std::uint64_t ranks = 0;
  Breakdown mean;
};

// By stage number.
[[nodiscard]] std::vector<StageBreakdown> stage_breakdown(const RunView& view);

}  // namespace trainyard
