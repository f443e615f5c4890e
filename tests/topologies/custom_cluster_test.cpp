// Clusters defined device by device: what is read, what is refused, and the way back to text.
#include "topologies/custom_cluster.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/cluster/fabric_figures.hpp"
#include "sim/render/views/views.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Two nodes of one GPU and one NIC on a switch.
Json two_nodes() {
  return parse_unchecked_json(R"({
    "gpu": "h100", "gpu_memory": "80 GiB",
    "collective_latency": {"launch": "8.4 us", "intra_step": "3.4 us", "inter_step": "14 us"},
    "devices": [
      {"name": "a", "kind": "gpu", "node": 0}, {"name": "an", "kind": "nic", "node": 0},
      {"name": "b", "kind": "gpu", "node": 1}, {"name": "bn", "kind": "nic", "node": 1},
      {"name": "tor", "kind": "leaf"}],
    "links": [
      {"from": "a", "to": "an", "kind": "pcie", "capacity": "48 GB/s"},
      {"from": "b", "to": "bn", "kind": "pcie", "capacity": "48 GB/s"},
      {"from": "an", "to": "tor", "kind": "nic", "capacity": "400 Gb/s", "latency": "1 us"},
      {"from": "bn", "to": "tor", "kind": "nic", "capacity": "200 Gb/s"}]})");
}

Cluster build(const Json& json) {
  JsonFile file = JsonFile::parse("mine.json", json.dump());
  return custom_cluster(file);
}

// Is the cluster the one described?
TEST(CustomCluster, IsWhatItSays) {
  const Cluster cluster = build(two_nodes());
  EXPECT_EQ(cluster.facts().nodes, 2U);
  EXPECT_EQ(cluster.facts().gpus_per_node, 1U);
  EXPECT_EQ(cluster.facts().gpu, "h100");
  EXPECT_EQ(cluster.links().size(), 8U);
  const Route route = cluster.router().route(0, 1);
  ASSERT_EQ(route.size(), 4U);
  EXPECT_DOUBLE_EQ(cluster.link(route[1].link).capacity.value(), 50e9);
  EXPECT_DOUBLE_EQ(cluster.link(route[1].link).latency.value(), 1e-6);
  EXPECT_DOUBLE_EQ(cluster.link(route[2].link).capacity.value(), 25e9);
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 25e9);
}

// Are GPUs of several kinds read, in one node too? A kind without its memory is refused.
TEST(CustomCluster, GpusOfSeveralKinds) {
  Json json = two_nodes();
  json["devices"][2]["gpu"] = "l40s";
  EXPECT_THROW((void)build(json), InputError);
  json["devices"][2]["gpu_memory"] = "46068 MiB";
  const Cluster cluster = build(json);
  ASSERT_TRUE(cluster.has_mixed_gpus());
  EXPECT_EQ(cluster.gpu_kind(0).profile, "h100");
  EXPECT_EQ(cluster.gpu_kind(1).profile, "l40s");
  EXPECT_EQ(cluster.gpu_kind(1).memory, Bytes{46068.0 * 1048576.0});
  const Json text = to_custom_json(cluster);
  EXPECT_EQ(to_custom_json(build(text)), text);
  EXPECT_EQ(build(text).facts().mixed_gpus, cluster.facts().mixed_gpus);
  EXPECT_THAT(topology_table(cluster), HasSubstr("1 x l40s, 44.99 GiB usable each"));
}

// A link without its number, which depends on the order in the file.
auto plain(const Cluster& cluster, const Link& link) {
  return std::tuple(cluster.name(link.from), cluster.name(link.to), link.kind,
                    link.capacity.value(), link.nominal.value(), link.latency.value(), link.cables);
}

class RoundTrip : public testing::TestWithParam<std::pair<std::string, std::string>> {};

