// The pipeline of a plan as its schedule sees it, and what follows from where it puts the stages.
//
//   const PipelineShape shape = pipeline_shape(plan);
//   stage_of(shape, {.rank = 0, .chunk = 1});   // 7 of 8 stages for zb_v on 4 ranks
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// Where the plan's schedule puts the stages; Wrap for a name that there is not. Throws InputError
// for a schedule file at fault.
[[nodiscard]] StagePlacement placement_of(const Parallelism& parallelism);

// Ranks, microbatches and chunks, with the schedule's placement. `costs` have the proportions of
// the FLOPs of a layer's forward, input gradient and weight gradient.
[[nodiscard]] PipelineShape pipeline_shape(const TrainingPlan& plan);

// Copies of every stage within one pipeline: 2 where two directions share it (dualpipe).
[[nodiscard]] std::int64_t weight_copies(const Parallelism& parallelism);

// Ranks that hold the same experts of the same stage. REQUIRES: the plan's experts divide.
[[nodiscard]] std::int64_t expert_copies(const Parallelism& parallelism);

// First and last stage are on one rank, which then holds a tied embedding once.
[[nodiscard]] bool ends_on_one_rank(const Parallelism& parallelism);

// Layers of every virtual stage, in model order (place_of says which rank holds it). The first
// layers go to virtual stage 0. Throws InputError naming the field when the layers do not divide.
[[nodiscard]] std::vector<std::int64_t> layer_split(const TrainingPlan& plan);

}  // namespace trainyard
