#include "sim/collectives/algorithms/ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::ElementsAre;

double ring_us(CollectiveOp op, std::uint32_t n) {
  return microseconds(star(n), op, "ring", gpus_of(n), kGibibyte);
}

// Oracle 1: 2(n-1)(alpha + S/(nB)), S = 2^30, B = 100 GB/s, alpha = 5 us.
TEST(Ring, AllReduceTakesTheClosedForm) {
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 2), 10747.418240);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 4), 16136.127360);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 8), 18860.481920);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 16), 20282.659200);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 1024), 31683.864960);
}

// Oracle 2.
TEST(Ring, ReduceScatterAndAllGatherAreHalfOfAllReduce) {
  EXPECT_RELATIVE(ring_us(CollectiveOp::ReduceScatter, 8), 9430.240960);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllGather, 8), 9430.240960);
  EXPECT_RELATIVE(ring_us(CollectiveOp::ReduceScatter, 8) + ring_us(CollectiveOp::AllGather, 8),
                  ring_us(CollectiveOp::AllReduce, 8));
}

// Oracle 3: 2 * 7/8 * 2^30 bytes on each GPU's way in and way out.
TEST(Ring, AllReduceLoadsEveryLinkEqually) {
  const Cluster cluster = star(8);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  const std::vector<double> bytes = bytes_on_links(cluster, phases);
  int loaded = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::NvLink) {
      continue;
    }
    EXPECT_EQ(bytes[link.id], 1879048192.0);
    ++loaded;
  }
  EXPECT_EQ(loaded, 16);
}

// Oracle 12.
TEST(Ring, LimitsOfNoLatencyAndOfNoBytes) {
  for (const std::uint32_t n : {2U, 3U, 8U, 100U}) {
    const Cluster eager = make_cluster({.gpus = n, .intra_us = 0.0});
    const double time = microseconds(eager, CollectiveOp::AllReduce, "ring", gpus_of(n), kGibibyte);
    EXPECT_RELATIVE(time, 2e6 * kGibibyte / 1e11 * (n - 1.0) / n);
    EXPECT_LT(time, 2e6 * kGibibyte / 1e11);
    const double latency = microseconds(star(n), CollectiveOp::AllReduce, "ring", gpus_of(n), 0.0);
    EXPECT_RELATIVE(latency, 2.0 * (n - 1.0) * 5.0);
  }
}

TEST(Ring, LaunchIsPaidOnce) {
  const Cluster cluster = make_cluster({.gpus = 4, .launch_us = 8.4, .intra_us = 3.4});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(4), 0.0),
                  8.4 + 6 * 3.4);
}

// NCCL, H100 x 32 on 4 nodes, Ring Simple: 8.4 + (62 - 6) * 3.4 + 6 * 14 = 282.8 us (oracle 18).
TEST(Ring, OnlyStepsBetweenNodesCostTheNetworkLatency) {
  const Cluster cluster =
      make_cluster({.nodes = 4, .gpus = 8, .launch_us = 8.4, .intra_us = 3.4, .inter_us = 14.0});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(32), 0.0), 282.8);
  // A rail has one rank per node: every step crosses.
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(4, 8), 0.0),
                  8.4 + 6 * 14.0);
}

TEST(Ring, MembersAreVisitedNodeByNodeWhateverTheirGroupRanks) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 2});
  const std::vector<std::uint32_t> gpus{3, 0, 2,
                                        1};  // group ranks 1 and 3 on node 0, 2 and 0 on node 1
  EXPECT_THAT(rings_of({.cluster = cluster, .gpus = gpus}),
              ElementsAre(ElementsAre(1, 3, 2, 0), ElementsAre(3, 1, 0, 2)));
}

TEST(Ring, ARailIsOneRingAndANodeOneChain) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> rail = gpus_of(4, 8);
  const std::vector<std::uint32_t> node = gpus_of(8);
  EXPECT_THAT(rings_of({.cluster = cluster, .gpus = rail}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(rings_of({.cluster = cluster, .gpus = node}).size(), 1U);
}

// Reference 07 section 7: with a ring per NIC, each NIC carries 2(n-1)/n * S / g each way, and
// NVLink the whole 2(n-1)/n * S, the hop to the NIC's own GPU included.
TEST(Ring, SubRingsShareTheNics) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases.front().flows.size(), 8U);
  const double whole = 2.0 * 31.0 / 32.0 * kGibibyte;
  const std::vector<double> bytes = bytes_on_links(cluster, phases);
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NicPort) {
      EXPECT_RELATIVE(bytes[link.id], whole / 8.0);
    }
    if (link.kind == LinkKind::NvLink) {
      EXPECT_RELATIVE(bytes[link.id], whole);
    }
  }
}

TEST(Ring, UnevenNodesShareAsManyNicsAsTheSmallestHas) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const std::vector<std::uint32_t> gpus{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(rings_of({.cluster = cluster, .gpus = gpus}).size(), 2U);
}

TEST(Ring, CyclesOfAMeshAreHamiltonianAndShareNoWire) {
  for (std::uint32_t n = 2; n <= 17; ++n) {
    const std::vector<Ring> cycles = disjoint_cycles(n);
    EXPECT_EQ(cycles.size(), n == 2 ? 1U : n % 2 == 0 ? n - 2 : n - 1);
    std::set<std::pair<std::uint32_t, std::uint32_t>> wires;
    for (const Ring& cycle : cycles) {
      EXPECT_EQ(std::set<std::uint32_t>(cycle.begin(), cycle.end()).size(), n);
      for (std::uint32_t i = 0; i < n; ++i) {
        wires.insert({cycle[i], cycle[(i + 1) % n]});
      }
    }
    EXPECT_EQ(wires.size(), cycles.size() * n) << "n = " << n;
  }
}

// Six of the seven wires of each GPU carry a sixth of the bytes each.
TEST(Ring, AFullMeshOfEightUsesSixWiresOfEachGpu) {
  const Cluster cluster = make_cluster({.gpus = 8, .mesh = true, .intra_us = 0.0});
  const double time = microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(8), kGibibyte);
  EXPECT_RELATIVE(time, 1e6 * 2.0 * 7.0 / 8.0 * kGibibyte / 6.0 / 1e11);
}

TEST(Ring, AMeshOverSeveralNodesStaysBalanced) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 8, .mesh = true});
  const std::vector<std::uint32_t> gpus = gpus_of(16);
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  const double whole = 2.0 * 15.0 / 16.0 * kGibibyte;
  const std::vector<double> bytes = bytes_on_links(cluster, phases);
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NicPort) {
      EXPECT_RELATIVE(bytes[link.id], whole / 8.0);
    }
    if (link.kind == LinkKind::NvLink) {
      EXPECT_LE(bytes[link.id], whole / 6.0 * (1.0 + 1e-9));
    }
  }
}

TEST(Ring, ASlowWireSlowsItsRing) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 1, .nic = 1e10, .inter_us = 0.0});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllGather, "ring", gpus_of(2), 1e9), 5e4);
}

}  // namespace
}  // namespace trainyard
