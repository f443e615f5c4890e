// Stages with unequal numbers of tensor ranks: each is a stage of the plan in which all have its
// number, and what one sends is what the next receives.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

struct Unequal {
  std::vector<std::int64_t> tensor;
  bool sequence_parallel = true;
  std::int64_t data = 1;
  std::int64_t interleave = 1;
  bool overlap = true;
  int zero_stage = 0;
  bool scatter_gather = true;
};

// One layer in each virtual stage, and as many microbatches as interleaving needs.
TrainingPlan unequal_plan(const Unequal& shape) {
  const auto stages = static_cast<std::int64_t>(shape.tensor.size());
  return plan_of(small_llama(stages * shape.interleave),
                 {.tensor = std::ranges::max(shape.tensor),
                  .tensor_per_stage = shape.tensor,
                  .sequence_parallel = shape.sequence_parallel,
                  .pipeline = stages,
                  .interleave = shape.interleave,
                  .data = shape.data,
                  .schedule = shape.interleave > 1 ? "interleaved_1f1b" : "1f1b",
                  .zero_stage = shape.zero_stage,
                  .scatter_gather = shape.scatter_gather,
                  .overlap_p2p = shape.overlap},
                 2 * stages);
}

const std::vector<Unequal> kUnequal = {
    {.tensor = {2, 1}},
    {.tensor = {1, 4}},
    {.tensor = {8, 2, 4}},
    {.tensor = {4, 2}, .sequence_parallel = false},
    {.tensor = {1, 2}, .sequence_parallel = false, .overlap = false},
    {.tensor = {4, 1, 2}, .data = 3},
    {.tensor = {2, 4}, .interleave = 2},
    {.tensor = {4, 2}, .interleave = 2, .overlap = false},
    {.tensor = {4, 2}, .data = 2, .zero_stage = 1},
};

// Is a message a send or receive of an activation or its gradient?
bool is_message(const Workload& workload, const OperationView& view) {
  return (view.op.kind == OpKind::Send || view.op.kind == OpKind::Recv) &&
         op_of(workload.calls[view.op.payload]) == CollectiveOp::SendRecv;
}

// The computation of a program by kernel, and its collectives by name and size, without messages.
std::map<std::string, int> work_of(const Workload& workload, const Program& program) {
  std::map<std::string, int> work;
  for_each_operation(workload, program, [&](const OperationView& view) {
    if (is_message(workload, view)) return;
    std::string what(workload.names[view.op.name]);
    if (view.op.kind == OpKind::Compute) {
      what += fmt::format(" {}", flops(workload.kernels[program.kernel_of(view.op)]).value());
    } else if (view.op.kind != OpKind::Delay) {
      what += fmt::format(" {}", bytes_of(workload.calls[view.op.payload]));
    }
    ++work[what];
  });
  return work;
}

std::int64_t memory_of(const Program& program) {
  std::int64_t bytes = 0;
  for (OpIndex op = 0; op < program.operations.size(); ++op)
    for (const MemoryEffect& effect : program.effects_of(op))
      if (effect.bytes > 0) bytes += effect.bytes;
  return bytes;
}

// Is a plan whose stages all have the same number the plan with that number?
TEST(UnequalStages, OfEqualNumbersAreThePlainPlan) {
  for (const std::int64_t tensor : {1, 4}) {
    const TrainingPlan listed = unequal_plan({.tensor = {tensor, tensor, tensor}, .data = 2});
    TrainingPlan plain = listed;
    plain.parallelism.tensor_per_stage.clear();
    const Workload a = lower(listed);
    const Workload b = lower(plain);
    ASSERT_EQ(a.ranks.size(), static_cast<std::size_t>(6 * tensor));
    ASSERT_EQ(a.ranks.size(), b.ranks.size());
    ASSERT_EQ(a.groups.size(), b.groups.size());
    EXPECT_EQ(a.slots, b.slots);
    for (std::size_t group = 0; group < a.groups.size(); ++group)
      EXPECT_EQ(a.groups[group].members, b.groups[group].members) << group;
    for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
      EXPECT_EQ(a.ranks[rank].program, b.ranks[rank].program) << rank;
      EXPECT_EQ(a.ranks[rank].label, b.ranks[rank].label) << rank;
    }
    for (std::size_t program = 0; program < a.programs.size(); ++program)
      EXPECT_EQ(work_of(a, a.programs[program]), work_of(b, b.programs[program])) << program;
  }
}

