// Which programs share one form, and does each keep its own kernels?
#include "sim/workload/program_forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/call_order.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// Computations with these kernels, one after the other, each with a byte of memory; the last one
// waits for the operation named.
Program computing(const std::vector<std::uint32_t>& kernels, OpIndex waits_for = 0) {
  Program program;
  program.dependencies = {waits_for};
  for (const std::uint32_t kernel : kernels) {
    const auto at = static_cast<std::uint32_t>(program.operations.size());
    program.operations.push_back({.payload = kernel, .effects_begin = at, .effects_end = at + 1});
    program.effects.push_back({.bytes = 1 + kernel});
  }
  program.operations.edit().back().dependencies_end = 1;
  return program;
}

std::vector<std::uint32_t> kernels_of(const Program& program) {
  std::vector<std::uint32_t> kernels;
  for (const Operation& op : program.operations) kernels.push_back(program.kernel_of(op));
  return kernels;
}

std::vector<Program> formed(std::vector<Program> programs) {
  FormWriter form;
  for (Program& program : programs) form.add(std::move(program));
  return form.take();
}

TEST(ProgramForms, ProgramsWithOtherKernelsAndBytesShareOne) {
  const std::vector<Program> programs = formed({computing({5, 6, 5}), computing({7, 8, 7})});
  EXPECT_TRUE(programs[0].same_form(programs[1]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(5, 6, 5));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(7, 8, 7));
  EXPECT_EQ(programs[0].effects[1].bytes, 7);
  EXPECT_EQ(programs[1].effects[1].bytes, 9);
  EXPECT_EQ(programs[0].kernels.size(), 2U);  // by number of the form
}

// Two operations with one kernel in the first program, and with two in a later one.
TEST(ProgramForms, PartNumbersWhereAProgramTellsThemApart) {
  const std::vector<Program> programs = formed({computing({1, 1, 1, 2}), computing({3, 3, 3, 3}),
                                                computing({4, 5, 4, 5}), computing({6, 7, 8, 7})});
  for (const Program& program : programs) EXPECT_TRUE(program.same_form(programs[0]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(kernels_of(programs[2]), ElementsAre(4, 5, 4, 5));
  EXPECT_THAT(kernels_of(programs[3]), ElementsAre(6, 7, 8, 7));
}

TEST(ProgramForms, WhatIsNotAlikeStaysAsItWas) {
  Program sends = computing({1, 2});
  sends.operations.edit()[1].kind = OpKind::Send;
  Program other_call = sends;
  other_call.operations.edit()[1].payload = 3;
  Program other_memory = computing({1, 2});
  other_memory.effects[1].at_end = true;
  const std::vector<Program> programs =
      formed({computing({1, 2}), computing({4, 5}, 1), sends, other_call, other_memory,
              computing({1, 2, 3}), computing({8, 9})});
  EXPECT_THAT(program_forms(programs), ElementsAre(0, 1, 2, 3, 4, 5, 0));
  EXPECT_THAT(kernels_of(programs[6]), ElementsAre(8, 9));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(4, 5));
}

TEST(ProgramForms, ProgramsWrittenByHandHaveTheirOwn) {
  std::vector<Program> programs = {computing({1}), computing({1}), {}, {}};
  programs.push_back(programs[1]);
  EXPECT_THAT(program_forms(programs), ElementsAre(0, 1, 2, 3, 1));
}

// Collectives on two streams, in order only where the second waits for the first.
TEST(ProgramForms, OneOrderServesAllOfAForm) {
  Workload workload;
  for (const std::uint32_t kernel : {0U, 1U}) {
    Program program = computing({kernel});
    program.dependencies = {0, 1};
    program.operations.edit()[0].dependencies_end = 0;
    program.operations.push_back({.kind = OpKind::Collective,
                                  .stream = 1,
                                  .slot = 0,
                                  .dependencies_begin = 0,
                                  .dependencies_end = 1,
                                  .effects_begin = 1,
                                  .effects_end = 1});
    program.operations.push_back({.kind = OpKind::Collective,
                                  .stream = 2,
                                  .slot = 1,
                                  .dependencies_begin = 1,
                                  .dependencies_end = 2,
                                  .effects_begin = 1,
                                  .effects_end = 1});
    workload.programs.push_back(program);
  }
  workload.programs = formed(std::move(workload.programs));
  ASSERT_TRUE(workload.programs[0].same_form(workload.programs[1]));
  CallOrder order(workload);
  EXPECT_TRUE(order.ordered(0, 0, 1));
  EXPECT_TRUE(order.ordered(1, 0, 1));
  EXPECT_NE(order.take_order(1), nullptr);
  EXPECT_EQ(order.take_order(0), nullptr);  // given away for both
  CallOrder given(workload);
  EXPECT_NE(given.take_order(0), nullptr);
  EXPECT_TRUE(given.ordered(0, 0, 1));
  CallOrder unkept(workload, 1);
  EXPECT_TRUE(unkept.ordered(1, 0, 1));
  EXPECT_EQ(unkept.take_order(1), nullptr);
}

}  // namespace
}  // namespace trainyard
