// Whether a combination of sizes is a layout: they divide what they must and the schedule exists.
//
//   if (is_legal(plan)) ...
//
// The rules of scenarios/reader/checks.cpp that sizes alone decide, without a file to report to: a
// search asks them of thousands of plans. What the reader refuses beyond that is counted when a
// layout is simulated.
#pragma once

#include "models/plan.hpp"

namespace trainyard {

[[nodiscard]] bool is_legal(const TrainingPlan& plan);

// Whether replicas divide into the sharded copies that the scenario names (`shard`,
// `reshard_group`), and these hold whole sets of experts. Where they do not, nothing can be
// lowered, and so nothing bounded; the reader says so when the layout is simulated.
[[nodiscard]] bool replicas_divide_into_copies(const TrainingPlan& plan);

}  // namespace trainyard
