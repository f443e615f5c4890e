// A few steps that stand for all of a schedule: one of each kind is read for its least time and
// memory (segments.hpp), so only so many have to be lowered.
//
//   StepSample sample = sample_of(plan, step_lists(plan));
//   lower_steps(sample.plan, sample.lists);
//
// Two microbatches go through each chunk, one after the other: the last one reduces gradients. A
// schedule that splits some backwards and not others has one of each.
#pragma once

#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

struct StepSample {
  TrainingPlan plan;  // of so many microbatches
  ScheduleLists lists;
};

// `lists`: those of the plan. They are their own sample where microbatches differ (documents are
// drawn, experts are loaded unevenly) or are few.
[[nodiscard]] StepSample sample_of(const TrainingPlan& plan, const ScheduleLists& lists);

}  // namespace trainyard
