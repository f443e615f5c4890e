// Levels of groups on a torus, a dragonfly or planes, and the cost of a step that passes more than
// one switch.
#include "sim/collectives/levels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_run.hpp"
#include "test_clusters.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/torus.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::ElementsAre;

constexpr CollectiveOp kGathers[] = {CollectiveOp::ReduceScatter, CollectiveOp::AllGather};

// GPUs in a torus, 50 GB/s in each direction along each wire, 3 us per step.
Cluster torus_of_gpus(std::vector<std::uint32_t> dims) {
  NodeSpec node = load_node("dgx_h100");
  node.scale_up = NodeSpec::ScaleUp::Torus;
  node.gpus_per_pcie_switch = 1;
  node.gpus = node.nics = node.gpus_per_cpu = static_cast<std::uint32_t>(torus_size(dims));
  node.nvlink = node.nvlink_nominal = BytesPerSecond{100e9 * static_cast<double>(dims.size())};
  node.scale_up_dims = std::move(dims);
  node.latency = {.launch = Seconds{}, .intra_step = Seconds{3e-6}, .inter_step = Seconds{14e-6}};
  return build_cluster({.node = node, .nodes = 1});
}

Levels levels_on(const Cluster& cluster, const std::vector<std::uint32_t>& gpus) {
  return levels_of({.cluster = cluster, .gpus = gpus}, LevelsOf::All);
}

Levels all_levels(const Cluster& cluster) {
  return levels_on(cluster, gpus_of(static_cast<std::uint32_t>(cluster.gpus().size())));
}

