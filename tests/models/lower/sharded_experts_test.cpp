// Experts in several sharded copies of a model (HSDP) and kept in parts between forward and
// backward (ZeRO++ hpZ): the ranks, the bytes, the memory.
#include <gtest/gtest.h>

#include <map>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/options.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

using Members = std::vector<RankId>;

Members group_of(const Workload& workload, RankId rank, Slot slot) {
  const GroupId group = workload.ranks[rank].slots.at(number(slot)).group;
  return group == kNone ? Members{rank} : workload.groups.at(group).members;
}

// Eight replicas of the model and two EP ranks: every expert is on four ranks.
TrainingPlan plan_with(std::int64_t zero, std::int64_t shard, std::int64_t reshard = 0) {
  return plan_of(small_moe(3),
                 {.data = 8,
                  .expert = 2,
                  .expert_tensor = 1,
                  .zero_stage = zero,
                  .shard = shard,
                  .reshard_group = reshard},
                 2);
}

// Does a sharded copy have its part of the experts' replicas?
TEST(ShardedExperts, ACopyHasItsPartOfTheirReplicas) {
  const Parallelism p{.data = 64, .expert = 8, .expert_tensor = 1, .zero_stage = 3, .shard = 16};
  const ShardSlots slots = expert_shard_slots(p, Slot::ExpertData);
  EXPECT_EQ(slots.shards, 2);
  EXPECT_EQ(slots.replicas, 4);
  const Workload workload = lower(plan_with(3, 4));
  EXPECT_EQ(group_of(workload, 1, Slot::ExpertData), (Members{1, 3, 5, 7}));
  EXPECT_EQ(group_of(workload, 1, Slot::ExpertShard), (Members{1, 3}));
  EXPECT_EQ(group_of(workload, 1, Slot::ExpertReplica), (Members{1, 5}));
  EXPECT_EQ(group_of(workload, 1, Slot::Shard), (Members{0, 1, 2, 3}));
  EXPECT_EQ(group_of(lower(plan_with(3, 8, 4)), 1, Slot::ExpertReshard), (Members{1, 3}));
}

struct Sent {
  double gathered = 0.0;
  double scattered = 0.0;
  double added_up = 0.0;  // all_reduce among the copies
};

// The bytes that rank 0 sends for its experts' weights and gradients.
Sent sent_by_experts(const TrainingPlan& plan) {
  const Workload workload = lower(plan);
  Sent bytes;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.op.kind != OpKind::Collective) return;
    const auto slot = static_cast<Slot>(view.op.slot);
    if (slot != Slot::ExpertShard && slot != Slot::ExpertReplica && slot != Slot::ExpertData &&
        slot != Slot::ExpertReshard)
      return;
    const Call& call = workload.calls[view.op.payload];
    const double each = sent(call, std::ssize(group_of(workload, 0, slot)));
    if (op_of(call) == CollectiveOp::AllGather) bytes.gathered += each;
    if (op_of(call) == CollectiveOp::ReduceScatter) bytes.scattered += each;
    if (op_of(call) == CollectiveOp::AllReduce) bytes.added_up += each;
  });
  return bytes;
}

std::int64_t expert_parameters(const TrainingPlan& plan) {
  return chunk_weights(weight_options(plan), {0, plan.architecture.layers, true, true})
      .expert_parameters();
}

// Is the volume that of the formula? s shards in r copies, E parameters, m microbatches: gathered m
// 2 (s-1)/s 2E with ZeRO 3 and (s-1)/s 2E before it; reduced (s-1)/s 4E and among the copies 2
// (r-1)/r 4E/s, for each microbatch from ZeRO 2 on.
TEST(ShardedExperts, Volume) {
  for (const std::int64_t zero : {1, 2, 3}) {
    for (const std::int64_t shard : {2, 4, 8}) {
      const TrainingPlan plan = plan_with(zero, shard);
      const auto all = static_cast<double>(expert_parameters(plan));
      const double shards = static_cast<double>(shard) / 2.0;
      const double copies = 8.0 / static_cast<double>(shard);
      const double reductions = zero > 1 ? 2.0 : 1.0;
      const double gathers = zero == 3 ? 4.0 : 1.0;
      const double share = (shards - 1.0) / shards;
      const Sent bytes = sent_by_experts(plan);
      EXPECT_DOUBLE_EQ(bytes.gathered, gathers * share * 2.0 * all) << zero << ' ' << shard;
      EXPECT_DOUBLE_EQ(bytes.scattered, reductions * share * 4.0 * all) << zero << ' ' << shard;
      EXPECT_DOUBLE_EQ(bytes.added_up,
                       reductions * 2.0 * (copies - 1.0) / copies * 4.0 * all / shards)
          << zero << ' ' << shard;
    }
  }
}

