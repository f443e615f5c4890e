#include "sim/report/stage_breakdown.hpp"

#include <map>

namespace trainyard {

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

}  // namespace trainyard
