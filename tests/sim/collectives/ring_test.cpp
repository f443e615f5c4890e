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

// Does the ring all_reduce take its closed form (oracle 1: 2(n-1)(alpha + S/(nB)), S = 2^30, B =
// 100 GB/s, alpha = 5 us)?
TEST(Ring, AllReduceTakesTheClosedForm) {
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 2), 10747.418240);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 4), 16136.127360);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 8), 18860.481920);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 16), 20282.659200);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllReduce, 1024), 31683.864960);
}

// Are reduce_scatter and all_gather half of an all_reduce (oracle 2)?
TEST(Ring, ReduceScatterAndAllGatherAreHalfOfAllReduce) {
  EXPECT_RELATIVE(ring_us(CollectiveOp::ReduceScatter, 8), 9430.240960);
  EXPECT_RELATIVE(ring_us(CollectiveOp::AllGather, 8), 9430.240960);
  EXPECT_RELATIVE(ring_us(CollectiveOp::ReduceScatter, 8) + ring_us(CollectiveOp::AllGather, 8),
                  ring_us(CollectiveOp::AllReduce, 8));
}

// Does a pass begin after the passes before it? The copies of an all_gather begin in step 0, those
// of an all_reduce of four after the three steps that reduce.
TEST(Ring, APassBeginsAfterThoseBeforeIt) {
  const Cluster cluster = star(4);
  const std::vector<std::uint32_t> gpus = gpus_of(4);
  const auto first_copy = [&](CollectiveOp op) {
    std::uint32_t first = 100;
    for (const Message& message :
         find_algorithm(op, "ring")->messages({.cluster = cluster, .gpus = gpus}, Bytes{400.0}))
      if (!message.reduce) first = std::min(first, message.step);
    return first;
  };
  EXPECT_EQ(first_copy(CollectiveOp::AllGather), 0U);
  EXPECT_EQ(first_copy(CollectiveOp::AllReduce), 3U);
}

// Does the all_reduce load every link equally (oracle 3: 2 * 7/8 * 2^30 bytes in and out of each
// GPU)?
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

// Are the limits without latency and without bytes correct (oracle 12)?
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

// Is the launch paid once?
TEST(Ring, LaunchIsPaidOnce) {
  const Cluster cluster = make_cluster({.gpus = 4, .launch_us = 8.4, .intra_us = 3.4});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(4), 0.0),
                  8.4 + 6 * 3.4);
}

// Do only steps between nodes cost the network latency? NCCL, H100 x 32 on 4 nodes, Ring Simple:
// 8.4 + (62 - 6) * 3.4 + 6 * 14 = 282.8 us (oracle 18).
TEST(Ring, OnlyStepsBetweenNodesCostTheNetworkLatency) {
  const Cluster cluster =
      make_cluster({.nodes = 4, .gpus = 8, .launch_us = 8.4, .intra_us = 3.4, .inter_us = 14.0});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(32), 0.0), 282.8);
  // A rail has one rank per node: every step crosses.
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(4, 8), 0.0),
                  8.4 + 6 * 14.0);
}

// Are members visited node by node, whatever their group ranks are?
TEST(Ring, MembersAreVisitedNodeByNodeWhateverTheirGroupRanks) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 2});
  const std::vector<std::uint32_t> gpus{3, 0, 2,
                                        1};  // group ranks 1 and 3 on node 0, 2 and 0 on node 1
  EXPECT_THAT(rings_of({.cluster = cluster, .gpus = gpus}),
              ElementsAre(ElementsAre(1, 3, 2, 0), ElementsAre(3, 1, 0, 2)));
}

// Is a rail one ring, and a node one ring?
TEST(Ring, ARailIsOneRingAndANodeOneRing) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> rail = gpus_of(4, 8);
  const std::vector<std::uint32_t> node = gpus_of(8);
  EXPECT_THAT(rings_of({.cluster = cluster, .gpus = rail}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(rings_of({.cluster = cluster, .gpus = node}).size(), 1U);
}

// Do sub-rings share the NICs? With a ring per NIC, each NIC carries 2(n-1)/n * S / g in each
// direction, and NVLink the whole 2(n-1)/n * S, including the hop to the NIC's own GPU.
TEST(Ring, SubRingsShareTheNics) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases.front().flows.size(), 8U);
  const double whole = 2.0 * 31.0 / 32.0 * kGibibyte;
  const std::vector<double> bytes = bytes_on_links(cluster, phases);
  std::size_t ports = 0;
  std::size_t wires = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NicPort) {
      EXPECT_RELATIVE(bytes[link.id], whole / 8.0);
      ++ports;
    }
    if (link.kind == LinkKind::NvLink) {
      EXPECT_RELATIVE(bytes[link.id], whole);
      ++wires;
    }
  }
  EXPECT_EQ(ports, 2U * 32U);
  EXPECT_EQ(wires, 2U * 32U) << "to the switch and back";
}

// Do uneven nodes use as many NICs as the smallest node has?
TEST(Ring, UnevenNodesShareAsManyNicsAsTheSmallestHas) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const std::vector<std::uint32_t> gpus{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(rings_of({.cluster = cluster, .gpus = gpus}).size(), 2U);
}

// Are the cycles of a mesh Hamiltonian and without shared wires?
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

// Does a full mesh of eight use six wires of each GPU? Six of the seven wires carry a sixth of the
// bytes each.
TEST(Ring, AFullMeshOfEightUsesSixWiresOfEachGpu) {
  const Cluster cluster = make_cluster({.gpus = 8, .mesh = true, .intra_us = 0.0});
  const double time = microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(8), kGibibyte);
  EXPECT_RELATIVE(time, 1e6 * 2.0 * 7.0 / 8.0 * kGibibyte / 6.0 / 1e11);
}

// Does a full mesh of four use all wires? Six rings, two on each wire: three wires of a GPU carry a
// third of the bytes each.
TEST(Ring, AFullMeshOfFourUsesAllWiresOfEachGpu) {
  const Cluster cluster = make_cluster({.gpus = 4, .mesh = true, .intra_us = 0.0});
  EXPECT_EQ(rings_of({.cluster = cluster, .gpus = gpus_of(4)}).size(), 6U);
  const double time = microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(4), kGibibyte);
  EXPECT_RELATIVE(time, 1e6 * 2.0 * 3.0 / 4.0 * kGibibyte / 3.0 / 1e11);
}

// Does a mesh over several nodes stay balanced?
TEST(Ring, AMeshOverSeveralNodesStaysBalanced) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 8, .mesh = true});
  const std::vector<std::uint32_t> gpus = gpus_of(16);
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte});
  const double whole = 2.0 * 15.0 / 16.0 * kGibibyte;
  const std::vector<double> bytes = bytes_on_links(cluster, phases);
  std::size_t ports = 0;
  std::size_t wires = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NicPort) {
      EXPECT_RELATIVE(bytes[link.id], whole / 8.0);
      ++ports;
    }
    if (link.kind == LinkKind::NvLink) {
      EXPECT_LE(bytes[link.id], whole / 6.0 * (1.0 + 1e-9));
      ++wires;
    }
  }
  EXPECT_EQ(ports, 2U * 16U);
  EXPECT_EQ(wires, 2U * 8U * 7U) << "from every GPU to the seven others of its node";
}

// Does a slow wire slow its ring?
TEST(Ring, ASlowWireSlowsItsRing) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 1, .nic = 1e10, .inter_us = 0.0});
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllGather, "ring", gpus_of(2), 1e9), 5e4);
}

}  // namespace
}  // namespace trainyard
