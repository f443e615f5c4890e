// From a training plan to the Workload that an engine replays.
//
// One program per pipeline stage (all replicas and tensor ranks of a stage do the same), in issue order:
// the schedule's steps, each unrolled into the kernels and collectives of its layers, then gradient
// reduction, gradient norm and optimizer. Memory effects ride on the operations.
#pragma once

#include "models/plan.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

// Streams of a lowered step, by number.
enum class Stream : std::uint8_t { Compute, Tensor, PipelineForward, PipelineBackward, Data, Context, Other };

// REQUIRES: the plan has passed the scenario reader's checks. Throws InputError where the schedule or the
// layer split refuses the shape.
[[nodiscard]] Workload lower(const TrainingPlan& plan);

// FLOPs that all ranks of the lowered step execute, recomputation included (for HFU).
[[nodiscard]] Flops executed_flops(const Workload& workload);

}  // namespace trainyard
