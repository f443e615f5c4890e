// The pipeline of a plan in the terms of its schedule, and what follows from its placement of
// stages.
//
//    const PipelineShape shape = pipeline_shape(plan);
//    stage_of(shape, {.rank = 0, .chunk = 1});   // 7 of 8 stages for zb_v on 4 ranks
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// The placement of stages by the plan's schedule; Wrap for an unknown name. Throws InputError for a
// schedule file with errors.
[[nodiscard]] StagePlacement placement_of(const Parallelism& parallelism);

// Ranks, microbatches and chunks, with the schedule's placement. `costs` have the proportions of
// the FLOPs of a layer's forward, input gradient and weight gradient.
[[nodiscard]] PipelineShape pipeline_shape(const TrainingPlan& plan);

// Number of copies of every stage within one pipeline: 2 where two directions share it (dualpipe).
[[nodiscard]] std::int64_t weight_copies(const Parallelism& parallelism);

// Number of ranks that hold the same experts of the same stage. REQUIRES: the plan's experts
// divide.
[[nodiscard]] std::int64_t expert_copies(const Parallelism& parallelism);

// True if first and last stage are on one rank, which then holds a tied embedding once.
[[nodiscard]] bool embedding_and_head_on_one_rank(const Parallelism& parallelism);

// Number of layers of every virtual stage, in model order (holder_of gives the rank that holds a
// stage). The first layers go to virtual stage 0. Throws InputError with the name of the field when
// the layers do not divide.
[[nodiscard]] std::vector<std::int64_t> layer_split(const TrainingPlan& plan);

}  // namespace trainyard
