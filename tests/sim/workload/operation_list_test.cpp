// Does a list of instances of blocks read the same as one that lists all operations?
#include "sim/workload/operation_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// A list of operation 0 alone, then 1 and 2 of microbatch 4, which recur as 4 and 5 for microbatch
// 6 after operation 3 of another kind. The first of the two waits for an earlier operation, the
// second for the first.
OperationList repeating() {
  return OperationList(OperationList::Content{
      .operations =
          {{.payload = 10},
           {.payload = 11, .microbatch = 4, .dependencies_begin = 0, .dependencies_end = 1},
           {.payload = 12, .microbatch = 4, .dependencies_begin = 1, .dependencies_end = 2},
           {.payload = 13, .dependencies_begin = 2, .dependencies_end = 4}},
      .dependencies = {kBlockInput, 0, kBlockInput + 1, kBlockInput},
      .blocks = {{.begin = 0, .count = 1},
                 {.begin = 1, .count = 2, .inputs = 1},
                 {.begin = 3, .count = 1, .inputs = 2}},
      .instances = {{.first = 0, .block = 0},
                    {.first = 1, .block = 1, .bindings = 0},
                    {.first = 3, .block = 2, .bindings = 1},
                    {.first = 4, .block = 1, .microbatch = 2, .bindings = 3}},
      .bindings = {0, 2, 0, 3}});
}

// Does the list read the same in order and by number?
TEST(RepeatingList, GivesTheSameOperationsInOrderAndByNumber) {
  const OperationList list = repeating();
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(list.written().size(), 4U);
  std::vector<std::uint32_t> payloads;
  std::vector<std::int32_t> microbatches;
  OpIndex index = 0;
  for (const Operation& op : list) {
    EXPECT_EQ(op, list[index]) << index;
    EXPECT_EQ(op, list.at(index++));
    payloads.push_back(op.payload);
    microbatches.push_back(op.microbatch);
  }
  EXPECT_THAT(payloads, ElementsAre(10, 11, 12, 13, 11, 12));
  EXPECT_THAT(microbatches, ElementsAre(-1, 4, 4, -1, 6, 6));
  EXPECT_EQ(list.front().payload, 10U);
  EXPECT_EQ(list.back().microbatch, 6);
  EXPECT_THROW((void)list.at(6), std::out_of_range);
}

// Is a gap between two instances refused? An operation would be of neither.
TEST(RepeatingList, InstancesFollowOneAnother) {
  const auto twice = [](OpIndex second) {
    return OperationList(OperationList::Content{
        .operations = {{.payload = 10}},
        .dependencies = {},
        .blocks = {{.begin = 0, .count = 1}},
        .instances = {{.first = 0, .block = 0}, {.first = second, .block = 0}},
        .bindings = {}});
  };
  EXPECT_EQ(twice(1).size(), 2U);
  EXPECT_THROW((void)twice(2), InternalError);
}

// Does every instance bind its own inputs?
TEST(RepeatingList, EveryInstanceBindsInputsOfItsOwn) {
  const OperationList list = repeating();
  const auto inputs = [&](OpIndex op) {
    const Dependencies found = list.dependencies_of(op);
    return std::vector(found.begin(), found.end());
  };
  EXPECT_THAT(inputs(0), ElementsAre());
  EXPECT_THAT(inputs(1), ElementsAre(0));
  EXPECT_THAT(inputs(2), ElementsAre(1));
  EXPECT_THAT(inputs(3), ElementsAre(0, 2));
  EXPECT_THAT(inputs(4), ElementsAre(3));
  EXPECT_THAT(inputs(5), ElementsAre(4));
}

// Does a change of a block change all its instances?
TEST(RepeatingList, AChangeOfABlockIsOneOfAllItsInstances) {
  OperationList list = repeating();
  const OperationList before = list;
  EXPECT_TRUE(list.shares_with(before));
  list.edit()[1].payload = 7;
  EXPECT_EQ(list[1].payload, 7U);
  EXPECT_EQ(list[4].payload, 7U);
  EXPECT_EQ(before[4].payload, 11U);
  EXPECT_FALSE(list.shares_with(before));
}

// Does another arrangement share the blocks?
TEST(RepeatingList, AnotherArrangementSharesTheBlocks) {
  const OperationList known = repeating();
  OperationList list = known.rearranged({{.first = 0, .block = 1, .microbatch = 3, .bindings = 0},
                                         {.first = 2, .block = 0, .microbatch = 5},
                                         {.first = 3, .block = 1, .microbatch = 4, .bindings = 1}},
                                        {0, 2});
  ASSERT_EQ(list.size(), 5U);
  EXPECT_TRUE(list.shares_blocks_with(known));
  EXPECT_FALSE(list.shares_with(known));
  EXPECT_EQ(list[0].microbatch, 7);
  EXPECT_EQ(list[2].microbatch, -1);  // of no microbatch in any instance
  EXPECT_EQ(list[4].payload, 12U);
  EXPECT_EQ(*list.dependencies_of(3).begin(), 2U);
  list.edit()[1].payload = 7;
  EXPECT_EQ(list[3].payload, 7U);
  EXPECT_EQ(known[1].payload, 11U);
  EXPECT_FALSE(list.shares_blocks_with(known));
}

// Does the list find every operation when it is long? It is longer than the interval at which a
// list remembers its instances.
TEST(OperationList, FindsEveryOperationOfALongList) {
  OperationList::Content content;
  OpIndex next = 0;
  for (std::uint32_t number = 0; number < 200; ++number) {
    const std::uint32_t block = number % 50;
    if (number == block) {
      content.blocks.push_back(
          {.begin = static_cast<OpIndex>(content.operations.size()), .count = 1 + block * 7 % 50});
      for (OpIndex i = 0; i < content.blocks.back().count; ++i)
        content.operations.push_back({.payload = i, .microbatch = 0});
    }
    content.instances.push_back(
        {.first = next, .block = block, .microbatch = static_cast<std::int32_t>(number)});
    next += content.blocks[block].count;
  }
  const OperationList list(content);
  ASSERT_EQ(list.size(), next);
  OpIndex index = 0;
  for (const Instance& instance : list.instances()) {
    for (OpIndex i = 0; i < list.block_of(instance).count; ++i, ++index) {
      EXPECT_EQ(list[index].payload, i);
      EXPECT_EQ(list[index].microbatch, instance.microbatch);
    }
  }
}

// Is a list made by hand one block?
TEST(OperationList, AListMadeByHandIsOneBlock) {
  OperationList list;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.instances().empty());
  EXPECT_EQ(list.begin(), list.end());
  list.push_back({.payload = 1});
  list.push_back({.payload = 2, .microbatch = 3}, std::vector<OpIndex>{0});
  EXPECT_THAT(list.instances(), ElementsAre(Instance{}));
  EXPECT_THAT(list.blocks(), ElementsAre(Block{.count = 2}));
  EXPECT_EQ(list[1].microbatch, 3);
  EXPECT_THAT(list.dependencies_of(1), ElementsAre(0));
}

}  // namespace
}  // namespace trainyard
