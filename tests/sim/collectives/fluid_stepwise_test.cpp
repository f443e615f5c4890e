// The fluid model of a collective against its messages, both run through the engines.
//
// In step-synchronous algorithms with equal bytes, where a link serves one message of a step (or
// all equally), every step ends for all ranks at once. So the sum of the steps and one flow of all
// bytes take the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "engine_run.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

struct Pair {
  double fluid = 0.0;
  double stepwise = 0.0;
};

Pair run_both(const Cluster& cluster, const Workload& workload, std::string_view engine) {
  return {
      .fluid = engine_us(cluster, workload, {.engine = engine}),
      .stepwise = engine_us(cluster, expand_collectives(workload, cluster), {.engine = engine})};
}

struct Compared {
  CollectiveOp op;
  const char* name;
  bool shares_ports;  // several messages of a sender at once: needs an engine with contention
};

constexpr Compared kRows[] = {
    {CollectiveOp::AllReduce, "ring", false},
    {CollectiveOp::AllReduce, "bidirectional_ring", true},
    {CollectiveOp::AllReduce, "multi_level", false},
    {CollectiveOp::AllReduce, "hierarchical", false},
    {CollectiveOp::AllReduce, "recursive_doubling", false},
    {CollectiveOp::AllReduce, "halving_doubling", false},
    {CollectiveOp::AllReduce, "one_shot", true},
    {CollectiveOp::AllReduce, "two_shot", true},
    {CollectiveOp::AllGather, "ring", false},
    {CollectiveOp::AllGather, "direct", true},
    {CollectiveOp::AllGather, "hierarchical", false},
    {CollectiveOp::AllGather, "pat", true},
    {CollectiveOp::ReduceScatter, "ring", false},
    {CollectiveOp::ReduceScatter, "direct", true},
    {CollectiveOp::ReduceScatter, "hierarchical", false},
    {CollectiveOp::ReduceScatter, "pat", true},
    {CollectiveOp::Broadcast, "chain", false},
    {CollectiveOp::Reduce, "chain", false},
    {CollectiveOp::AllToAll, "pairwise", false},
    {CollectiveOp::AllToAll, "direct", true},
};

// Do both models agree on a switch?
TEST(FluidStepwise, AgreeOnASwitch) {
  for (const std::uint32_t n : {2U, 4U, 8U}) {
    const Cluster cluster = make_cluster({.gpus = n, .launch_us = 8.4});
    for (const std::int64_t bytes :
         {std::int64_t{1} << 10, std::int64_t{1} << 26, std::int64_t{1} << 33}) {
      for (const Compared& row : kRows) {
        const Workload workload = one_collective(gpus_of(n), row.op, bytes, row.name);
        const Pair times = run_both(cluster, workload, row.shares_ports ? "simgrid" : "ideal");
        EXPECT_RELATIVE(times.stepwise, times.fluid)
            << to_string(row.op) << " " << row.name << ", " << n << " ranks, " << bytes << " bytes";
      }
    }
  }
}

// The ranks, sizes and messages that are played by default, and all of them with TRAINYARD_FULL=1:
// a ring of 64 ranks has 8 064 messages, a tree all_reduce of 32 ranks of one node many more.
struct Played {
  std::vector<std::uint32_t> ranks = {2, 3, 4, 8, 13};
  std::size_t messages_most = 3000;
  std::uint32_t pieces_most = 5000;

  [[nodiscard]] std::vector<std::int64_t> sizes(std::uint32_t n) const {
    constexpr std::int64_t kKib = 1024;
    constexpr std::int64_t kMost = 8 * kKib * kKib * kKib;
    if (n > 8) return {kKib, kMost};
    return {kKib, kKib * kKib, kMost};
  }
};

Played played() {
  if (std::getenv("TRAINYARD_FULL") == nullptr) return {};
  return {.ranks = {2, 3, 4, 8, 13, 32, 64}, .messages_most = 20000, .pieces_most = 20000};
}

// Does every algorithm keep its bound? Each algorithm of the registry states how far its two forms
// may differ (fluid_bound); step-synchronous ones state 0.1 %. This holds for any number of ranks,
// a power of two or not.
TEST(FluidStepwise, EveryRowKeepsItsBound) {
  const Played chosen = played();
  std::size_t runs = 0;
  for (const std::uint32_t n : chosen.ranks) {
    const Cluster cluster = make_cluster({.gpus = n, .launch_us = 8.4});
    const std::vector<std::uint32_t> gpus = gpus_of(n);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (algorithm->op() == CollectiveOp::SendRecv || algorithm->refusal(placed)) continue;
      if (algorithm->pieces(placed) > chosen.pieces_most) continue;
      const FluidBound bound = algorithm->fluid_bound(placed);
      EXPECT_FALSE(bound.reason.empty());
      const std::string name(algorithm->name());
      for (const std::int64_t bytes : chosen.sizes(n)) {
        const Bytes size{static_cast<double>(bytes)};
        if (algorithm->messages(placed, size).size() > chosen.messages_most) continue;
        const Workload workload = one_collective(gpus, algorithm->op(), bytes, name.c_str());
        const Pair times = run_both(cluster, workload, "simgrid");
        EXPECT_NEAR(times.stepwise, times.fluid, bound.relative * times.fluid)
            << to_string(algorithm->op()) << " " << name << ", " << n << " ranks, " << bytes
            << " bytes";
        ++runs;
      }
    }
  }
  // At least 14 algorithms refuse no group on one switch and have few messages: rings, doubling,
  // direct exchanges, PAT. Three sizes of up to eight ranks and two of 13 make 14 cases for each.
  EXPECT_GE(runs, 14U * 14U);
}

