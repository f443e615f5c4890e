// Whether a combination of sizes is a layout: they divide what they must and the schedule exists.
//
//   if (is_legal(plan)) ...
//
// The rules of scenarios/checks.cpp that sizes alone decide, without a file to report to: a search
// asks them of thousands of plans. What the reader refuses beyond that is counted when a layout is
// simulated.
#pragma once

#include "models/plan.hpp"

namespace trainyard {

[[nodiscard]] bool is_legal(const TrainingPlan& plan);

}  // namespace trainyard
