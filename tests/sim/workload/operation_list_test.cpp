// A list that says once what comes again: does it read as one that is written out?
#include "sim/workload/operation_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// Operation 0 alone; 1 and 2 of microbatch 4, which come again as 4 and 5 for microbatch 6 behind 3
// of another kind. The first of the two waits for one from before, the second for the first.
class RepeatingList : public ::testing::Test {
 protected:
  RepeatingList() {
    std::vector<Operation> written{
        {.payload = 10},
        {.payload = 11, .microbatch = 4, .dependencies_begin = 0, .dependencies_end = 1},
        {.payload = 12, .microbatch = 4, .dependencies_begin = 1, .dependencies_end = 2},
        {.payload = 13, .dependencies_begin = 2, .dependencies_end = 4}};
    list = {std::move(written),
            {{.first = 0, .count = 1, .written = 0, .model = 0},
             {.first = 1,
              .count = 2,
              .written = 1,
              .base = 1,
              .outside_begin = 0,
              .outside_end = 1,
              .model = 1},
             {.first = 3, .count = 1, .written = 3, .model = 2},
             {.first = 4,
              .count = 2,
              .written = 1,
              .later = 2,
              .base = 4,
              .outside_begin = 1,
              .outside_end = 2,
              .model = 1}},
            {0, 3}};
  }

  [[nodiscard]] std::vector<OpIndex> inputs(OpIndex op) const {
    const OperationInputs found = list.inputs_of(op, dependencies.data());
    return {found.begin(), found.end()};
  }

  OperationList list;
  const std::vector<OpIndex> dependencies = {kOutsideInput, 0, 0, 2};
};

TEST_F(RepeatingList, ReadsAlikeInOrderAndByNumber) {
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

TEST_F(RepeatingList, EveryPassageHasInputsOfItsOwn) {
  EXPECT_THAT(inputs(0), ElementsAre());
  EXPECT_THAT(inputs(1), ElementsAre(0));
  EXPECT_THAT(inputs(2), ElementsAre(1));
  EXPECT_THAT(inputs(3), ElementsAre(0, 2));
  EXPECT_THAT(inputs(4), ElementsAre(3));
  EXPECT_THAT(inputs(5), ElementsAre(4));
}

TEST_F(RepeatingList, AChangeOfWhatIsWrittenIsOneOfAllThatStandsForIt) {
  const OperationList before = list;
  EXPECT_TRUE(list.shares_with(before));
  list.edit()[1].payload = 7;
  EXPECT_EQ(list[1].payload, 7U);
  EXPECT_EQ(list[4].payload, 7U);
  EXPECT_EQ(before[4].payload, 11U);
  EXPECT_FALSE(list.shares_with(before));
  EXPECT_TRUE(list.same_passages(before));
  EXPECT_FALSE(list.same_passages({{.payload = 10}}));
}

// Longer than the steps at which a list remembers its passages.
TEST(OperationList, FindsEveryOperationOfALongOne) {
  std::vector<Passage> passages;
  OpIndex next = 0;
  for (std::uint32_t number = 0; number < 200; ++number) {
    const OpIndex count = 1 + number * 7 % 50;
    passages.push_back({.first = next, .count = count, .later = static_cast<std::int32_t>(number)});
    next += count;
  }
  std::vector<Operation> written(50);
  for (std::uint32_t i = 0; i < written.size(); ++i) written[i] = {.payload = i, .microbatch = 0};
  const OperationList list(written, passages, {});
  ASSERT_EQ(list.size(), next);
  OpIndex index = 0;
  for (const Passage& passage : passages) {
    for (OpIndex i = 0; i < passage.count; ++i, ++index) {
      EXPECT_EQ(list[index].payload, i);
      EXPECT_EQ(list[index].microbatch, passage.later);
      EXPECT_EQ(list.passage_at(index), passage);
    }
  }
}

TEST(OperationList, OneMadeByHandIsOnePassage) {
  OperationList list;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.passages().empty());
  EXPECT_EQ(list.begin(), list.end());
  list.push_back({.payload = 1});
  list.push_back({.payload = 2, .microbatch = 3});
  EXPECT_THAT(list.passages(), ElementsAre(Passage{.count = 2}));
  EXPECT_EQ(list[1].microbatch, 3);
  EXPECT_EQ(std::vector<Operation>(list.begin(), list.end()), list.edit());
}

}  // namespace
}  // namespace trainyard
