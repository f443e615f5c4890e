// From a training plan to the Workload that an engine replays.
//
// One program per pipeline stage (all replicas and tensor ranks of a stage do the same; each place
// on a ring of context ranks has its own where it attends to other blocks, and each place among
// experts with different loads), in issue order: the schedule's steps, each unrolled into the
// kernels and collectives of its layers, then gradient reduction, gradient norm and optimizer.
// Memory effects ride on the operations.
//
// Reading order: lower.cpp (the whole step), stage.cpp (a rank's schedule), stage_writer.cpp (one
// step of it) with stage_layout.hpp, messages.hpp, stage_layers.hpp and resident_memory.hpp,
// layer.cpp (one transformer layer), layer_block.hpp (the kinds of blocks in it) with
// multi_head_attention.cpp, latent_attention.cpp, feed_forward.cpp and moe.cpp, layer_tools.hpp
// (what these write with), ends.cpp (embedding, head and loss), device_program.cpp (a model split
// by hand), data_parallel/ (weights and gradients around them), gradients.cpp (norm, optimizer).
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Streams of a lowered step, by number. Messages between stages have one stream for each direction
// and side, so that a receive posted early never holds up a send.
enum class Stream : std::uint8_t {
  Compute,
  Tensor,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Data,
  Other,
  // Those from here on are in a workload only where it uses them, or one behind them.
  // Of chunks that run from the last rank to the first.
  SendForwardReverse,
  RecvForwardReverse,
  SendBackwardReverse,
  RecvBackwardReverse,
  AllGather,      // of weights, layer by layer
  ReduceScatter,  // of their gradients
  Replica,        // gradients of a shard, among its copies
  // Of ranks that share a sequence: collectives, and what goes round the ring.
  Context,
  SendContext,
  RecvContext,
  // Of products in pieces (tensor_pipeline.hpp).
  SendTensor,
  RecvTensor,
  Expert,  // of a model with experts
  // Between the GPU and the memory of its CPU, one each way, and the CPU's own work.
  StoreHost,
  FetchHost,
  HostWork,
};

// REQUIRES: the plan has passed the scenario reader's checks. Throws InputError where the schedule
// or the layer split refuses the shape.
[[nodiscard]] Workload lower(const TrainingPlan& plan);

// What microbatches that go alike are to a program: the same in fewer or more words (Passage).
enum class Microbatches : std::uint8_t { WrittenOnce, WrittenOut };

// A workload with the place of each step of its lists.
struct SteppedWorkload {
  Workload workload;
  // By program: the operation that each step of its stage's list begins with, and at last the one
  // behind them all. Two steps that run as one block begin at the same one.
  std::vector<std::vector<OpIndex>> begins = {};
};
// With these lists, by pipeline rank, in place of the schedule's. They may be a sample of it, to be
// read rather than run. REQUIRES: no parameter servers, no model split by hand; each microbatch of
// a chunk has one backward, whole or in both parts.
[[nodiscard]] SteppedWorkload lower_steps(const TrainingPlan& plan, const ScheduleLists& lists,
                                          Microbatches microbatches = Microbatches::WrittenOnce);

// What every pipeline rank does by the plan's schedule, in order. Throws as lower().
[[nodiscard]] ScheduleLists step_lists(const TrainingPlan& plan);

// FLOPs that the kernels of all ranks execute in the step, recomputation included.
[[nodiscard]] Flops executed_flops(const Workload& workload);

}  // namespace trainyard
