// Closed forms of the algorithms other than the ring: bidirectional, direct, level by level, trees
// from a root; and the choice of levels and chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/cluster/blueprint.hpp"
#include "sim/collectives/levels.hpp"
#include "sim/collectives/pipeline.hpp"
#include "test_clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::ElementsAre;

// n GPUs of one node, each wired to its two neighbours.
Cluster ring_of_wires(std::uint32_t n) {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  for (std::uint32_t i = 0; i < n; ++i) {
    gpus.push_back(
        blueprint.add({.kind = DeviceKind::Gpu, .node = 0, .index = static_cast<std::int32_t>(i)}));
  }
  for (std::uint32_t i = 0; i < n; ++i)
    blueprint.cable(gpus[i], gpus[(i + 1) % n],
                    {.capacity = BytesPerSecond{1e11}, .nominal = BytesPerSecond{1e11}});
  ClusterFacts facts;
  facts.name = "a ring of wires";
  facts.nodes = 1;
  facts.gpus_per_node = n;
  facts.latency.intra_step = Seconds{5e-6};
  return Cluster(facts, std::move(blueprint).wiring(), gpus, {});
}

// Does a bidirectional ring halve the time on a ring of wires?
TEST(BidirectionalRing, HalvesTheTimeOnARingOfWires) {
  const Cluster cluster = ring_of_wires(8);
  const double time =
      microseconds(cluster, CollectiveOp::AllReduce, "bidirectional_ring", gpus_of(8), kGibibyte);
  EXPECT_RELATIVE(time, 14.0 * (5.0 + kGibibyte / 16.0 / 1e5));
  EXPECT_NEAR(time, 9465.240960, 5e-7);
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(8), kGibibyte),
                  18860.481920);
}

// Is a bidirectional ring the plain ring on a switch? Both directions share the GPU's one port.
TEST(BidirectionalRing, IsTheRingOnASwitch) {
  for (const std::uint32_t n : {2U, 3U, 8U, 13U}) {
    EXPECT_RELATIVE(
        microseconds(star(n), CollectiveOp::AllReduce, "bidirectional_ring", gpus_of(n), kGibibyte),
        microseconds(star(n), CollectiveOp::AllReduce, "ring", gpus_of(n), kGibibyte));
  }
}

// Does it leave the rail of a dead NIC alone as the ring does, in both directions?
TEST(BidirectionalRing, LeavesTheRailOfADeadNicAlone) {
  ClusterSpec spec{.node = load_node("dgx_h100"), .nodes = 2, .fabric = {.kind = RailOptimized{}}};
  spec.faults = {{.part = Fault::Part::Device, .device = "node 0 nic 3"}};
  const Cluster cluster = build_cluster(spec);
  EXPECT_RELATIVE(
      microseconds(cluster, CollectiveOp::AllReduce, "bidirectional_ring", gpus_of(16), kGibibyte),
      microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(16), kGibibyte));
}

// Does a direct gather take one step, alpha + (n-1)/n S/B?
TEST(DirectGather, TakesOneStep) {
  for (const CollectiveOp op : {CollectiveOp::AllGather, CollectiveOp::ReduceScatter})
    EXPECT_RELATIVE(microseconds(star(8), op, "direct", gpus_of(8), kGibibyte), 9400.240960);
}

// Is a hierarchical gather half of the all_reduce? Half of oracle 8 each: 7(a_i + S/(8 B_i)) +
// 3(a_e + S/(32 B_e)).
TEST(HierarchicalGather, IsHalfOfTheAllReduce) {
  double sum = 0.0;
  for (const CollectiveOp op : {CollectiveOp::ReduceScatter, CollectiveOp::AllGather}) {
    const double time = microseconds(four_nodes(), op, "hierarchical", gpus_of(32), kGibibyte);
    EXPECT_NEAR(time, 9358.615511 / 2, 5e-7);
    sum += time;
  }
  EXPECT_RELATIVE(sum, microseconds(four_nodes(), CollectiveOp::AllReduce, "hierarchical",
                                    gpus_of(32), kGibibyte));
}

// Sixteen GPUs: two per node, four nodes per leaf, two leaves under a spine.
constexpr Shape kTiers{.nodes = 8,
                       .gpus = 2,
                       .nic = 5e10,
                       .intra_us = 4.0,
                       .inter_us = 14.0,
                       .nodes_per_leaf = 4,
                       .trunk = 1e11};

