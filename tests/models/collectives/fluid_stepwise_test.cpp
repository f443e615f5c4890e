// The fluid model of a collective against its messages, both run through the engines.
//
// In step-synchronous algorithms with equal bytes, where a link serves one message of a step (or
// all equally), every step ends for all at once, so sums of steps and one flow of all bytes take
// the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/engine/engine.hpp"
#include "test_clusters.hpp"
#include "test_workloads.hpp"

namespace trainyard {
namespace {

using namespace testing;

double makespan_us(const Cluster& cluster, const Workload& workload, std::string_view engine) {
  const CollectiveTransport transport(cluster);
  const Partition partition = fold(cluster, workload, transport, {.enabled = false});
  const std::vector<double> kernel_seconds(workload.kernels.size(), 0.0);
  const EngineInput input{.cluster = cluster,
                          .workload = workload,
                          .partition = partition,
                          .kernel_seconds = kernel_seconds,
                          .progress = {}};
  return 1e6 * make_engine(engine)->run(input).makespan_s;
}

struct Pair {
  double fluid = 0.0;
  double stepwise = 0.0;
};

Pair run_both(const Cluster& cluster, const Workload& workload, std::string_view engine) {
  return {.fluid = makespan_us(cluster, workload, engine),
          .stepwise = makespan_us(cluster, expand_collectives(workload, cluster), engine)};
}

struct Row {
  CollectiveOp op;
  const char* name;
  bool shares_ports;  // several messages of a sender at once: needs an engine with contention
};

constexpr Row kRows[] = {
    {CollectiveOp::AllReduce, "ring", false},
    {CollectiveOp::AllReduce, "hierarchical", false},
    {CollectiveOp::AllReduce, "recursive_doubling", false},
    {CollectiveOp::AllReduce, "halving_doubling", false},
    {CollectiveOp::AllReduce, "one_shot", true},
    {CollectiveOp::AllReduce, "two_shot", true},
    {CollectiveOp::AllGather, "ring", false},
    {CollectiveOp::ReduceScatter, "ring", false},
    {CollectiveOp::Broadcast, "chain", false},
    {CollectiveOp::Reduce, "chain", false},
    {CollectiveOp::AllToAll, "pairwise", false},
    {CollectiveOp::AllToAll, "direct", true},
};

TEST(FluidStepwise, AgreeOnASwitch) {
  for (const std::uint32_t n : {2U, 4U, 8U}) {
    const Cluster cluster = make_cluster({.gpus = n, .launch_us = 8.4});
    for (const std::int64_t bytes :
         {std::int64_t{1} << 10, std::int64_t{1} << 26, std::int64_t{1} << 33}) {
      for (const Row& row : kRows) {
        const Workload workload = one_collective(gpus_of(n), row.op, bytes, row.name);
        const Pair times = run_both(cluster, workload, row.shares_ports ? "simgrid" : "ideal");
        EXPECT_RELATIVE(times.stepwise, times.fluid)
            << to_string(row.op) << " " << row.name << ", " << n << " ranks, " << bytes << " bytes";
      }
    }
  }
}

// The ideal engine gives the oracle itself, and contention changes nothing where there is none.
TEST(FluidStepwise, BothEnginesGiveTheClosedForm) {
  const Cluster cluster = star(8);
  const Workload workload =
      one_collective(gpus_of(8), CollectiveOp::AllReduce, std::int64_t{1} << 30, "ring");
  for (const char* engine : {"ideal", "simgrid"}) {
    const Pair times = run_both(cluster, workload, engine);
    EXPECT_RELATIVE(times.fluid, 18860.481920) << engine;
    EXPECT_RELATIVE(times.stepwise, 18860.481920) << engine;
  }
}

TEST(FluidStepwise, AgreeOnAnyNumberOfRanks) {
  for (const std::uint32_t n : {3U, 5U, 6U, 7U}) {
    const Workload workload =
        one_collective(gpus_of(n), CollectiveOp::AllReduce, 210000000, "ring");
    const Pair times = run_both(star(n), workload, "simgrid");
    EXPECT_RELATIVE(times.stepwise, times.fluid) << n << " ranks";
  }
}

TEST(FluidStepwise, HierarchicalAgreesAcrossNodes) {
  const Cluster cluster = make_cluster(
      {.nodes = 4, .gpus = 8, .nvlink = 370.8e9, .nic = 48.5e9, .intra_us = 4.0, .inter_us = 14.0});
  const Workload workload =
      one_collective(gpus_of(32), CollectiveOp::AllReduce, std::int64_t{1} << 30, "hierarchical");
  for (const char* engine : {"ideal", "simgrid"}) {
    const Pair times = run_both(cluster, workload, engine);
    EXPECT_NEAR(times.fluid, 9358.615511, 5e-6) << engine;
    EXPECT_RELATIVE(times.stepwise, times.fluid) << engine;
  }
}

// Eight sub-rings over four nodes: the NICs are the bottleneck, NVLink is shared by the sub-rings.
// With unequal links, messages of one step do not all end together, so the two agree to 0.1 %, not
// to the last bit.
TEST(FluidStepwise, SubRingsAgreeAcrossNodes) {
  const Cluster cluster = make_cluster(
      {.nodes = 4, .gpus = 8, .nvlink = 370.8e9, .nic = 40e9, .intra_us = 0.0, .inter_us = 0.0});
  const Workload workload =
      one_collective(gpus_of(32), CollectiveOp::AllReduce, std::int64_t{1} << 30, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.fluid, 1e6 * 2 * 31.0 / 32.0 * kGibibyte / 8 / 40e9);
  EXPECT_NEAR(times.stepwise, times.fluid, 1e-3 * times.fluid);
}

TEST(FluidStepwise, ARailAgrees) {
  const Cluster cluster =
      make_cluster({.nodes = 8, .gpus = 2, .nic = 48.5e9, .launch_us = 8.4, .inter_us = 14.0});
  const Workload workload = one_collective(gpus_of(8, 2), CollectiveOp::AllReduce, 1 << 28, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.stepwise, times.fluid);
}

TEST(FluidStepwise, AMeshAgrees) {
  const Cluster cluster = make_cluster({.gpus = 8, .mesh = true, .nvlink = 5e10});
  const Workload workload = one_collective(gpus_of(8), CollectiveOp::AllReduce, 3 << 28, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.stepwise, times.fluid);
}

}  // namespace
}  // namespace trainyard