// Does keeping weights between forward and backward reduce the gathers? An expert that is kept over
// the ranks of 4 replicas is gathered from 2 for the backward, not from 4; kept over those of 2 it
// is whole on each of them, and the backward gathers nothing.
TEST(ShardedExperts, KeptBetweenForwardAndBackward) {
  const auto all = static_cast<double>(expert_parameters(plan_with(3, 0)));
  const auto gathered = [](std::int64_t reshard) {
    return sent_by_experts(plan_with(3, 0, reshard)).gathered;
  };
  EXPECT_DOUBLE_EQ(gathered(0), 2.0 * 2.0 * 3.0 / 4.0 * 2.0 * all);
  EXPECT_DOUBLE_EQ(gathered(4), 2.0 * (3.0 / 4.0 + 1.0 / 2.0) * 2.0 * all);
  EXPECT_DOUBLE_EQ(gathered(2), 2.0 * 3.0 / 4.0 * 2.0 * all);
}

std::vector<TrainingPlan> plans() {
  std::vector<TrainingPlan> all;
  for (const std::int64_t zero : {1, 2, 3})
    for (const std::int64_t shard : {2, 4, 8}) all.push_back(plan_with(zero, shard));
  for (const std::int64_t reshard : {2, 4}) all.push_back(plan_with(3, 4, reshard));
  // Tensor ranks share the replicas of an expert, while all other weights have one replica.
  all.push_back(plan_of(small_moe(3),
                        {.tensor = 4,
                         .sequence_parallel = true,
                         .data = 2,
                         .expert = 2,
                         .expert_tensor = 1,
                         .zero_stage = 3,
                         .shard = 1},
                        2));
  return all;
}

// Is all memory freed, and do folded and unfolded runs agree?
TEST(ShardedExperts, AllMemoryComesBackAndFoldedIsUnfolded) {
  for (const TrainingPlan& plan : plans()) {
    const Step step = timed_step(plan);
    ASSERT_NO_THROW(validate(step.workload, ""));
    ASSERT_NO_THROW(check_progress(step.workload, ""));
    for (const Program& program : step.workload.programs)
      for (const std::int64_t bytes : unreturned_bytes(step.workload, program)) EXPECT_EQ(bytes, 0);
    for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
      for (const std::int64_t bytes : point.by_category) EXPECT_GE(bytes, 0);
    const double folded = step.timeline.makespan_s;
    EXPECT_NEAR(timed_step(plan, false).timeline.makespan_s, folded, 1e-9 * folded);
  }
}

// Do experts hold their share of the state? 16 bytes per parameter with ZeRO 3, divided by the
// ranks that share a copy.
TEST(ShardedExperts, HoldTheirShareOfTheState) {
  const TrainingPlan plan = plan_with(3, 4);
  const ChunkWeights weights =
      chunk_weights(weight_options(plan), {0, plan.architecture.layers, true, true});
  const Workload workload = lower(plan);
  const auto resident = resident_bytes(workload, workload.programs[0]);
  const auto state = resident[static_cast<std::size_t>(Category::Weights)] +
                     resident[static_cast<std::size_t>(Category::Gradients)] +
                     resident[static_cast<std::size_t>(Category::OptimizerState)];
  EXPECT_EQ(state, 16 * (weights.parameters() / 4 + weights.expert_parameters() / 2));
}

}  // namespace
}  // namespace trainyard