// Does a round trip keep devices, links and routes?
TEST_P(RoundTrip, KeepsDevicesLinksAndRoutes) {
  const auto& [node, fabric] = GetParam();
  const Cluster cluster = build_cluster(nodes_of(node, 3, {.kind = fabric_named(fabric)}));
  const Json text = to_custom_json(cluster);
  const Cluster again = build(text);
  EXPECT_EQ(to_custom_json(again), text);
  ASSERT_EQ(again.gpus().size(), cluster.gpus().size());
  std::multiset<decltype(plain(cluster, Link{}))> links;
  for (const Link& link : cluster.links()) links.insert(plain(cluster, link));
  for (const Link& link : again.links()) {
    const auto found = links.find(plain(again, link));
    ASSERT_NE(found, links.end());
    links.erase(found);
  }
  EXPECT_TRUE(links.empty());
  const auto last = static_cast<std::uint32_t>(cluster.gpus().size()) - 1;
  for (const std::uint32_t to : {1U, last}) {
    std::map<decltype(plain(cluster, Link{})), double> flow;
    for (const RouteHop& hop : cluster.router().route(0, to)) {
      flow[plain(cluster, cluster.link(hop.link))] += hop.fraction;
    }
    for (const RouteHop& hop : again.router().route(0, to)) {
      flow[plain(again, again.link(hop.link))] -= hop.fraction;
    }
    EXPECT_FALSE(flow.empty());
    for (const auto& [link, rest] : flow) EXPECT_NEAR(rest, 0.0, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Clusters, RoundTrip,
    testing::Values(std::pair{"dgx_a100_80gb", "rail_optimized"}, std::pair{"mi300x", "fat_tree"},
                    std::pair{"dgx_h100", "fat_tree3"}, std::pair{"gb300_nvl72", "single_switch"},
                    std::pair{"dgx_h100", "multi_plane"}, std::pair{"dgx_h100", "dual_tor"},
                    std::pair{"mi300x", "torus"}, std::pair{"dgx_a100_80gb", "dragonfly"}));

// Do routes in a torus of NICs go through the NICs between?
TEST(CustomCluster, TorusOfNicsRoutesThroughThem) {
  // Four nodes in a ring without a switch: opposite nodes are two hops apart, half of the bytes in
  // each direction.
  Json json = two_nodes();
  json["devices"] = Json::array();
  json["links"] = Json::array();
  for (int i = 0; i < 4; ++i) {
    const std::string gpu = fmt::format("g{}", i);
    const std::string nic = fmt::format("n{}", i);
    const std::string next = fmt::format("n{}", (i + 1) % 4);
    json["devices"].push_back({{"name", gpu}, {"kind", "gpu"}, {"node", i}});
    json["devices"].push_back({{"name", nic}, {"kind", "nic"}, {"node", i}});
    json["links"].push_back(
        {{"from", gpu}, {"to", nic}, {"kind", "pcie"}, {"capacity", "48 GB/s"}});
    json["links"].push_back(
        {{"from", nic}, {"to", next}, {"kind", "nic"}, {"capacity", "50 GB/s"}});
  }
  const Cluster cluster = build(json);
  EXPECT_EQ(cluster.router().route(0, 1).size(), 3U);
  int halves = 0;
  for (const RouteHop& hop : cluster.router().route(0, 2)) halves += hop.fraction == 0.5 ? 1 : 0;
  EXPECT_EQ(halves, 4);
}

// Is a NIC on two leaves no bridge between them?
TEST(CustomCluster, NicOnTwoLeavesIsNoBridge) {
  // Dual-plane: every NIC has a port on both leaves; the leaves have no link between them. Flows
  // use both planes, and none passes through a third NIC.
  Json json = two_nodes();
  json["devices"].push_back({{"name", "tor2"}, {"kind", "leaf"}});
  json["links"][3]["capacity"] = "400 Gb/s";
  for (const char* nic : {"an", "bn"}) {
    json["links"].push_back(
        {{"from", nic}, {"to", "tor2"}, {"kind", "nic"}, {"capacity", "400 Gb/s"}});
  }
  const Cluster cluster = build(json);
  EXPECT_EQ(cluster.router().route(0, 1).size(), 6U);
}

// googletest prints a mistake by its name where a test fails.
struct Mistake {
  std::string name;
  std::function<void(Json&)> make;
  std::string says;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class Refused : public testing::TestWithParam<Mistake> {};

// Do refusals name the field and a remedy?
TEST_P(Refused, WithPlaceAndRemedy) {
  Json json = two_nodes();
  GetParam().make(json);
  const std::string text = complaint([&] { (void)build(json); });
  EXPECT_THAT(text, HasSubstr(GetParam().says)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, Refused,
    testing::Values(
        Mistake{"zero", [](Json& j) { j["links"][0]["capacity"] = "0 GB/s"; },
                "mine.json: /links/0/capacity: must be more than zero"},
        Mistake{"stranger", [](Json& j) { j["links"][2]["to"] = "torr"; },
                "/links/2/to: there is no device \"torr\" (did you mean \"tor\"?"},
        Mistake{"twice", [](Json& j) { j["devices"][2]["name"] = "a"; },
                "/devices/2/name: \"a\" is the name of two devices"},
        Mistake{"cut", [](Json& j) { j["links"].erase(3); }, "cannot reach each other"},
        Mistake{"oneway", [](Json& j) { j["links"][3]["duplex"] = false; },
                "cannot reach each other"},
        Mistake{"loop", [](Json& j) { j["links"][0]["to"] = "a"; }, "is linked to itself"},
        Mistake{"kind", [](Json& j) { j["links"][2]["kind"] = "pcie"; }, "stays in a node"},
        Mistake{"kind2", [](Json& j) { j["links"][0]["kind"] = "nic"; },
                "joins NICs and fabric switches"},
        Mistake{"uneven",
                [](Json& j) {
                  j["devices"].push_back({{"name", "c"}, {"kind", "gpu"}, {"node", 1}});
                },
                "node 1 has 2 GPUs and node 0 has 1"},
        Mistake{"gap",
                [](Json& j) {
                  j["devices"][2]["node"] = 5;
                  j["devices"][3]["node"] = 5;
                },
                "node 1 is missing"},
        Mistake{"nic", [](Json& j) { j["devices"][0]["nic"] = "bn"; },
                "\"bn\" is not a NIC of node 0"},
        // The first device of the list is a NIC of the same node.
        Mistake{"unknown_nic",
                [](Json& j) {
                  std::swap(j["devices"][0], j["devices"][1]);
                  j["devices"][1]["nic"] = "ann";
                },
                "/devices/1/nic: there is no device \"ann\" (did you mean \"an\"?"},
        Mistake{"switch", [](Json& j) { j["devices"][4]["node"] = 0; }, "belongs to no node"},
        Mistake{"empty", [](Json& j) { j["devices"] = Json::array(); }, "there is no gpu"},
        Mistake{"typo", [](Json& j) { j["links"][0]["bandwidth"] = "1 GB/s"; },
                "/links/0/bandwidth: unknown key"}),
    [](const auto& instance) { return instance.param.name; });

// Two nodes whose two GPUs each are on a switch of the node alone: are they refused, and taken once
// one GPU of each is on a common switch?
TEST(CustomCluster, NodesOnDifferentSwitchesCannotReachEachOther) {
  Json json = two_nodes();
  json["devices"] = Json::array();
  json["links"] = Json::array();
  for (const int node : {0, 1}) {
    const std::string leaf = fmt::format("leaf {}", node);
    json["devices"].push_back({{"name", leaf}, {"kind", "leaf"}});
    for (const int i : {0, 1}) {
      const std::string gpu = fmt::format("g{}{}", node, i), nic = fmt::format("n{}{}", node, i);
      json["devices"].push_back({{"name", gpu}, {"kind", "gpu"}, {"node", node}, {"nic", nic}});
      json["devices"].push_back({{"name", nic}, {"kind", "nic"}, {"node", node}});
      json["links"].push_back(
          {{"from", gpu}, {"to", nic}, {"kind", "pcie"}, {"capacity", "48 GB/s"}});
      json["links"].push_back(
          {{"from", nic}, {"to", leaf}, {"kind", "nic"}, {"capacity", "50 GB/s"}});
    }
    json["links"].push_back({{"from", fmt::format("g{}0", node)},
                             {"to", fmt::format("g{}1", node)},
                             {"kind", "nvlink"},
                             {"capacity", "300 GB/s"}});
  }
  EXPECT_THAT(complaint([&] { (void)build(json); }), HasSubstr("cannot reach each other"));
  json["links"].push_back(
      {{"from", "n10"}, {"to", "leaf 0"}, {"kind", "nic"}, {"capacity", "50 GB/s"}});
  EXPECT_EQ(complaint([&] { (void)build(json); }), "");
}

// Does an unknown word give one problem, and none that only follows from it?
TEST(CustomCluster, SaysAnUnknownKindOnce) {
  Json json = two_nodes();
  json["links"][2]["kind"] = "network";
  const std::string of_link = complaint([&] { (void)build(json); });
  EXPECT_THAT(of_link, HasSubstr("/links/2/kind: must be one of nvlink, "));
  EXPECT_EQ(std::count(of_link.begin(), of_link.end(), '\n'), 1) << of_link;

  json = two_nodes();
  json["devices"][2]["kind"] = "gpuu";
  const std::string of_device = complaint([&] { (void)build(json); });
  EXPECT_THAT(of_device, HasSubstr("/devices/2/kind: must be one of gpu, "));
  EXPECT_THAT(of_device, HasSubstr("did you mean \"gpu\"?"));
  EXPECT_EQ(std::count(of_device.begin(), of_device.end(), '\n'), 1) << of_device;
}

// Is a link without capacity refused?
TEST(Cluster, RefusesALinkWithoutCapacity) {
  ClusterSpec spec = nodes_of("dgx_h100", 1);
  spec.node.nvlink = BytesPerSecond{0.0};
  EXPECT_THAT(
      complaint([&] { (void)build_cluster(spec); }),
      HasSubstr("the nvlink link from node 0 gpu 0 to node 0 nvswitch 0 has a capacity of 0"));
}

}  // namespace
}  // namespace trainyard
