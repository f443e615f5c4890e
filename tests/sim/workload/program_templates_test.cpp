// Which programs share one template, and does each keep its own kernels?
#include "sim/workload/program_templates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/program_analysis.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// Computations with these kernels, one after the other, each with a byte of memory; the last one
// waits for the operation named.
Program computing(const std::vector<std::uint32_t>& kernels, OpIndex waits_for = 0) {
  Program program;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::vector<MemoryEffect> effects = {{.bytes = 1 + kernels[i]}};
    const bool last = i > 0 && i + 1 == kernels.size();
    program.append({.payload = kernels[i]}, last ? std::vector{waits_for} : std::vector<OpIndex>{},
                   effects);
  }
  return program;
}

std::vector<std::uint32_t> kernels_of(const Program& program) {
  std::vector<std::uint32_t> kernels;
  for (const Operation& op : program.operations) kernels.push_back(program.kernel_of(op));
  return kernels;
}

std::vector<Program> shared(std::vector<Program> programs) {
  TemplateWriter writer;
  for (Program& program : programs) writer.add(std::move(program));
  return writer.take();
}

TEST(ProgramTemplates, ProgramsWithOtherKernelsAndBytesShareOne) {
  const std::vector<Program> programs = shared({computing({5, 6, 5}), computing({7, 8, 7})});
  EXPECT_TRUE(programs[0].same_template(programs[1]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(5, 6, 5));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(7, 8, 7));
  EXPECT_EQ(programs[0].effects[1].bytes, 7);
  EXPECT_EQ(programs[1].effects[1].bytes, 9);
  EXPECT_EQ(programs[0].kernels.size(), 2U);  // by number of the template
}

// Two operations with one kernel in the first program, and with two in a later one.
TEST(ProgramTemplates, PartNumbersWhereAProgramTellsThemApart) {
  const std::vector<Program> programs = shared({computing({1, 1, 1, 2}), computing({3, 3, 3, 3}),
                                                computing({4, 5, 4, 5}), computing({6, 7, 8, 7})});
  for (const Program& program : programs) EXPECT_TRUE(program.same_template(programs[0]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(kernels_of(programs[2]), ElementsAre(4, 5, 4, 5));
  EXPECT_THAT(kernels_of(programs[3]), ElementsAre(6, 7, 8, 7));
}

TEST(ProgramTemplates, WhatIsNotAlikeStaysAsItWas) {
  Program sends = computing({1, 2});
  sends.operations.edit()[1].kind = OpKind::Send;
  Program other_call = sends;
  other_call.operations.edit()[1].payload = 3;
  Program other_memory = computing({1, 2});
  other_memory.effects[1].at_end = true;
  const std::vector<Program> programs =
      shared({computing({1, 2}), computing({4, 5}, 1), sends, other_call, other_memory,
              computing({1, 2, 3}), computing({8, 9})});
  EXPECT_THAT(program_templates(programs), ElementsAre(0, 1, 2, 3, 4, 5, 0));
  EXPECT_THAT(kernels_of(programs[6]), ElementsAre(8, 9));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(4, 5));
}

TEST(ProgramTemplates, ProgramsWrittenByHandHaveTheirOwn) {
  std::vector<Program> programs = {computing({1}), computing({1}), {}, {}};
  programs.push_back(programs[1]);
  EXPECT_THAT(program_templates(programs), ElementsAre(0, 1, 2, 3, 1));
}

// Collectives on two streams, in order only where the second waits for the first.
TEST(ProgramTemplates, OneOrderServesAllOfATemplate) {
  Workload workload;
  for (const std::uint32_t kernel : {0U, 1U}) {
    Program program = computing({kernel});
    const OpIndex first = program.append({.kind = OpKind::Collective, .stream = 1, .slot = 0},
                                         std::vector<OpIndex>{0});
    program.append({.kind = OpKind::Collective, .stream = 2, .slot = 1}, std::vector{first});
    workload.programs.push_back(program);
  }
  workload.programs = shared(std::move(workload.programs));
  ASSERT_TRUE(workload.programs[0].same_template(workload.programs[1]));
  ProgramAnalysis analysis(workload);
  EXPECT_TRUE(analysis.ordered(0, 0, 1));
  EXPECT_TRUE(analysis.ordered(1, 0, 1));
}

}  // namespace
}  // namespace trainyard
