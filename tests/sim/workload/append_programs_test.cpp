// Are programs that two writers wrote numbered as one writer would have, and do templates stay
// shared?
#include "sim/workload/append_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/program_templates.hpp"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

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
  EXPECT_THAT(numbers, ElementsAre(Numbers{0, 1}, Numbers{1, 0}, Numbers{1, 0},  // as they were
                                   Numbers{1, 2}, Numbers{2, 1}, Numbers{2, 1},  //
                                   Numbers{1, 0}, Numbers{2, 0}, Numbers{2, 0}));
}

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