// Are the levels the nodes, the leaves and the rest?
TEST(Levels, AreNodesLeavesAndTheRest) {
  const Cluster cluster = make_cluster(kTiers);
  const std::vector<std::uint32_t> gpus = gpus_of(16);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const Levels all = levels_of(placed, LevelsOf::All);
  EXPECT_THAT(all.sizes, ElementsAre(2, 4, 2));
  EXPECT_TRUE(all.within_node());
  EXPECT_THAT(all.line(0, 5), ElementsAre(4, 5));
  EXPECT_THAT(all.line(1, 5), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(all.line(2, 5), ElementsAre(5, 13));
  EXPECT_THAT(levels_of(placed, LevelsOf::NodeAndRest).sizes, ElementsAre(2, 8));
}

// Are levels left out that join nothing or are uneven? A level that joins nothing is not a level;
// units with unequal parts are skipped.
TEST(Levels, AreSkippedIfTheyJoinNothingOrAreUneven) {
  const Cluster cluster = make_cluster(kTiers);
  const auto sizes = [&](const std::vector<std::uint32_t>& gpus) {
    return levels_of({.cluster = cluster, .gpus = gpus}, LevelsOf::All).sizes;
  };
  EXPECT_THAT(sizes({0, 1}), ElementsAre(2));
  EXPECT_THAT(sizes({0, 2, 4}), ElementsAre(3));
  EXPECT_THAT(sizes({0, 8}), ElementsAre(2));
  EXPECT_THAT(sizes({0, 2, 8, 10}), ElementsAre(2, 2));
  EXPECT_THAT(sizes({0, 2, 4, 8}), ElementsAre(4));
  EXPECT_THAT(sizes({6, 1, 0, 7}), ElementsAre(2, 2));
}

// Does the multi-level algorithm take its closed form? 2(2-1)(a_i + S/2B_i) + 2(4-1)(a_e + S/8B_e)
// + 2(2-1)(a_e + S/16B_e); the trunk of a leaf carries the traffic of its eight GPUs, so the share
// of a GPU is an eighth of 1e11.
TEST(MultiLevel, TakesTheClosedForm) {
  const Cluster cluster = make_cluster(kTiers);
  const double time =
      microseconds(cluster, CollectiveOp::AllReduce, "multi_level", gpus_of(16), kGibibyte);
  const double closed =
      1e6 * (2 * (4e-6 + kGibibyte / 2 / 1e11) + 6 * (14e-6 + kGibibyte / 8 / 5e10) +
             2 * (14e-6 + kGibibyte / 16 / (1e11 / 8)));
  EXPECT_RELATIVE(time, closed);
}

// Does the multi-level algorithm take fewer steps? 10 steps instead of 16 and 30: for small
// buffers.
TEST(MultiLevel, TakesFewerSteps) {
  const Cluster cluster = make_cluster(kTiers);
  const auto time = [&](const char* name) {
    return microseconds(cluster, CollectiveOp::AllReduce, name, gpus_of(16), 1024.0);
  };
  EXPECT_LT(time("multi_level"), time("hierarchical"));
  EXPECT_LT(time("hierarchical"), time("ring"));
}

// Is the multi-level algorithm without leaves the two-level one?
TEST(MultiLevel, WithoutLeavesIsTheTwoLevelOne) {
  for (const CollectiveOp op :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter})
    EXPECT_RELATIVE(microseconds(four_nodes(), op, "multi_level", gpus_of(32), kGibibyte),
                    microseconds(four_nodes(), op, "hierarchical", gpus_of(32), kGibibyte));
}

// Does a refusal name the algorithm?
TEST(Hierarchical, NamesItselfInItsRefusals) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus{0, 1, 2, 8, 9};
  EXPECT_EQ(find_algorithm(CollectiveOp::AllGather, "multi_level")
                ->refusal({.cluster = cluster, .gpus = gpus}),
            "multi_level needs the same number of ranks on every node, here 2 to 3");
}

