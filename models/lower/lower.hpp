// Lowers a training plan to the Workload that an engine simulates.
//
// The workload has one program per pipeline stage, because all replicas and tensor ranks of a stage
// execute the same operations. A stage has several programs where its ranks differ: one for each
// position on the context ring where positions compute different attention blocks, one for each
// expert-parallel rank where experts have different loads, one for each replica that reads its own
// documents, and one for each number of microbatches where replicas have different numbers. A
// program lists operations in issue order: the steps of the schedule, each unrolled into the
// kernels and collectives of its layers, then gradient reduction, gradient norm and optimizer.
// Operations carry the memory that they allocate and release.
//
// Reading order:
//   lower.cpp                            the whole step
//   step_runs.hpp, stage.cpp             the schedule of one rank
//   stage_writer.cpp                     one schedule step, layer by layer, with stage_layout.hpp,
//                                        messages.hpp and resident_memory.hpp
//   models/layers/layer.hpp              one transformer layer, with the kinds of blocks in it:
//                                        multi_head_attention.cpp, latent_attention.cpp,
//                                        feed_forward.cpp and experts.cpp
//   models/layers/layer_tools.hpp        the tools that the writers of blocks share
//   program_builder.hpp, recording.hpp   how a program is written
//   embedding_and_head.cpp               embedding, head and loss
//   device_program.cpp                   a model that is split by hand
//   data_parallel/                       weights and gradients around the layers
//   gradients.cpp                        gradient norm and optimizer
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

// Returns the workload of one training step. Throws InputError if the schedule or the layer split
// refuses the shape. REQUIRES: the plan has passed the checks of the scenario reader.
[[nodiscard]] Workload lower(const TrainingPlan& plan);

// WrittenOnce: microbatches with identical operations are instances of one block. WrittenOut: each
// microbatch is written separately. Both give the same program.
enum class Microbatches : std::uint8_t { WrittenOnce, WrittenOut };

// A workload, the operation at which each schedule step begins, and the blocks of its programs.
struct SteppedWorkload {
  Workload workload;
  // By program: the first operation of each step of its stage's list, then one entry for the
  // operation after the last step. Two steps that run as one overlapped block have the same first
  // operation.
  std::vector<std::vector<OpIndex>> begins = {};
  std::vector<BlockCatalogue> books = {};  // by program
};
// Lowers the plan with these step lists, by pipeline rank, instead of those of its schedule. The
// lists may be a sample of the schedule, for a workload that is inspected and not run. REQUIRES: no
// parameter servers, no model split by hand; each microbatch of a chunk has one backward, either
// full or in both parts.
[[nodiscard]] SteppedWorkload lower_steps(const TrainingPlan& plan, const ScheduleLists& lists,
                                          Microbatches microbatches = Microbatches::WrittenOnce);

// Returns the workload of lower() with the additional data that rearranged() needs.
[[nodiscard]] SteppedWorkload lower_stepped(const TrainingPlan& plan);

// Builds the programs of the plan from the blocks of `known`, the programs of a plan with another
// number of microbatches. The result equals that of lower(plan). Returns nullopt if it needs a
// block that `known` does not have. `books`: by program. Programs that share an operation list with
// an earlier one share the rearranged list, too. REQUIRES: lower() returned `known` for a plan that
// differs only in the size of the global batch.
[[nodiscard]] std::optional<std::vector<Program>> rearranged(std::span<const Program> known,
                                                             std::span<const BlockCatalogue> books,
                                                             const TrainingPlan& plan);

// The steps of every pipeline rank in the order of the plan's schedule. Throws as lower().
[[nodiscard]] ScheduleLists step_lists(const TrainingPlan& plan);

// FLOPs that the kernels of all ranks execute in one step, including recomputation.
[[nodiscard]] Flops executed_flops(const Workload& workload);

// ---- plans that lower() passes to a separate lowering

// The step of a model that is split by hand, operator by operator: one program for each device,
// which all replicas share. REQUIRES: the plan's rules have passed operator_split and the checks of
// the scenario reader.
[[nodiscard]] Workload operator_step(const TrainingPlan& plan);

// Several steps of workers that communicate only with parameter servers. Workers may run ahead of
// each other by a bounded number of steps, or without a bound.
//
// The traffic is that of sim/collectives/parameter_server_traffic.hpp. The computation of a
// worker's step consists of its real kernels. Each of k servers applies the optimizer to 1/k of the
// parameters: once all workers have pushed, or with every push where workers may run ahead. With C
// of computation and U of the update on an infinitely fast network, W workers and n steps take
// n(C + U) if no worker may run ahead, and nC + WU if workers may be one step ahead and WU <= C
// (tests/models/lower/server_steps_test.cpp).
//
//    Workload w = server_steps(plan, {.servers = {0, 1}, .steps = 8, .staleness = 2});
struct ServerSteps {
  // GPUs; a server shares its GPU with a worker where the number is below plan.parallelism.data.
  std::vector<std::uint32_t> servers = {0};
  std::uint32_t steps = 1;
  std::vector<std::uint32_t> steps_of_worker = {};  // where they differ; empty: `steps` each
  std::optional<std::uint32_t> staleness = {0};  // steps ahead of the slowest; nullopt: unbounded
};

// Worker i is on GPU i. Gradients and weights are sent in the precision of the gradients. The
// update of a server runs on a separate stream; the model does not count by how much it slows the
// kernels of a worker on the same GPU. Throws InputError if the plan has any parallelism other than
// `data`, and where parameter_server_traffic throws it.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan, const ServerSteps& steps);

// The same with the servers that the plan describes (plan.servers). Dedicated servers are on the
// GPUs after those of the workers; others are on the first GPUs of the workers.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan);

}  // namespace trainyard
