// Is the order of a program the same, whether it lists all operations or consists of blocks?
#include "sim/workload/program_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "hand_workload.hpp"
#include "in_blocks.hpp"
#include "sim/base/random.hpp"
#include "sim/workload/program_analysis.hpp"

namespace trainyard {
namespace {

using test::in_blocks;
using ::testing::ElementsAre;

// Writes operations of one microbatch after the other.
class Steps {
 public:
  OpIndex add(std::uint8_t stream, std::uint32_t payload, const std::vector<OpIndex>& after = {}) {
    Operation op{.stream = stream, .payload = payload, .microbatch = microbatch_};
    return program_.append(op, after);
  }
  void next_microbatch() { ++microbatch_; }
  [[nodiscard]] OpIndex next() const { return static_cast<OpIndex>(program_.operations.size()); }
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  Program program_;
  std::int32_t microbatch_ = 0;
};

// Adds 16 operations: a message, then kernels, of which every other one waits for a collective
// after the previous kernel.
void add_microbatch(Steps& steps) {
  OpIndex awaited = steps.add(2, 0);
  for (int i = 0; i < 7; ++i) {
    const OpIndex gemm = steps.add(0, 0, {awaited});
    awaited = steps.add(1, 0, {gemm});
  }
  steps.add(0, 0, {awaited});
  steps.next_microbatch();
}

// Is a block entered through its inputs and streams? An operation that waits for an earlier
// instance waits for an input of its block.
TEST(ProgramOrder, ABlockIsEnteredThroughItsInputsAndStreams) {
  Steps steps;
  for (int i = 0; i < 3; ++i) add_microbatch(steps);
  const Program program = in_blocks(steps.program());
  ASSERT_EQ(program.operations.blocks().size(), 1U);
  const ProgramOrder order(program);
  // The operations before it on streams 2, 0 and 1.
  EXPECT_THAT(order.entry_operations(0), ElementsAre(kNone, kNone, kNone));
  EXPECT_THAT(order.entry_operations(2), ElementsAre(16, 31, 30));
  EXPECT_EQ(order.entries_of(0).edges.size(), 3U);
}

// Is a slot whose calls are on two streams in order with another only if those of both streams are?
// The first call shares a stream with the tensor group's; the second may run beside it.
TEST(ProgramAnalysis, CallsOnTwoStreamsMustBothBeInOrder) {
  Workload workload = test::empty_workload();
  test::ProgramWriter program(workload, "everyone");
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = 1'000'000};
  program.collective("a", "data", call);
  const OpIndex second = program.collective("b", "data", call);
  program.collective("a", "tensor", call);
  EXPECT_FALSE(ProgramAnalysis(workload).ordered(0, 0, 1));
  workload.programs.clear();
  test::ProgramWriter awaited(workload, "everyone");
  awaited.collective("a", "data", call);
  EXPECT_EQ(awaited.collective("b", "data", call), second);
  awaited.collective("a", "tensor", call, {second});
  EXPECT_TRUE(ProgramAnalysis(workload).ordered(0, 0, 1));
}

// For each operation, which others certainly end before it starts, computed path by path.
std::vector<std::vector<bool>> slow_order(const Program& program) {
  const std::size_t count = program.operations.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  std::vector<OpIndex> last(256, kNone);
  for (OpIndex op = 0; op < count; ++op) {
    const auto add = [&](OpIndex input) {
      for (OpIndex other = 0; other < input; ++other)
        if (before[input][other]) before[op][other] = true;
      before[op][input] = true;
    };
    const std::uint8_t stream = program.operations[op].stream;
    if (last[stream] != kNone) add(last[stream]);
    last[stream] = op;
    for (const OpIndex input : program.dependencies_of(op)) add(input);
  }
  return before;
}

struct Drawn {
  std::uint8_t stream = 0;
  std::vector<OpIndex> inside = {};  // dependencies, from the first
  bool outside = false;              // waits for an earlier operation
};

std::vector<Drawn> draw_microbatch(Random& random, OpIndex operations) {
  std::vector<Drawn> drawn(operations);
  for (OpIndex i = 0; i < operations; ++i) {
    drawn[i].stream = static_cast<std::uint8_t>(random.word() % 5);
    for (std::uint64_t inputs = random.word() % 3; i > 0 && inputs > 0; --inputs)
      drawn[i].inside.push_back(static_cast<OpIndex>(random.word() % i));
    drawn[i].outside = random.word() % 8 == 0;
  }
  return drawn;
}

// Draws microbatches of a few kinds after one operation. Their operations wait at random for
// earlier ones of other microbatches.
Program draw_program(std::uint64_t seed) {
  Random random(seed);
  const std::vector<std::vector<Drawn>> kinds = {
      draw_microbatch(random, 20), draw_microbatch(random, 17), draw_microbatch(random, 5)};
  Steps steps;
  steps.add(0, 1);
  steps.next_microbatch();
  for (int microbatch = 0; microbatch < 24; ++microbatch) {
    const OpIndex first = steps.next();
    for (const Drawn& drawn : kinds[random.word() % kinds.size()]) {
      std::vector<OpIndex> after;
      for (const OpIndex input : drawn.inside) after.push_back(first + input);
      if (drawn.outside) after.push_back(static_cast<OpIndex>(random.word() % first));
      steps.add(drawn.stream, 0, after);
    }
    steps.next_microbatch();
  }
  return steps.program();
}

// Is the order that of all paths?
TEST(ProgramOrder, EqualsTheOrderOfAllPaths) {
  std::size_t again = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Program out = draw_program(seed);
    const std::vector<std::vector<bool>> before = slow_order(out);
    for (const Program& program : {out, in_blocks(out)}) {
      const ProgramOrder order(program);
      again += program.operations.instances().size() - program.operations.blocks().size();
      for (OpIndex op = 0; op < program.operations.size(); ++op) {
        for (OpIndex other = 0; other < program.operations.size(); ++other)
          ASSERT_EQ(order.before(other, op), before[op][other])
              << seed << ": " << other << " before " << op;
      }
    }
  }
  EXPECT_GT(again, 40U);
}

// Does the order know the previous operation on a stream?
TEST(ProgramOrder, KnowsTheOperationBeforeOnEachStream) {
  const Program program = in_blocks(draw_program(3));
  const ProgramOrder order(program);
  std::vector<OpIndex> last(256, kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op)
    EXPECT_EQ(order.previous(op), std::exchange(last[program.operations[op].stream], op)) << op;
}

// Does the order derived from blocks hold in another arrangement?
TEST(ProgramOrder, WhatFollowsFromBlocksHoldsInAnotherArrangement) {
  Steps few;
  for (int i = 0; i < 2; ++i) add_microbatch(few);
  Steps many;
  for (int i = 0; i < 5; ++i) add_microbatch(many);
  const Program known = in_blocks(few.program());
  const Program alone = in_blocks(many.program());
  Program program = known;
  const OperationList::Content content = alone.operations.content();
  program.operations = known.operations.rearranged(content.instances, content.bindings);
  EXPECT_TRUE(program.operations.shares_blocks_with(known.operations));
  EXPECT_FALSE(program.operations.shares_with(known.operations));
  const ProgramOrder order(program, ProgramOrder(known).blocks());
  const ProgramOrder fresh(alone);
  for (OpIndex op = 0; op < program.operations.size(); ++op)
    for (std::size_t column = 0; column < fresh.columns(); ++column)
      ASSERT_EQ(order.after(op, column), fresh.after(op, column)) << op << " " << column;
}

}  // namespace
}  // namespace trainyard
