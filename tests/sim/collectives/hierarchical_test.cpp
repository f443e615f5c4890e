#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

const CollectiveAlgorithm& hierarchical() {
  return *find_algorithm(CollectiveOp::AllReduce, "hierarchical");
}

// Does the hierarchical all_reduce take its closed form (oracle 8: 2(g-1)(a_i + S/(g B_i)) +
// 2(N-1)(a_e + S/(g N B_e)))?
TEST(Hierarchical, TakesTheClosedForm) {
  const double time =
      microseconds(four_nodes(), CollectiveOp::AllReduce, "hierarchical", gpus_of(32), kGibibyte);
  const double closed = 1e6 * (2 * 7 * (4e-6 + kGibibyte / (8 * 370.8e9)) +
                               2 * 3 * (14e-6 + kGibibyte / (8 * 4 * 48.5e9)));
  EXPECT_RELATIVE(time, closed);
  EXPECT_NEAR(time, 9358.615511, 5e-7);  // as many digits as the oracle has
}

// Does it have one multi-link flow per node and per rail?
TEST(Hierarchical, HasAFlowPerNodeAndPerRail) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const auto phases = hierarchical().phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].flows.size(), 4U);
  EXPECT_EQ(phases[1].flows.size(), 8U);
  EXPECT_EQ(phases[2].flows.size(), 4U);
}

// Are NVLink and NICs loaded as in the textbook: NVLink with 2(g-1)/g * S, a NIC with
// 2(N-1)/N * S/g?
TEST(Hierarchical, LoadsNvlinkAndNicsAsTheTextbookSays) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const auto bytes = bytes_on_links(
      cluster, hierarchical().phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte}));
  std::size_t wires = 0;
  std::size_t ports = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NvLink) {
      EXPECT_RELATIVE(bytes[link.id], 2 * 7.0 / 8.0 * kGibibyte);
      ++wires;
    }
    if (link.kind == LinkKind::NicPort) {
      EXPECT_RELATIVE(bytes[link.id], 2 * 3.0 / 4.0 * kGibibyte / 8.0);
      ++ports;
    }
  }
  EXPECT_EQ(wires, 2U * 32U) << "to the switch and back";
  EXPECT_EQ(ports, 2U * 32U);
}

// Is it the ring on one node or one rail?
TEST(Hierarchical, IsTheRingOnOneNodeOrOneRail) {
  const Cluster cluster = four_nodes();
  for (const auto& gpus : {gpus_of(8), gpus_of(4, 8)}) {
    EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "hierarchical", gpus, 1e8),
                    microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus, 1e8));
  }
}

// Are uneven nodes refused?
TEST(Hierarchical, RefusesUnevenNodes) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus{0, 1, 2, 8, 9};
  EXPECT_EQ(hierarchical().refusal({.cluster = cluster, .gpus = gpus}),
            "hierarchical needs the same number of ranks on every node, here 2 to 3");
}

}  // namespace
}  // namespace trainyard