// Do both engines give the closed form? The ideal engine gives the oracle itself, and SimGrid
// agrees without contention.
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

// Do both models agree for any number of ranks?
TEST(FluidStepwise, AgreeOnAnyNumberOfRanks) {
  for (const std::uint32_t n : {3U, 5U, 6U, 7U}) {
    const Workload workload =
        one_collective(gpus_of(n), CollectiveOp::AllReduce, 210000000, "ring");
    const Pair times = run_both(star(n), workload, "simgrid");
    EXPECT_RELATIVE(times.stepwise, times.fluid) << n << " ranks";
  }
}

// Do both models of the hierarchical algorithm agree across nodes?
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

// Do both models of the multi-level algorithm agree across leaves? Each level is step-synchronous,
// and its links serve one line equally.
TEST(FluidStepwise, LevelsAgreeAcrossLeaves) {
  const Cluster cluster = make_cluster({.nodes = 8,
                                        .gpus = 2,
                                        .nic = 48.5e9,
                                        .intra_us = 4.0,
                                        .inter_us = 14.0,
                                        .nodes_per_leaf = 4,
                                        .trunk = 2e11});
  for (const CollectiveOp op :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
    const Workload workload = one_collective(gpus_of(16), op, std::int64_t{1} << 30, "multi_level");
    const Pair times = run_both(cluster, workload, "simgrid");
    EXPECT_RELATIVE(times.stepwise, times.fluid) << to_string(op);
  }
}

// Do both models of sub-rings agree across nodes? With four sub-rings over four nodes the NICs are
// the bottleneck, and the sub-rings share NVLink. With unequal links, messages of one step do not
// all end together, so the two agree to 0.1 % and not to the last bit.
TEST(FluidStepwise, SubRingsAgreeAcrossNodes) {
  const Cluster cluster = make_cluster(
      {.nodes = 4, .gpus = 4, .nvlink = 370.8e9, .nic = 40e9, .intra_us = 0.0, .inter_us = 0.0});
  const Workload workload =
      one_collective(gpus_of(16), CollectiveOp::AllReduce, std::int64_t{1} << 30, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.fluid, 1e6 * 2 * 15.0 / 16.0 * kGibibyte / 4 / 40e9);
  EXPECT_NEAR(times.stepwise, times.fluid, 1e-3 * times.fluid);
}

// Do both models of a chain agree across nodes of several ranks? The second of two chains over four
// nodes of two begins with the root and ends at the other rank of its node: it crosses nodes four
// times and stays within one three times. For a few bytes 4 x 14 + 3 x 3.4 = 66.2 us.
TEST(FluidStepwise, AChainAgreesAcrossNodes) {
  const Cluster cluster =
      make_cluster({.nodes = 4, .gpus = 2, .nic = 48.5e9, .intra_us = 3.4, .inter_us = 14.0});
  for (const CollectiveOp op : {CollectiveOp::Broadcast, CollectiveOp::Reduce}) {
    const Pair few = run_both(cluster, one_collective(gpus_of(8), op, 128, "chain"), "simgrid");
    EXPECT_NEAR(few.fluid, 66.2, 0.01) << to_string(op);
    EXPECT_NEAR(few.stepwise, few.fluid, 0.01) << to_string(op);
    const Workload large = one_collective(gpus_of(8), op, std::int64_t{1} << 30, "chain");
    const Pair times = run_both(cluster, large, "simgrid");
    EXPECT_NEAR(times.stepwise, times.fluid, 0.02 * times.fluid) << to_string(op);
  }
}

// Do both models agree on a rail?
TEST(FluidStepwise, ARailAgrees) {
  const Cluster cluster =
      make_cluster({.nodes = 8, .gpus = 2, .nic = 48.5e9, .launch_us = 8.4, .inter_us = 14.0});
  const Workload workload = one_collective(gpus_of(8, 2), CollectiveOp::AllReduce, 1 << 28, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.stepwise, times.fluid);
}

// Do both models agree on a mesh?
TEST(FluidStepwise, AMeshAgrees) {
  const Cluster cluster = make_cluster({.gpus = 8, .mesh = true, .nvlink = 5e10});
  const Workload workload = one_collective(gpus_of(8), CollectiveOp::AllReduce, 3 << 28, "ring");
  const Pair times = run_both(cluster, workload, "simgrid");
  EXPECT_RELATIVE(times.stepwise, times.fluid);
}

}  // namespace
}  // namespace trainyard