// Are the levels of a torus of GPUs its dimensions?
TEST(Levels, OfATorusOfGpusAreItsDimensions) {
  const Levels levels = all_levels(torus_of_gpus({4, 2, 3}));
  EXPECT_THAT(levels.sizes, ElementsAre(4, 2, 3));
  EXPECT_THAT(levels.kinds,
              ElementsAre(LevelKind::Dimension, LevelKind::Dimension, LevelKind::Dimension));
  EXPECT_FALSE(levels.within_node());
  EXPECT_THAT(levels.line(0, 13), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(levels.line(1, 13), ElementsAre(9, 13));
  EXPECT_THAT(levels.line(2, 13), ElementsAre(5, 13, 21));
}

// Are the levels of parts of a torus the dimensions they have? A plane, a line across it, and
// members that form no box, which are one line of the node.
TEST(Levels, OfPartsOfATorusAreTheDimensionsTheyHave) {
  const Cluster cluster = torus_of_gpus({4, 2, 3});
  EXPECT_THAT(levels_on(cluster, {8, 9, 10, 11, 12, 13, 14, 15}).sizes, ElementsAre(4, 2));
  EXPECT_THAT(levels_on(cluster, {1, 9, 17}).sizes, ElementsAre(3));
  const Levels loose = levels_on(cluster, {0, 1, 2, 9});
  EXPECT_THAT(loose.sizes, ElementsAre(4));
  EXPECT_TRUE(loose.within_node());
}

// Are the levels of a torus of nodes the node and the dimensions?
TEST(Levels, OfATorusOfNodesAreTheNodeAndTheDimensions) {
  const Levels levels =
      all_levels(build_cluster(nodes_of("dgx_h100", 8, {.kind = Torus{.dims = {4, 2}}})));
  EXPECT_THAT(levels.sizes, ElementsAre(8, 4, 2));
  EXPECT_THAT(levels.kinds,
              ElementsAre(LevelKind::Node, LevelKind::Dimension, LevelKind::Dimension));
  EXPECT_THAT(levels.line(1, 41), ElementsAre(33, 41, 49, 57));
  EXPECT_THAT(levels.line(2, 41), ElementsAre(9, 41));
}

// Are the levels of a dragonfly its routers and groups? Routers of 15 ports: 4 NICs each, 8 to a
// group.
TEST(Levels, OfADragonflyAreRoutersAndGroups) {
  const FabricSpec fabric{.kind = Dragonfly{.radix = 15}};
  EXPECT_THAT(all_levels(build_cluster(one_gpu_nodes(64, fabric))).sizes, ElementsAre(4, 8, 2));
  EXPECT_THAT(all_levels(build_cluster(nodes_of("dgx_h100", 8, fabric))).sizes,
              ElementsAre(8, 4, 2));
}

// Are the levels of planes and dual leaves the nodes and pods?
TEST(Levels, OfPlanesAndDualLeavesAreNodesAndPods) {
  EXPECT_THAT(
      all_levels(build_cluster(nodes_of("dgx_h100", 16, {.kind = MultiPlane{{.radix = 16}}})))
          .sizes,
      ElementsAre(8, 8, 2));
  EXPECT_THAT(
      all_levels(build_cluster(nodes_of("dgx_h100", 8, {.kind = DualTor{{.nodes_per_unit = 4}}})))
          .sizes,
      ElementsAre(8, 4, 2));
}

// Does the all_reduce on a torus take its closed form, the sum over dimensions of 2(k_d - 1)(a +
// S/(2 K_d B))?
TEST(TorusLevels, TakeTheClosedForm) {
  const Cluster cluster = torus_of_gpus({4, 4, 4});
  const double time =
      microseconds(cluster, CollectiveOp::AllReduce, "multi_level", gpus_of(64), kGibibyte);
  double closed = 0.0;
  for (const double joined : {4.0, 16.0, 64.0})
    closed += 1e6 * 2.0 * 3.0 * (3e-6 + kGibibyte / (2.0 * joined * 50e9));
  EXPECT_RELATIVE(time, closed);
  EXPECT_NEAR(time, 21193.292160, 5e-7);
  for (const CollectiveOp op : kGathers)
    EXPECT_RELATIVE(microseconds(cluster, op, "multi_level", gpus_of(64), kGibibyte), closed / 2);
  // One ring through all ranks has 126 steps, and its neighbours are often no neighbours of the
  // torus.
  EXPECT_LT(2.0 * time,
            microseconds(cluster, CollectiveOp::AllReduce, "ring", gpus_of(64), kGibibyte));
}

// Agreement within 0.1 %, or within the algorithm's bound if hops differ in latency.
void expect_agreement(const Cluster& cluster, CollectiveOp op, const char* name,
                      std::initializer_list<std::int64_t> sizes) {
  const auto ranks = static_cast<std::uint32_t>(cluster.gpus().size());
  const std::vector<std::uint32_t> gpus = gpus_of(ranks);
  const double bound =
      find_algorithm(op, name)->fluid_bound({.cluster = cluster, .gpus = gpus}).relative;
  for (const std::int64_t bytes : sizes) {
    const Workload whole = one_collective(gpus_of(ranks), op, bytes, name);
    const double fluid = engine_us(cluster, whole, {});
    EXPECT_NEAR(engine_us(cluster, expand_collectives(whole, cluster), {}), fluid,
                std::max(1e-3, bound) * fluid)
        << cluster.facts().name << ": " << to_string(op) << " " << name << ", " << bytes;
  }
}

// Do both models of torus levels agree?
TEST(TorusLevels, AgreeStepByStep) {
  const FabricSpec torus{.kind = Torus{.dims = {4, 2}, .cables = 1}};
  for (const CollectiveOp op :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
    expect_agreement(torus_of_gpus({4, 3}), op, "multi_level", {1 << 10, 12 << 20});
    expect_agreement(build_cluster(one_gpu_nodes(8, torus)), op, "multi_level",
                     {1 << 10, 1 << 24, std::int64_t{1} << 32});
  }
}

struct NamedRow {
  CollectiveOp op;
  const char* name;
};

constexpr NamedRow kStepSynchronous[] = {
    {CollectiveOp::AllReduce, "ring"},
    {CollectiveOp::AllReduce, "bidirectional_ring"},
    {CollectiveOp::AllReduce, "hierarchical"},
    {CollectiveOp::AllReduce, "multi_level"},
    {CollectiveOp::AllReduce, "recursive_doubling"},
    {CollectiveOp::AllReduce, "halving_doubling"},
    {CollectiveOp::AllGather, "ring"},
    {CollectiveOp::AllGather, "multi_level"},
    {CollectiveOp::AllGather, "pat"},
    {CollectiveOp::ReduceScatter, "ring"},
    {CollectiveOp::ReduceScatter, "multi_level"},
    {CollectiveOp::ReduceScatter, "pat"},
    {CollectiveOp::Broadcast, "chain"},
    {CollectiveOp::Reduce, "chain"},
    {CollectiveOp::AllToAll, "pairwise"},
};

// Do the fluid and stepwise models agree across leaves and pods? Sixteen nodes are on four leaves
// under spines, and on eight under pods and cores. Hops across leaves and pods pass two and four
// more switches, at 2 us each.
TEST(HopLatency, FluidAndStepwiseAgreeAcrossLeavesAndPods) {
  const FabricKind leaves = FatTree{.radix = 8, .hop_latency = Seconds{2e-6}};
  const FabricKind pods = FatTree3{.radix = 4, .hop_latency = Seconds{2e-6}};
  for (const FabricKind& fabric : {leaves, pods}) {
    const Cluster cluster = build_cluster(one_gpu_nodes(16, {.kind = fabric}));
    ASSERT_GT(cluster.latency().extra(0, 15).value(), 3e-6);
    for (const NamedRow& row : kStepSynchronous)
      expect_agreement(cluster, row.op, row.name, {1 << 10, 1 << 22, std::int64_t{1} << 32});
  }
}

// Is the latency of a ring that of its slowest hop? A pass has 15 steps at the slowest hop, the one
// across leaves: 14 us and two cables of 2 us.
TEST(HopLatency, OfARingIsThatOfItsSlowestHop) {
  const Cluster cluster =
      build_cluster(one_gpu_nodes(16, {.kind = FatTree{.radix = 8, .hop_latency = Seconds{2e-6}}}));
  const std::vector<std::uint32_t> gpus = gpus_of(16);
  const auto phases = find_algorithm(CollectiveOp::AllGather, "ring")
                          ->phases({.cluster = cluster, .gpus = gpus}, Bytes{0.0});
  const CollectiveLatency& latency = cluster.facts().latency;
  EXPECT_RELATIVE(phases[0].latency.value(),
                  latency.launch.value() + 15.0 * (latency.inter_step.value() + 4e-6));
}

// Do rings and trees over nodes keep their bound? NCCL's model counts N-1 steps across the network
// per pass, while messages wait for the slowest hop in each; chunks climb a tree hop by hop. The
// algorithm's bound states the difference.
TEST(HopLatency, RingsAndTreesOverNodesKeepTheirBound) {
  ClusterSpec spec = nodes_of("dgx_h100", 4, {.kind = RailOptimized{}});
  spec.node.gpus = spec.node.nics = spec.node.gpus_per_cpu = 2;
  spec.node.gpus_per_pcie_switch = 1;
  const Cluster cluster = build_cluster(spec);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const char* name : {"ring", "bidirectional_ring", "tree"}) {
    const double bound =
        find_algorithm(CollectiveOp::AllReduce, name)->fluid_bound(placed).relative;
    EXPECT_LT(bound, 1.6) << name;
    for (const std::int64_t bytes : {1 << 10, 1 << 20, 1 << 24}) {
      const Workload whole = one_collective(gpus, CollectiveOp::AllReduce, bytes, name);
      const double fluid = engine_us(cluster, whole, {});
      const double stepwise = engine_us(cluster, expand_collectives(whole, cluster), {});
      EXPECT_NEAR(stepwise, fluid, bound * fluid) << name << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace trainyard
