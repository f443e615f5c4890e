// From a training plan to the Workload that an engine replays.
//
// One program per pipeline stage (all replicas and tensor ranks of a stage do the same; each place
// on a ring of context ranks has its own where it attends to other blocks, and each place among
// experts with different loads), in issue order: the schedule's steps, each unrolled into the
// kernels and collectives of its layers, then gradient reduction, gradient norm and optimizer.
// Memory effects ride on the operations.
//
// Reading order: lower.cpp (the whole step), step_runs.hpp and stage.cpp (a rank's schedule),
// stage_writer.cpp (one step of it, layer by layer) with stage_layout.hpp, messages.hpp and
// resident_memory.hpp, layer.hpp (one transformer layer and the kinds of blocks in it) with
// multi_head_attention.cpp, latent_attention.cpp, feed_forward.cpp and experts.cpp, layer_tools.hpp
// (what these write with), program_builder.hpp and recording.hpp (how a program is written),
// ends.cpp (embedding, head and loss), device_program.cpp (a model split by hand), data_parallel/
// (weights and gradients around them), gradients.cpp (norm, optimizer).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/lower/stage.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// REQUIRES: the plan has passed the scenario reader's checks. Throws InputError where the schedule
// or the layer split refuses the shape.
[[nodiscard]] Workload lower(const TrainingPlan& plan);

// Microbatches that go alike are written once, as instances of a block, or each for itself. The
// program is the same.
enum class Microbatches : std::uint8_t { WrittenOnce, WrittenOut };

// A workload with the place of each step of its lists, and with the blocks that its programs are
// made of.
struct SteppedWorkload {
  Workload workload;
  // By program: the operation that each step of its stage's list begins with, and at last the one
  // behind them all. Two steps that run as one block begin at the same one.
  std::vector<std::vector<OpIndex>> begins = {};
  std::vector<StageBook> books = {};  // by program
};
// With these lists, by pipeline rank, in place of the schedule's. They may be a sample of it, to be
// read rather than run. REQUIRES: no parameter servers, no model split by hand; each microbatch of
// a chunk has one backward, whole or in both parts.
[[nodiscard]] SteppedWorkload lower_steps(const TrainingPlan& plan, const ScheduleLists& lists,
                                          Microbatches microbatches = Microbatches::WrittenOnce);

// lower() with all that rearranged() asks for.
[[nodiscard]] SteppedWorkload lower_stepped(const TrainingPlan& plan);

// The programs of `known` for another number of microbatches, made of the same blocks: what lower()
// gives for the plan. Nothing where that needs another block. `books`: of the programs; they and
// others that share a list with one of them are rearranged together. REQUIRES: lower() gave `known`
// for a plan that differs in the size of the global batch alone.
[[nodiscard]] std::optional<std::vector<Program>> rearranged(std::span<const Program> known,
                                                             std::span<const StageBook> books,
                                                             const TrainingPlan& plan);

// The steps of every pipeline rank by the plan's schedule, in order. Throws as lower().
[[nodiscard]] ScheduleLists step_lists(const TrainingPlan& plan);

// FLOPs that the kernels of all ranks execute in the step, recomputation included.
[[nodiscard]] Flops executed_flops(const Workload& workload);

// ---- plans with a step of their own, which lower() recognises

// The step of a model that is split by hand, operator by operator: one program for each device,
// replicas alike. REQUIRES: the plan's rules have passed operator_split and the scenario's checks.
[[nodiscard]] Workload operator_step(const TrainingPlan& plan);

// Several steps of replicas that meet in parameter servers alone. Workers may run ahead of each
// other by a bounded number of steps, or without a bound.
//
// The traffic is that of sim/collectives/parameter_server_traffic.hpp; here the computation of a
// worker's step is its real kernels, and a server applies the optimizer to its k-th of the
// parameters: once everybody has pushed, or with every push where workers may run ahead. C of
// computation and U of the update on a free network, W workers, n steps: n(C + U) where nobody may
// run ahead, nC + WU where a step may and WU <= C (tests/models/lower/server_steps_test.cpp).
//
//   Workload w = server_steps(plan, {.servers = {0, 1}, .steps = 8, .staleness = 2});
struct ServerSteps {
  std::vector<std::uint32_t> servers = {0};  // GPUs; those below plan.parallelism.data are shared
  std::uint32_t steps = 1;
  std::vector<std::uint32_t> steps_of_worker = {};  // where they differ; empty: `steps` each
  std::optional<std::uint32_t> staleness = {0};  // steps ahead of the slowest; nothing: unbounded
};

// Worker i is on GPU i. Gradients and weights travel as wide as gradients are kept. A server's
// update takes its own stream; what it takes from a worker's kernels beside it is not counted.
// Throws InputError for a plan with another parallelism than `data`, and as
// parameter_server_traffic.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan, const ServerSteps& steps);

// The steps of workers and parameter servers (plan.servers). Dedicated servers stand behind the
// workers' GPUs, others on the first of them.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan);

}  // namespace trainyard
