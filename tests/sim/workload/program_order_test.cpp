// What comes before what in a program, and which of its microbatches repeat one before?
#include "sim/workload/program_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/workload/call_order.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// Writes operations of one microbatch after the other.
class Steps {
 public:
  OpIndex add(std::uint8_t stream, std::uint32_t payload, const std::vector<OpIndex>& after = {}) {
    Operation op{.stream = stream, .payload = payload, .microbatch = microbatch_};
    op.dependencies_begin = static_cast<std::uint32_t>(program_.dependencies.size());
    program_.dependencies.append(after);
    op.dependencies_end = static_cast<std::uint32_t>(program_.dependencies.size());
    program_.operations.push_back(op);
    return static_cast<OpIndex>(program_.operations.size() - 1);
  }
  void next_microbatch() { ++microbatch_; }
  [[nodiscard]] OpIndex next() const { return static_cast<OpIndex>(program_.operations.size()); }
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  Program program_;
  std::int32_t microbatch_ = 0;
};

// 16 operations: a message, then kernels, every other one of which waits for a collective after the
// one before it. `kernel` is that of the last.
void add_microbatch(Steps& steps, std::uint32_t kernel = 0) {
  OpIndex awaited = steps.add(2, 0);
  for (int i = 0; i < 7; ++i) {
    const OpIndex gemm = steps.add(0, i == 6 ? kernel : 0, {awaited});
    awaited = steps.add(1, 0, {gemm});
  }
  steps.add(0, 0, {awaited});
  steps.next_microbatch();
}

std::vector<std::uint32_t> models(const Program& program) {
  std::vector<std::uint32_t> result;
  for (const ProgramSection& section : sections_of(program).all) result.push_back(section.model);
  return result;
}

// The first one follows nothing on its streams: no other is like it.
TEST(ProgramSections, MicrobatchesThatDoTheSameAreCopies) {
  Steps steps;
  for (const std::uint32_t kernel : {0U, 0U, 0U, 5U, 0U, 5U}) add_microbatch(steps, kernel);
  EXPECT_THAT(models(steps.program()), ElementsAre(0, 1, 1, 3, 1, 3));
  const ProgramSections sections = sections_of(steps.program());
  EXPECT_EQ(sections.all[4].first, 64U);
  EXPECT_EQ(sections.all[4].count, 16U);
  // Before it on streams 2, 0 and 1.
  EXPECT_THAT(sections.outside_of(sections.all[4]), ElementsAre(48, 63, 62));
}

TEST(ProgramSections, AreOtherWhereOneWaitsForAnotherPlaceInside) {
  Steps steps;
  for (int i = 0; i < 3; ++i) add_microbatch(steps);
  const OpIndex message = steps.add(2, 0);
  OpIndex awaited = message;
  for (int i = 0; i < 7; ++i) {
    const OpIndex gemm = steps.add(0, 0, {awaited});
    awaited = steps.add(1, 0, {gemm});
  }
  steps.add(0, 0, {message});  // not for the last collective
  EXPECT_THAT(models(steps.program()), ElementsAre(0, 1, 1, 3));
}

// What is waited for from before the section may be anything: here the message of the microbatch
// before or of the one before that.
TEST(ProgramSections, AreCopiesWhateverTheyWaitForFromBefore) {
  Steps steps;
  std::vector<OpIndex> messages;
  for (int i = 0; i < 4; ++i) {
    messages.push_back(steps.add(2, 0));
    const std::vector<OpIndex> after =
        i < 2 ? std::vector<OpIndex>{} : std::vector<OpIndex>{messages[i == 2 ? 1U : 0U]};
    for (int j = 0; j < 16; ++j) steps.add(0, 0, j == 8 ? after : std::vector<OpIndex>{});
    steps.next_microbatch();
  }
  EXPECT_THAT(models(steps.program()), ElementsAre(0, 1, 2, 2));
}

TEST(ProgramSections, MicrobatchesThatTakeTurnsStandTogether) {
  Steps steps;
  for (int i = 0; i < 40; ++i) {
    steps.add(0, 0);
    if (i % 4 == 3) steps.next_microbatch();
  }
  add_microbatch(steps);
  const ProgramSections sections = sections_of(steps.program());
  ASSERT_EQ(sections.all.size(), 2U);
  EXPECT_EQ(sections.all[0].count, 40U);
  EXPECT_FALSE(sections.all[1].copies());
}

// By operation which others surely end before it starts, path by path.
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
  bool outside = false;              // waits for something from before
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

// Microbatches of a few kinds, whose operations wait for others of before by chance.
Program draw_program(std::uint64_t seed) {
  Random random(seed);
  const std::vector<std::vector<Drawn>> kinds = {
      draw_microbatch(random, 20), draw_microbatch(random, 17), draw_microbatch(random, 5)};
  Steps steps;
  for (int microbatch = 0; microbatch < 24; ++microbatch) {
    const OpIndex first = steps.next();
    for (const Drawn& drawn : kinds[random.word() % kinds.size()]) {
      std::vector<OpIndex> after;
      for (const OpIndex input : drawn.inside) after.push_back(first + input);
      if (drawn.outside && first > 0) after.push_back(static_cast<OpIndex>(random.word() % first));
      steps.add(drawn.stream, 0, after);
    }
    steps.next_microbatch();
  }
  return steps.program();
}

TEST(ProgramOrder, IsThatOfAllPaths) {
  std::size_t copies = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Program program = draw_program(seed);
    const std::vector<std::vector<bool>> before = slow_order(program);
    const ProgramOrder order(program);
    for (const ProgramSection& section : order.sections().all) copies += section.copies() ? 1U : 0U;
    std::vector<OpIndex> row(order.columns());
    for (OpIndex op = 0; op < program.operations.size(); ++op) {
      order.write_after(op, row);
      for (std::size_t column = 0; column < row.size(); ++column)
        ASSERT_EQ(row[column], order.after(op, column)) << seed << ": " << op;
      for (OpIndex other = 0; other < program.operations.size(); ++other)
        ASSERT_EQ(order.before(other, op), before[op][other])
            << seed << ": " << other << " before " << op;
    }
  }
  EXPECT_GT(copies, 40U);
}

TEST(ProgramOrder, KnowsWhatStandsBeforeOnAStream) {
  const Program program = draw_program(3);
  const ProgramOrder order(program);
  std::vector<OpIndex> last(256, kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op)
    EXPECT_EQ(order.previous(op), std::exchange(last[program.operations[op].stream], op)) << op;
}

TEST(ProgramOrder, IsKeptForMoreThanOneWhereMicrobatchesRepeat) {
  Steps steps;
  for (int i = 0; i < 5; ++i) add_microbatch(steps);
  Workload workload;
  workload.programs = {steps.program()};
  CallOrder order(workload);
  EXPECT_NE(order.take_order(0), nullptr);
  EXPECT_EQ(order.take_order(0), order.take_order(0));
  EXPECT_EQ(order.take_order(0)->rows(), 32U);  // of the first and the second
  EXPECT_EQ(order.take_order(0)->operations(), 80U);
}

}  // namespace
}  // namespace trainyard
