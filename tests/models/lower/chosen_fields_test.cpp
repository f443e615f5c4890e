// Lowering records which field of the scenario chose the algorithm of the calls through each slot.
#include <gtest/gtest.h>

#include <string>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

std::string field_of(const Workload& workload, Slot slot, CollectiveOp op) {
  const auto found = workload.chosen_fields.find({static_cast<std::uint16_t>(slot), op});
  return found == workload.chosen_fields.end() ? "nobody" : found->second;
}

// Is the field that of the group's kind and the operation?
TEST(ChosenFields, AreThoseOfTheGroupsKindAndTheOperation) {
  TrainingPlan plan = plan_of(small_llama(2), {.tensor = 2, .data = 2}, 1);
  plan.collectives = {};
  plan.collectives.algorithm[GroupKind::Data][CollectiveOp::AllReduce] = "tree";
  const Workload workload = lower(plan);
  EXPECT_EQ(field_of(workload, Slot::Data, CollectiveOp::AllReduce),
            "/collectives/data/all_reduce");
  EXPECT_EQ(field_of(workload, Slot::Tensor, CollectiveOp::AllReduce), "/collectives/nccl");
  EXPECT_EQ(field_of(workload, Slot::Host, CollectiveOp::HostCopy), "nobody");
}

// Is the field of a dispatch the dispatcher?
TEST(ChosenFields, OfAnExchangeIsTheDispatcher) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  plan.experts.dispatcher = Dispatcher::NodeLimited;
  plan.collectives.algorithm[GroupKind::Expert][CollectiveOp::AllToAll] = "direct";
  EXPECT_EQ(field_of(lower(plan), Slot::Expert, CollectiveOp::AllToAll), "/experts/dispatcher");
  plan.experts.dispatcher = Dispatcher::AllToAll;
  EXPECT_EQ(field_of(lower(plan), Slot::Expert, CollectiveOp::AllToAll),
            "/collectives/expert/all_to_all");
}

// Is the field of a host copy the offload?
TEST(ChosenFields, OfACopyToTheHostIsTheOffload) {
  TrainingPlan plan = plan_of(small_llama(4), {}, 1);
  plan.offload = {.activations = 1.0};
  plan.host.bandwidth = BytesPerSecond{1e9};
  EXPECT_EQ(field_of(lower(plan), Slot::Host, CollectiveOp::HostCopy), "/offload");
}

}  // namespace
}  // namespace trainyard