// Does a tree broadcast take its closed form (D-1+C)(alpha + S/(CB)), with D = 4 and C = 64?
TEST(TreeBroadcast, TakesItsClosedForm) {
  for (const CollectiveOp op : {CollectiveOp::Broadcast, CollectiveOp::Reduce}) {
    const double time = microseconds(star(8), op, "tree", gpus_of(8), kGibibyte);
    EXPECT_RELATIVE(time, 67.0 * (5.0 + kGibibyte / 64.0 / 1e5));
    EXPECT_NEAR(time, 11575.734720, 5e-7);
  }
}

// Are chains of too many messages refused? Each of n-1 hops passes on 64 chunks in a chain for each
// of 128 NICs: at 512 ranks these are less than 2^22 = 4194304 messages, at 640 ranks more.
TEST(ChainBroadcast, TooManyMessagesAreRefused) {
  const auto* chain = find_algorithm(CollectiveOp::Broadcast, "chain");
  for (const auto& [nodes, refused] : {std::pair{4U, false}, {5U, true}}) {
    const Cluster cluster = make_cluster({.nodes = nodes, .gpus = 128});
    const std::vector<std::uint32_t> gpus = gpus_of(128 * nodes);
    const auto reason = chain->refusal({.cluster = cluster, .gpus = gpus});
    ASSERT_EQ(reason.has_value(), refused) << nodes;
    if (refused) {
      EXPECT_EQ(*reason,
                "640 ranks that pass on 64 chunks in each of 128 chains are 5234688 "
                "messages, more than 4194304");
    }
  }
}

// Is a tree faster than a chain on many ranks? A chain needs 1 022 hops where a tree needs eleven.
TEST(TreeBroadcast, BeatsTheChainOnManyRanks) {
  const Cluster cluster = star(256);
  const double tree =
      microseconds(cluster, CollectiveOp::Broadcast, "tree", gpus_of(256), 1048576.0);
  const double link_flow =
      microseconds(cluster, CollectiveOp::Broadcast, "chain", gpus_of(256), 1048576.0);
  EXPECT_LT(tree, link_flow / 5.0);
}

// Does no port carry more than the buffer, for any number of ranks?
TEST(TreeBroadcast, NoPortCarriesMoreThanTheBuffer) {
  for (std::uint32_t n = 2; n <= 40; ++n) {
    const Cluster cluster = star(n);
    const std::vector<std::uint32_t> gpus = gpus_of(n);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    const auto phases =
        find_algorithm(CollectiveOp::Broadcast, "tree")->phases(placed, Bytes{64e6});
    const std::vector<double> loads = bytes_on_links(cluster, phases);
    EXPECT_GE(*std::ranges::max_element(loads), 64e6 * 0.999999) << "all of it to every other rank";
    for (const double bytes : loads) EXPECT_LE(bytes, 64e6 * 1.000001);
  }
}

// Is the number of chunks close to the best one (oracle 7)? sqrt(S(n-2)/(alpha B)) = 113.51; the
// chosen number is the nearest power of two from 1 to 64.
TEST(Pipeline, ChunksAreNearTheBest) {
  EXPECT_NEAR(std::sqrt(kGibibyte * 6 / (5e-6 * 1e11)), 113.51, 5e-3);
  const Cluster cluster = star(8);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const auto chunks = [&](double bytes) { return chunks_of(placed, Bytes{bytes}, 7); };
  EXPECT_EQ(chunks(kGibibyte), 64U);
  EXPECT_EQ(chunks(1048576.0), 4U);  // 3.5
  EXPECT_EQ(chunks(100000.0), 1U);   // 1.1
  EXPECT_EQ(chunks(0.0), 1U);
  EXPECT_EQ(chunks_of(placed, Bytes{kGibibyte}, 1), 1U);
}

// Which route counts for the number of chunks? That from rank 0 to the first member on another
// node. Two nodes of one GPU share a leaf at 100 GB/s, so that 8 MB over two hops take
// sqrt(8e6/(5e-6 * 1e11)) = 4 chunks. The third is behind a spine at 10 GB/s, where it would be 13.
TEST(Pipeline, ChunksFollowTheRouteToTheFirstMemberOnAnotherNode) {
  const Cluster cluster = make_cluster({.nodes = 3, .gpus = 1, .nodes_per_leaf = 2, .trunk = 1e10});
  const auto gpus = gpus_of(3);
  EXPECT_EQ(chunks_of({.cluster = cluster, .gpus = gpus}, Bytes{8e6}, 2), 4U);
}

}  // namespace
}  // namespace trainyard