// Does each stage compute, communicate and keep what it would if all stages had its number?
TEST(UnequalStages, EachIsAStageOfItsOwnNumber) {
  int compared = 0;
  for (const Unequal& shape : kUnequal) {
    const Workload unequal = lower(unequal_plan(shape));
    for (std::size_t stage = 0; stage < shape.tensor.size(); ++stage) {
      Unequal alike = shape;
      std::ranges::fill(alike.tensor, shape.tensor[stage]);
      TrainingPlan plan = unequal_plan(alike);
      // The vocabulary is padded for the largest number of all stages: 2048 divides by 8 x 128.
      const Workload equal = lower(plan);
      ASSERT_EQ(equal.programs[stage].stage, stage);
      EXPECT_EQ(work_of(unequal, unequal.programs[stage]), work_of(equal, equal.programs[stage]))
          << compared;
      EXPECT_EQ(memory_of(unequal.programs[stage]), memory_of(equal.programs[stage])) << compared;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 20);
}

// Bytes by stage that sends and stage that receives. Fails where sender and receiver of a piece are
// bound to different groups.
std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent_bytes(const TrainingPlan& plan) {
  const RankGrid grid(plan.parallelism);
  const Workload workload = lower(plan);
  EXPECT_EQ(grid.world(), std::int64_t(workload.ranks.size()));
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent;
  std::map<GroupId, std::array<int, 2>> ends;  // operations by group and member
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const Rank& own = workload.ranks[rank];
    for_each_operation(workload, workload.programs[own.program], [&](const OperationView& view) {
      if (!is_message(workload, view)) return;
      const SlotBinding& slot = own.slots.at(view.op.slot);
      ASSERT_NE(slot.group, kNone);
      const std::vector<RankId>& members = workload.groups[slot.group].members;
      ++ends[slot.group][slot.group_rank];
      EXPECT_EQ(slot.group_rank, view.op.kind == OpKind::Send ? 0U : 1U);
      if (view.op.kind == OpKind::Send)
        sent[{grid.position(members[0]).pipeline, grid.position(members[1]).pipeline}] +=
            bytes_of(workload.calls[view.op.payload]);
    });
  }
  for (const auto& [group, count] : ends) EXPECT_EQ(count[0], count[1]);
  return sent;
}

// Does every border carry each activation and each gradient once, in equal pieces? A microbatch has
// 128 tokens of 256 numbers of 2 bytes. Sender and receiver bind a piece to the same group, whose
// members are consecutive stages.
TEST(UnequalStages, PassEachActivationOnOnce) {
  int borders = 0;
  for (const Unequal& shape : kUnequal) {
    const TrainingPlan plan = unequal_plan(shape);
    auto sent = sent_bytes(plan);
    const std::int64_t activation = 128 * 256 * 2;
    const std::int64_t stages = plan.parallelism.pipeline;
    const std::int64_t all = activation * plan.microbatches() * shape.data;
    for (std::int64_t stage = 0; stage + 1 < stages; ++stage, ++borders) {
      // With two stages, the ring of interleaved chunks has both of its borders between them.
      const bool both = stages == 2 && shape.interleave > 1;
      const std::int64_t times = both ? 2 * shape.interleave - 1 : shape.interleave;
      EXPECT_EQ((sent[{stage, stage + 1}]), all * times) << borders;
      EXPECT_EQ((sent[{stage + 1, stage}]), all * times) << borders;
    }
  }
  EXPECT_EQ(borders, 11);
}

// Where tensor ranks send whole activations, a border between unequal stages has parts all the
// same: ranks of the smaller stage would receive the whole several times.
TEST(UnequalStages, SplitActivationsBetweenUnequalStagesOnly) {
  const TrainingPlan plan =
      unequal_plan({.tensor = {4, 2, 2}, .sequence_parallel = false, .scatter_gather = false});
  auto sent = sent_bytes(plan);
  const std::int64_t all = 128 * 256 * 2 * plan.microbatches();
  EXPECT_EQ((sent[{0, 1}]), all);
  EXPECT_EQ((sent[{1, 2}]), 2 * all);
  const Workload workload = lower(plan);
  const auto gathers = [&](std::size_t stage) {
    int count = 0;
    for_each_operation(workload, workload.programs[stage], [&](const OperationView& view) {
      count += view.name == "scatter_gather_all_gather" ? 1 : 0;
    });
    return count;
  };
  EXPECT_EQ(gathers(0), plan.microbatches()) << "of gradients";
  EXPECT_EQ(gathers(1), plan.microbatches()) << "of activations";
  EXPECT_EQ(gathers(2), 0);
}

// How long do the messages of one microbatch take? From two tensor ranks to one, each of them sends
// its half; the one rank receives both, one after the other. With d seconds a message, forward and
// backward of one microbatch have two messages each on the critical path: (F + B) * 2 + 4 d.
TEST(UnequalStages, OneRankTakesThePiecesInTurn) {
  TrainingPlan plan = unequal_plan({.tensor = {2, 1}});
  plan.training.global_batch_size = 1;
  const double message = 0.25;
  const CallModel communication(
      [=](const Call& call) { return op_of(call) == CollectiveOp::SendRecv ? message : 0.0; });
  for (const bool fold : {true, false}) {
    const Step step = replay(lower(plan), communication, core_seconds(1.0, 2.0),
                             {.engine = "ideal", .fold = fold});
    EXPECT_NEAR(step.timeline.makespan_s, 2.0 * 3.0 + 4.0 * message, 1e-9);
  }
}

// Do folded and unfolded steps agree, on both engines, and so does the reference engine?
TEST(UnequalStages, FoldedIsUnfolded) {
  const CallModel communication([](const Call& call) {
    return op_of(call) == CollectiveOp::SendRecv ? 1e-2 + 1e-7 * double(bytes_of(call)) : 1e-3;
  });
  const auto seconds = [](const Kernel& kernel) { return flops(kernel).value() * 1e-9; };
  for (const Unequal& shape : kUnequal) {
    const Workload workload = lower(unequal_plan(shape));
    const double whole =
        replay(workload, communication, seconds, {.engine = "ideal", .fold = false})
            .timeline.makespan_s;
    for (const std::string engine : {"ideal", "simgrid"}) {
      const double folded =
          replay(workload, communication, seconds, {.engine = engine}).timeline.makespan_s;
      EXPECT_NEAR(folded, whole, 1e-9 * whole) << engine;
    }
  }
}

}  // namespace
}  // namespace trainyard
