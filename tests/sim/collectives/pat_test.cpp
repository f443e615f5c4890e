// PAT: correct on any number of ranks, in log2 n steps, with the least bytes.
#include "sim/collectives/algorithms/pat.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "sim/collectives/symbolic_check.hpp"
#include "tests/sim/collectives/test_clusters.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;

// Does every rank end with the correct result?
TEST(Pat, EveryRankEndsWithTheResultOfTheOperation) {
  for (std::uint32_t n = 2; n <= 17; ++n) {
    const Cluster cluster = make_cluster({.nodes = n, .gpus = 1});
    const auto gpus = gpus_of(n);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    for (const CollectiveAlgorithm* algorithm : {&pat_all_gather(), &pat_reduce_scatter()}) {
      EXPECT_EQ(symbolic_fault(*algorithm, placed, Bytes{1e6}).value_or(""), "") << n << " ranks";
      EXPECT_EQ(algorithm->phases(placed, Bytes{1e6}).size(),
                static_cast<std::size_t>(std::bit_width(n - 1)));
    }
  }
}

// Do steps over large distances carry few blocks?
TEST(Pat, StepsOverLargeDistancesCarryFewBlocks) {
  const std::vector<PatSend> sends = pat_sends(8);
  ASSERT_EQ(sends.size(), 3U);
  EXPECT_EQ(sends[0].distance, 4U);
  EXPECT_EQ(sends[0].blocks, 1U);
  EXPECT_EQ(sends[2].distance, 1U);
  EXPECT_EQ(sends[2].blocks, 4U);
  std::uint32_t blocks = 0;
  for (const PatSend& send : pat_sends(13)) blocks += send.blocks;
  EXPECT_EQ(blocks, 12U);
}

// Does PAT take its closed form?
TEST(Pat, ClosedForm) {
  const Cluster cluster = star(8);
  const auto gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const CollectiveAlgorithm* algorithm : {&pat_all_gather(), &pat_reduce_scatter()})
    EXPECT_RELATIVE(1e6 * time_of(cluster, algorithm->phases(placed, Bytes{kGibibyte})),
                    3 * 5.0 + 7.0 / 8.0 * kGibibyte / 1e5);
}

// Do the combined flows load the links as the single steps do?
TEST(Pat, FlowsCarryTheBytesOfTheSteps) {
  const Cluster cluster = make_cluster({.nodes = 6, .gpus = 1});
  const auto gpus = gpus_of(6);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const CollectiveAlgorithm* algorithm : {&pat_all_gather(), &pat_reduce_scatter()}) {
    const auto steps = bytes_on_links(cluster, algorithm->phases(placed, Bytes{6e6}));
    const Phase phase{.latency = {}, .flows = pat_flows(placed, algorithm->op(), 6e6)};
    const auto link_flows = bytes_on_links(cluster, {phase});
    for (std::size_t link = 0; link < steps.size(); ++link)
      EXPECT_NEAR(link_flows[link], steps[link], 1e-3);
  }
}

}  // namespace
}  // namespace trainyard::nccl
