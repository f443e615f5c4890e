// The job that a scenario with a reliability block describes.
//
//    const Job job = job_of(scenario, memo);
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/base/memo.hpp"
#include "tools/studies/goodput/run/job.hpp"

namespace trainyard {

// Throws InputError where the scenario has no reliability block.
void refuse_without_reliability(const Scenario& scenario);

// Simulates the step of the scenario and derives the job. Throws InputError where the scenario has
// no reliability block, or the block does not suffice.
[[nodiscard]] Job job_of(const Scenario& scenario, Memo& memo);

// The same with the time of a step that is known, without replicas to lose: nothing is simulated.
[[nodiscard]] Job job_with_step(const Scenario& scenario, double step_s);

// Bytes of a checkpoint: weights and optimizer state of every parameter, without gradients.
[[nodiscard]] double checkpoint_bytes(const Scenario& scenario);

}  // namespace trainyard
