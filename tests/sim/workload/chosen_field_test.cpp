// An error about a call names the field that chose its algorithm: the call's own field, although
// another field may choose the algorithm of an equal call of another group.
#include <gtest/gtest.h>

#include "sim/workload/workload.hpp"

namespace trainyard {
namespace {

Workload two_groups() {
  return {.calls = {CollectiveCall{.bytes = 10}, CollectiveCall{.op = CollectiveOp::AllGather}},
          .groups = {{.members = {0}}, {.kind = GroupKind::Data, .members = {0}}},
          .ranks = {{.slots = {{.group = 0}, {.group = 1}}}},
          .chosen_fields = {{{0, CollectiveOp::AllReduce}, "/collectives/tensor/all_reduce"},
                            {{1, CollectiveOp::AllReduce}, "/collectives/data/all_reduce"}}};
}

// Is the field that of the group's slot?
TEST(ChosenField, IsThatOfTheGroupsSlot) {
  const Workload workload = two_groups();
  EXPECT_EQ(chosen_field(workload, 0, workload.calls[0]), "/collectives/tensor/all_reduce");
  EXPECT_EQ(chosen_field(workload, 1, workload.calls[0]), "/collectives/data/all_reduce");
}

// Is the field empty where none chose?
TEST(ChosenField, IsEmptyForADefaultAlgorithm) {
  const Workload workload = two_groups();
  EXPECT_EQ(chosen_field(workload, 1, workload.calls[1]), "");
  EXPECT_EQ(chosen_field({.groups = {{}}}, 0, workload.calls[0]), "");
}

}  // namespace
}  // namespace trainyard
