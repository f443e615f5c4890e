// Is the stepwise model fast enough to be a habit? A ring all_reduce of n ranks is 2n(n-1)
// messages, each a send and a receive: 130 560 messages for 256 ranks, 2 095 104 for 1 024.
//
// The large case takes the better part of a minute, so it runs by hand:
//   test_collectives --gtest_also_run_disabled_tests --gtest_filter='StepwiseSpeed.*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "sim/engine/engine.hpp"
#include "test_clusters.hpp"
#include "test_workloads.hpp"

namespace trainyard {
namespace {

using namespace testing;

// Of this process on its core, whatever else the machine does.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

struct Played {
  double expand_s = 0.0;
  double fold_s = 0.0;
  double engine_s = 0.0;
  double makespan_s = 0.0;
  std::uint64_t operations = 0;
  [[nodiscard]] double total_s() const { return expand_s + fold_s + engine_s; }
};

Played play_ring(std::uint32_t ranks, std::string_view engine,
                 const FoldOptions& folding = {.enabled = false}) {
  const Cluster cluster = star(ranks);
  const Workload whole =
      one_collective(gpus_of(ranks), CollectiveOp::AllReduce, std::int64_t{1} << 30, "ring");
  Played played;
  std::clock_t start = std::clock();
  const Workload stepwise = expand_collectives(whole, cluster);
  played.expand_s = seconds_since(start);
  start = std::clock();
  const CollectiveTransport transport(cluster);
  const Partition partition = fold(cluster, stepwise, transport, folding);
  played.fold_s = seconds_since(start);
  start = std::clock();
  const std::vector<double> kernel_seconds(stepwise.kernels.size(), 0.0);
  const Timeline timeline = make_engine(engine)->run({.cluster = cluster,
                                                      .workload = stepwise,
                                                      .partition = partition,
                                                      .kernel_seconds = kernel_seconds,
                                                      .progress = {}});
  played.engine_s = seconds_since(start);
  played.makespan_s = timeline.makespan_s;
  played.operations = timeline.counters.operations;
  fmt::print("{} ranks on {}: expand {:.2f} s, fold {:.2f} s, engine {:.2f} s\n", ranks, engine,
             played.expand_s, played.fold_s, played.engine_s);
  return played;
}

// 2(n-1)(alpha + S/(nB)): what the messages must add up to.
void expect_ring(const Played& played, std::uint32_t ranks) {
  const double n = ranks;
  EXPECT_RELATIVE(played.makespan_s, 2.0 * (n - 1.0) * (5e-6 + kGibibyte / (n * 1e11)));
  // Of each rank: two computations, launch and join, and a send and a receive a step.
  EXPECT_EQ(played.operations, std::uint64_t{ranks} * (4U + 4U * (ranks - 1U)));
}

TEST(StepwiseSpeed, RingOf256Ranks) {
  for (const char* engine : {"ideal", "simgrid"}) {
    const Played played = play_ring(256, engine);
    expect_ring(played, 256);
    EXPECT_LT(played.total_s(), 3.0) << engine;
  }
}

// Every rank has a program of its own, so folding has nothing to join; it must not cost much.
TEST(StepwiseSpeed, FoldingARingOf256Ranks) {
  const Played played = play_ring(256, "simgrid", {.enabled = true, .drop_uncontended = true});
  expect_ring(played, 256);
  EXPECT_LT(played.total_s(), 3.0);
}

TEST(StepwiseSpeed, DISABLED_FoldingARingOf1024Ranks) {
  const Played played = play_ring(1024, "simgrid", {.enabled = true, .drop_uncontended = true});
  expect_ring(played, 1024);
  EXPECT_LT(played.total_s(), 40.0);
}

TEST(StepwiseSpeed, DISABLED_RingOf1024RanksOnTheIdealEngine) {
  const Played played = play_ring(1024, "ideal");
  expect_ring(played, 1024);
  EXPECT_LT(played.total_s(), 10.0);
}

TEST(StepwiseSpeed, DISABLED_RingOf1024RanksOnSimgrid) {
  const Played played = play_ring(1024, "simgrid");
  expect_ring(played, 1024);
  EXPECT_LT(played.total_s(), 40.0);
}

}  // namespace
}  // namespace trainyard
