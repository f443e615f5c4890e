// The hosts of the repository: they can be read, are ordered as expected, and count per kernel.
#include <gtest/gtest.h>

#include "models/host.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

// Does the host "none" cost nothing?
TEST(HostCosts, NoneCostsNothing) {
  const HostCosts none = load_host_costs("none");
  EXPECT_TRUE(none.free());
  EXPECT_EQ(none.seconds(Gemm{.m = 1, .n = 1, .k = 1}, StepPart::Forward).value(), 0.0);
}

// Are CUDA graphs cheaper than compiled code, and compiled code cheaper than eager code?
TEST(HostCosts, GraphsAreCheaperThanCompiledCodeThanEagerCode) {
  const Kernel kernel = Gemm{.m = 64, .n = 64, .k = 64};
  const double eager = load_host_costs("eager").seconds(kernel, StepPart::Forward).value();
  const double compiled = load_host_costs("compiled").seconds(kernel, StepPart::Forward).value();
  const double graphs = load_host_costs("cuda_graphs").seconds(kernel, StepPart::Forward).value();
  EXPECT_GT(eager, compiled);
  EXPECT_GT(compiled, graphs);
  EXPECT_GT(graphs, 0.0);
}

// Can every listed host be read?
TEST(HostCosts, EveryListedHostIsRead) {
  EXPECT_GE(host_names().size(), 6U);
  for (const std::string& name : host_names()) EXPECT_EQ(load_host_costs(name).name, name);
}

// Do operations count their kernels? A GEMM counts once, a batched GEMM of heads by its own figure,
// and a kernel of several launches as many times. Backwards have their own rate, recomputation that
// of the forward.
TEST(HostCosts, OperationsCountTheirKernels) {
  const HostCosts costs{
      .name = "test",
      .forward_kernel = Seconds{10e-6},
      .backward_kernel = Seconds{6e-6},
      .collective = Seconds{1e-6},
      .synchronize = Seconds{0.0},
      .kernels = {.gemm = 2.0, .batched_gemm = 3.0, .attention = 4.0, .norm = 5.0, .other = 1.0}};
  const auto us = [&](const Kernel& kernel, StepPart part) {
    return costs.seconds(kernel, part).value() * 1e6;
  };
  EXPECT_DOUBLE_EQ(us(Gemm{}, StepPart::Forward), 20.0);
  EXPECT_DOUBLE_EQ(us(Gemm{.batch = 8}, StepPart::Recompute), 30.0);
  EXPECT_DOUBLE_EQ(us(Attention{}, StepPart::Backward), 24.0);
  EXPECT_DOUBLE_EQ(us(MemoryBound{.kind = MemoryBoundKind::Norm}, StepPart::WeightGrad), 30.0);
  EXPECT_DOUBLE_EQ(
      us(MemoryBound{.kind = MemoryBoundKind::Optimizer, .launches = 7}, StepPart::Optimizer),
      70.0);
}

// Does an unknown name list the known hosts?
TEST(HostCosts, AnUnknownNameListsTheKnown) {
  try {
    static_cast<void>(load_host_costs("eagre"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("eager"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trainyard
