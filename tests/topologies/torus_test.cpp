// Tori of nodes and of GPUs: their wires, the split of traffic, and their bisection.
#include "topologies/torus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json_reader.hpp"
#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/node.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FabricSpec torus(std::vector<std::uint32_t> dims, std::uint32_t cables = 1) {
  return {.kind = Torus{.dims = std::move(dims), .cables = cables}};
}

// Do balanced dimensions have the least sum?
TEST(Torus, BalancedDimensionsHaveTheLeastSum) {
  EXPECT_THAT(balanced_dims(64, 3), ElementsAre(4, 4, 4));
  EXPECT_THAT(balanced_dims(512, 3), ElementsAre(8, 8, 8));
  EXPECT_THAT(balanced_dims(12, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(balanced_dims(72, 2), ElementsAre(9, 8));
  EXPECT_THAT(balanced_dims(13, 3), ElementsAre(13, 1, 1));
  EXPECT_THAT(balanced_dims(1, 2), ElementsAre(1, 1));
}

// Does every wire occur once? There are n * d wires; a dimension of two has n / 2 double ones, a
// dimension of one none.
TEST(Torus, EveryWireIsThereOnce) {
  EXPECT_EQ(torus_wires(std::vector<std::uint32_t>{4, 4, 4}).size(), 192U);
  const auto wires = torus_wires(std::vector<std::uint32_t>{3, 2, 1});
  EXPECT_EQ(wires.size(), 6U + 3U);
  std::uint32_t times = 0;
  for (const TorusWire& wire : wires) times += wire.times;
  EXPECT_EQ(times, 12U);
}

// Are routers and cables counted?
TEST(TorusFabric, CountsRoutersAndCables) {
  const FabricCount count = count_fabric(build_cluster(one_gpu_nodes(64, torus({4, 4, 4}, 2))));
  EXPECT_EQ(count.leaves, 64U);
  EXPECT_EQ(count.node_cables, 64U);
  EXPECT_EQ(count.local_cables, 2U * 192U);
  EXPECT_EQ(count.leaf_spine_cables, 0U);
  // Without a number, there are as many cables as a node has NICs; without dimensions, three
  // balanced ones.
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 27, {.kind = Torus{}}));
  EXPECT_EQ(count_fabric(cluster).local_cables, 8U * 81U);
}

// Does every directed link of a ring carry n^2 S / 8, n even (oracle 26)?
TEST(TorusFabric, RingCarriesAnEighthOfTheSquare) {
  for (const std::uint32_t n : {2U, 4U, 8U, 16U}) {
    const Cluster cluster = build_cluster(one_gpu_nodes(n, torus({n})));
    std::vector<double> loads(cluster.links().size(), 0.0);
    for (std::uint32_t a = 0; a < n; ++a) {
      for (std::uint32_t b = 0; b < n; ++b) add_flow(loads, cluster.router().route(a, b));
    }
    std::uint32_t links = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::Local) continue;
      EXPECT_NEAR(loads[link.id] / link.cables, n * n / 8.0, 1e-9) << n;
      ++links;
    }
    EXPECT_EQ(links, n == 2 ? 2 : 2 * n) << "both ways round; two routers share one double wire";
  }
}

// Are opposite corners reached over all dimensions?
TEST(TorusFabric, OppositeCornersAreReachedOverAllDimensions) {
  const Cluster cluster = build_cluster(one_gpu_nodes(64, torus({4, 4, 4})));
  // From (0,0,0) to (2,2,2), all six links out of the router are on shortest paths, and each
  // carries a sixth.
  double out = 0.0;
  int ways = 0;
  const DeviceId router = cluster.link(cluster.router().route(0, 42)[2].link).to;
  for (const RouteHop& hop : cluster.router().route(0, 42)) {
    const Link& link = cluster.link(hop.link);
    if (link.kind != LinkKind::Local || link.from != router) continue;
    EXPECT_DOUBLE_EQ(hop.fraction, 1.0 / 6.0);
    out += hop.fraction;
    ++ways;
  }
  EXPECT_EQ(ways, 6);
  EXPECT_DOUBLE_EQ(out, 1.0);
}

// Is the bisection two cables per ring? Two cables of each of the rings along the long dimension
// are cut.
TEST(TorusFabric, BisectionIsTwoCablesARing) {
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(one_gpu_nodes(8, torus({8})))).value(),
                   2 * 48.5e9);
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(one_gpu_nodes(32, torus({4, 8})))).value(),
                   4 * 2 * 48.5e9);
}

// Are dimensions refused that do not hold the nodes?
TEST(TorusFabric, RefusesDimensionsThatDoNotHoldTheNodes) {
  const std::string text = complaint([] {
    (void)build_cluster(one_gpu_nodes(60, torus({4, 4, 4})));
  });
  EXPECT_THAT(text, HasSubstr("/fabric/dims: a torus of 4 x 4 x 4 has 64 places for 60 nodes"));
  EXPECT_THAT(text, HasSubstr("use [5, 4, 3]"));
}

// With two dimensions, each direction has a quarter of the rate of a GPU.
NodeSpec torus_node(std::vector<std::uint32_t> dims) {
  NodeSpec node = load_node("dgx_h100");
  node.name = "torus";
  node.scale_up = NodeSpec::ScaleUp::Torus;
  node.gpus = static_cast<std::uint32_t>(torus_size(dims));
  node.scale_up_dims = std::move(dims);
  node.gpus_per_cpu = node.gpus;
  return node;
}

// Do GPUs forward traffic?
TEST(TorusNode, GpusPassTrafficOn) {
  const Cluster cluster = build_cluster({.node = torus_node({4, 4}), .nodes = 1});
  EXPECT_EQ(cluster.router().route(0, 1).size(), 1U);
  EXPECT_DOUBLE_EQ(cluster.link(cluster.router().route(0, 1)[0].link).capacity.value(),
                   370.8e9 / 4);
  // Half-way around one ring: both directions, two hops each.
  const Route across = cluster.router().route(0, 2);
  ASSERT_EQ(across.size(), 4U);
  for (const RouteHop& hop : across) {
    EXPECT_EQ(cluster.link(hop.link).kind, LinkKind::NvLink);
    EXPECT_DOUBLE_EQ(hop.fraction, 0.5);
  }
  // Four rings of four, cut twice each.
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 4 * 2 * 370.8e9 / 4);
}

// Does a torus node read back?
TEST(TorusNode, ReadsBack) {
  const NodeSpec node = torus_node({4, 2});
  const auto json = to_json(node);
  EXPECT_EQ(json["scale_up"]["dims"].dump(), "[4,2]");
  JsonFile file = JsonFile::parse("node.json", json.dump());
  const NodeSpec again = read_node(file.root(), "torus");
  file.finish();
  EXPECT_EQ(to_json(again), json);
  auto wrong = json;
  wrong["scale_up"]["dims"] = {4, 4};
  EXPECT_THAT(complaint([&] {
                JsonFile bad = JsonFile::parse("node.json", wrong.dump());
                (void)read_node(bad.root(), "torus");
                bad.finish();
              }),
              HasSubstr("/scale_up/dims: have 16 places for 8 GPUs"));
}

}  // namespace
}  // namespace trainyard
