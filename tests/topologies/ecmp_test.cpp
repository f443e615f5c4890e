// Flows that a hash sends over one path: do they collide as often as statistics predict, and always
// the same ones?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {
namespace {

Cluster hashed(std::uint32_t leaves, Routing routing) {
  // 16 ports: 8 nodes on a leaf, 8 uplinks.
  return build_cluster(
      one_gpu_nodes(8 * leaves, {.kind = FatTree{.radix = 16}, .routing = routing}));
}

// Flows on the fullest uplink when the 8 nodes of leaf a send to those of leaf b.
double fullest_uplink(const Cluster& cluster, std::uint32_t a, std::uint32_t b) {
  std::map<LinkId, double> flows;
  for (std::uint32_t i = 0; i < 8; ++i) {
    for (const RouteHop& hop : cluster.router().route(a * 8 + i, b * 8 + i)) {
      const Link& link = cluster.link(hop.link);
      const bool up = cluster.device(link.from).kind == DeviceKind::LeafSwitch;
      if (link.kind == LinkKind::LeafSpine && up) flows[hop.link] += hop.fraction;
    }
  }
  double most = 0.0;
  for (const auto& [link, count] : flows) most = std::max(most, count);
  return most;
}

double mean_fullest(std::uint32_t flows_per_connection, std::uint64_t seeds) {
  double sum = 0.0;
  double trials = 0.0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Cluster cluster = hashed(
        16,
        {.kind = Routing::Kind::Ecmp, .seed = seed, .flows_per_connection = flows_per_connection});
    for (std::uint32_t a = 0; a < 16; ++a) {
      for (std::uint32_t b = 0; b < 16; ++b) {
        if (a == b) continue;
        sum += fullest_uplink(cluster, a, b);
        trials += 1.0;
      }
    }
  }
  return sum / trials;
}

// Do 8 flows on 8 uplinks put 2.60 on the fullest on average (oracle 28)? One standard error here
// is 0.005.
TEST(Ecmp, EightFlowsOnEightUplinksPut2Point60OnTheFullest) {
  EXPECT_NEAR(mean_fullest(1, 80), 2.60, 0.02);
}

// Do more flows per connection reduce collisions? They are queue pairs, as with
// NCCL_IB_QPS_PER_CONNECTION.
TEST(Ecmp, MoreFlowsPerConnectionEvenItOut) {
  const double four = mean_fullest(4, 4);
  const double sixteen = mean_fullest(16, 2);
  EXPECT_LT(four, 2.1);
  EXPECT_GT(four, 1.0);
  EXPECT_LT(sixteen, four);
}

// Are parallel cables chosen one by one?
TEST(Ecmp, BundledCablesAreChosenOneByOne) {
  // Two leaves need one spine with 8 cables to each: a flow still has 8 paths.
  const Cluster cluster = hashed(2, {.kind = Routing::Kind::Ecmp});
  ASSERT_EQ(count_fabric(cluster).spines, 1U);
  EXPECT_EQ(count_fabric(cluster).leaf_spine_cables, 16U);
  std::size_t links = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::LeafSpine) continue;
    EXPECT_EQ(link.cables, 1U);
    EXPECT_DOUBLE_EQ(link.capacity.value(), 48.5e9);
    ++links;
  }
  EXPECT_EQ(links, 2U * 16U) << "up and down";
  EXPECT_EQ(cluster.router().route(0, 8).size(), 8U);  // PCIe twice, NIC, up, down, NIC, PCIe twice
}

// Are the fractions those of flows?
TEST(Ecmp, FractionsAreThoseOfFlows) {
  const Cluster cluster = hashed(4, {.kind = Routing::Kind::Ecmp, .flows_per_connection = 4});
  EXPECT_FALSE(cluster.router().route(0, 31).empty());
  for (const RouteHop& hop : cluster.router().route(0, 31)) {
    const double quarters = hop.fraction * 4.0;
    EXPECT_DOUBLE_EQ(quarters, std::round(quarters));
  }
}

// Does only the seed decide?
TEST(Ecmp, SeedDecidesAndNothingElse) {
  const auto ways = [](const Cluster& cluster) {
    std::vector<std::string> names;
    for (std::uint32_t b = 8; b < 128; ++b) {
      for (const RouteHop& hop : cluster.router().route(0, b)) {
        names.push_back(cluster.name(cluster.link(hop.link).to));
      }
    }
    return names;
  };
  const Cluster one = hashed(16, {.kind = Routing::Kind::Ecmp, .seed = 1});
  EXPECT_EQ(ways(one), ways(hashed(16, {.kind = Routing::Kind::Ecmp, .seed = 1})));
  EXPECT_NE(ways(one), ways(hashed(16, {.kind = Routing::Kind::Ecmp, .seed = 2})));
  // Nor does it matter whether the cluster is built or read from a file.
  JsonFile file = JsonFile::parse("mine.json", to_custom_json(one).dump());
  EXPECT_EQ(ways(one), ways(custom_cluster(file)));
}

// Are shifts free of collisions under round-robin routing? Destinations are assigned in turn: a
// shift by whole leaves collides with no other flow, at any level.
TEST(RoundRobin, ShiftsAreFreeOfCollisions) {
  for (const char* kind : {"fat_tree", "fat_tree3"}) {
    const Cluster cluster = build_cluster(
        one_gpu_nodes(128, {.kind = fabric_named(kind, kind == std::string("fat_tree") ? 16 : 8),
                            .routing = {.kind = Routing::Kind::RoundRobin}}));
    for (const std::uint32_t by : {8U, 16U, 24U, 64U}) {
      std::vector<double> flows(cluster.links().size(), 0.0);
      for (std::uint32_t i = 0; i < 128; ++i)
        add_flow(flows, cluster.router().route(i, (i + by) % 128));
      EXPECT_DOUBLE_EQ(*std::max_element(flows.begin(), flows.end()), 1.0) << kind << " by " << by;
    }
  }
}

// Are they in a tree that is partly filled, where a leaf has several cables to each spine?
TEST(RoundRobin, ShiftsAreFreeOfCollisionsInAPartlyFilledTree) {
  std::size_t several_cables = 0;
  for (const char* kind : {"fat_tree", "fat_tree3"}) {
    for (const std::uint32_t leaves : {2U, 3U, 4U, 6U, 8U}) {
      const std::uint32_t nodes = 8 * leaves;
      const Cluster cluster = build_cluster(one_gpu_nodes(
          nodes, {.kind = fabric_named(kind, 16), .routing = {.kind = Routing::Kind::RoundRobin}}));
      several_cables += count_fabric(cluster).spines < 8 ? 1U : 0U;
      for (std::uint32_t by = 8; by < nodes; by += 8) {
        std::vector<double> flows(cluster.links().size(), 0.0);
        for (std::uint32_t i = 0; i < nodes; ++i)
          add_flow(flows, cluster.router().route(i, (i + by) % nodes));
        EXPECT_DOUBLE_EQ(*std::max_element(flows.begin(), flows.end()), 1.0)
            << kind << " of " << nodes << " by " << by;
      }
    }
  }
  EXPECT_GT(several_cables, 4U);
}

}  // namespace
}  // namespace trainyard
