// Which programs share one template, and does each keep its own kernels? Are the programs of two
// writers numbered as if one writer had written them, and do templates stay shared?
#include "sim/workload/program_templates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/program_analysis.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

// Computations with these kernels, one after the other, each with a byte of memory; the last one
// waits for the given operation.
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

// Do programs with other kernels and bytes share a template?
TEST(ProgramTemplates, ProgramsWithOtherKernelsAndBytesShareOne) {
  const std::vector<Program> programs = shared({computing({5, 6, 5}), computing({7, 8, 7})});
  EXPECT_TRUE(programs[0].same_template(programs[1]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(5, 6, 5));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(7, 8, 7));
  EXPECT_EQ(programs[0].effects[1].bytes, 7);
  EXPECT_EQ(programs[1].effects[1].bytes, 9);
  EXPECT_EQ(programs[0].kernels.size(), 2U);  // by number of the template
}

// Do numbers separate where a program distinguishes them? Two operations have one kernel in the
// first program, and two kernels in a later one.
TEST(ProgramTemplates, KeepTheKernelsOfEachProgram) {
  const std::vector<Program> programs = shared({computing({1, 1, 1, 2}), computing({3, 3, 3, 3}),
                                                computing({4, 5, 4, 5}), computing({6, 7, 8, 7})});
  for (const Program& program : programs) EXPECT_TRUE(program.same_template(programs[0]));
  EXPECT_THAT(kernels_of(programs[0]), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(kernels_of(programs[1]), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(kernels_of(programs[2]), ElementsAre(4, 5, 4, 5));
  EXPECT_THAT(kernels_of(programs[3]), ElementsAre(6, 7, 8, 7));
}

// Do programs that are not isomorphic stay unchanged?
TEST(ProgramTemplates, ProgramsThatDifferKeepTheirTemplates) {
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

// Is a further effect on memory part of the template? Its bytes may differ, its operation may not.
TEST(ProgramTemplates, FurtherEffectsAreOfTheSameOperation) {
  const auto with_effect = [](OpIndex op, std::int64_t bytes) {
    Program program = computing({1, 2});
    program.single_effects = {{op, {.bytes = bytes}}};
    return program;
  };
  const std::vector<Program> programs =
      shared({with_effect(0, 8), with_effect(0, 16), with_effect(1, 8)});
  EXPECT_THAT(program_templates(programs), ElementsAre(0, 0, 2));
  EXPECT_EQ(programs[1].single_effects[0].second.bytes, 16);
}

// Does each program written by hand have its own template?
TEST(ProgramTemplates, AProgramWrittenByHandHasATemplateOfItsOwn) {
  std::vector<Program> programs = {computing({1}), computing({1}), {}, {}};
  programs.push_back(programs[1]);
  EXPECT_THAT(program_templates(programs), ElementsAre(0, 1, 2, 3, 1));
}

// Does one order serve all programs of a template? The collectives are on two streams, in order
// only where the second waits for the first.
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

Kernel product(std::int64_t m) { return Gemm{.m = m, .n = 2, .k = 3}; }

// A computation, a collective and a delay.
Program three(std::uint32_t kernel, std::uint32_t call, std::uint32_t delay) {
  Program program;
  program.operations = {{.kind = OpKind::Compute, .name = 0, .payload = kernel},
                        {.kind = OpKind::Collective, .stream = 1, .name = 1, .payload = call},
                        {.kind = OpKind::Delay, .name = 1, .payload = delay}};
  return program;
}

Workload first() {
  return {.names = {"gemm", "reduce"},
          .kernels = {product(1), product(2)},
          .calls = {CollectiveCall{.bytes = 10}},
          .delays = {Seconds{1.0}},
          .programs = {three(1, 0, 0)}};
}

Workload second() {
  return {.names = {"reduce", "gather"},
          .kernels = {product(3), product(1), product(4)},
          .calls = {CollectiveCall{.bytes = 20}, CollectiveCall{.bytes = 10}},
          .delays = {Seconds{2.0}, Seconds{1.0}},
          .programs = {three(0, 0, 0), three(1, 1, 1)}};
}

// Are the numbers those of one writer?
TEST(AppendPrograms, NumbersAreThoseOfOneWriter) {
  Workload joined = first();
  append_programs(joined, second());
  EXPECT_THAT(joined.names, ElementsAre("gemm", "reduce", "gather"));
  EXPECT_THAT(joined.kernels, ElementsAre(product(1), product(2), product(3), product(4)));
  EXPECT_THAT(joined.calls,
              ElementsAre(Call{CollectiveCall{.bytes = 10}}, Call{CollectiveCall{.bytes = 20}}));
  EXPECT_THAT(joined.delays, ElementsAre(Seconds{1.0}, Seconds{2.0}));
  std::vector<std::vector<std::uint32_t>> numbers;
  for (const Program& program : joined.programs) {
    for (const Operation& op : program.operations) numbers.push_back({op.name, op.payload});
  }
  using Numbers = std::vector<std::uint32_t>;
  EXPECT_THAT(numbers, ElementsAre(Numbers{0, 1}, Numbers{1, 0}, Numbers{1, 0},  // unchanged
                                   Numbers{1, 2}, Numbers{2, 1}, Numbers{2, 1},  //
                                   Numbers{1, 0}, Numbers{2, 0}, Numbers{2, 0}));
}

// Do programs of a template still share it?
TEST(AppendPrograms, ProgramsOfATemplateShareItStill) {
  Workload more = second();
  TemplateWriter writer;
  writer.add(three(0, 1, 0));
  writer.add(three(2, 1, 0));
  more.programs = writer.take();
  Workload joined = first();
  append_programs(joined, std::move(more));
  ASSERT_EQ(joined.programs.size(), 3U);
  EXPECT_THAT(program_templates(joined.programs), ElementsAre(0, 1, 1));
  const auto kernel = [&](std::size_t program) {
    return joined
        .kernels[joined.programs[program].kernel_of(joined.programs[program].operations[0])];
  };
  EXPECT_EQ(kernel(1), product(3));
  EXPECT_EQ(kernel(2), product(4));
  EXPECT_EQ(joined.programs[2].operations[1].payload, 0U);
  EXPECT_EQ(joined.programs[2].operations[2].payload, 1U);
}

}  // namespace
}  // namespace trainyard
