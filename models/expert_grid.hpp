// Where a rank sits among the experts: a second grid over the ranks of each pipeline stage.
//
// Megatron folds the experts' division over the dense one (parallel_state.py, RankGenerator): the
// same order string with tp as expert_tensor, cp as 1, ep as expert and dp as the experts'
// replicas. With "tp-cp-ep-dp-pp"
//   rank = et + etp*(e + ep*(r + replicas*pp))
// e.g. 16 ranks, expert 8, expert_tensor 1, pipeline 1: rank 11 has the experts of place 3, replica
// 1.
#pragma once

#include <cstdint>

#include "models/plan.hpp"
#include "models/rank_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct ExpertPosition {
  std::int64_t tensor = 0;
  std::int64_t expert = 0;
  std::int64_t replica = 0;
  std::int64_t pipeline = 0;
};

class ExpertGrid {
 public:
  // REQUIRES: expert * expert_tensor divides the ranks of a stage; rank_order as for RankGrid.
  explicit ExpertGrid(const Parallelism& parallelism);

  [[nodiscard]] ExpertPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const ExpertPosition& position) const;
  // Every rank is on the same pipeline stage in both grids; an order that puts pp between the other
  // dimensions may tear them apart.
  [[nodiscard]] static bool keeps_stages(const Parallelism& parallelism);

 private:
  RankOrder order_;  // tensor, expert, replica, pipeline
};

// Binds the slots of the experts: their tensor group, the group among which they are divided, and
// their replicas. REQUIRES: workload.ranks have all slots.
void add_expert_groups(const Parallelism& parallelism, Workload& workload);

}  // namespace trainyard
