// Are the shipped node descriptions readable, with their sources, and do they build symmetric
// clusters?
#include "topologies/node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

class EveryNode : public testing::TestWithParam<std::string> {};

bool is_figure(const Json& value) {
  if (value.is_number()) return true;
  if (!value.is_string()) return false;
  const auto text = value.get<std::string>();
  return parse_rate(text) || parse_time(text) || parse_bytes(text);
}

// Returns the number of objects that have figures.
std::size_t expect_sources(const Json& object, const std::string& pointer) {
  std::size_t sourced = 0;
  bool figures = false;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) sourced += expect_sources(value, pointer + "/" + key);
    figures = figures || is_figure(value);
  }
  if (!figures) return sourced;
  const std::string source = object.value("source", "");
  EXPECT_GT(source.size(), 10U) << pointer << " has figures and no source";
  return sourced + 1;
}

// Does every figure have a source?
TEST_P(EveryNode, NamesASourceBesideEveryFigure) {
  const Json node = parse_unchecked_json(read_file(data_file("topologies/data", GetParam())));
  EXPECT_GE(expect_sources(node, ""), 1U);
}

// Is no figure higher than the nominal one?
TEST_P(EveryNode, IsNoFasterThanSold) {
  const NodeSpec node = load_node(GetParam());
  EXPECT_EQ(node.name, GetParam());
  EXPECT_GT(node.gpu_memory.value(), 32e9);
  for (const auto& [usable, nominal] :
       {std::pair{node.nvlink, node.nvlink_nominal}, std::pair{node.pcie, node.pcie_nominal},
        std::pair{node.nic, node.nic_nominal}, std::pair{node.socket, node.socket_nominal},
        std::pair{node.chip_to_chip, node.chip_to_chip_nominal}}) {
    EXPECT_LE(usable, nominal);
  }
  EXPECT_GT(node.nvlink.value(), 0.0);
  EXPECT_GT(node.nic.value(), 0.0);
}

// Does the node read back from its own text?
TEST_P(EveryNode, ReadsBackFromItsOwnText) {
  const NodeSpec node = load_node(GetParam());
  JsonFile file = JsonFile::parse("again.json", to_json(node).dump());
  const NodeSpec again = read_node(file.root(), "other");
  file.finish();
  EXPECT_EQ(to_json(again), to_json(node));
  EXPECT_EQ(again.nvlink, node.nvlink);
  EXPECT_EQ(again.gpu_memory, node.gpu_memory);
}

// The surroundings of a device: its links by kind and direction with their capacity.
using Surroundings = std::multimap<std::pair<LinkKind, bool>, double>;

std::map<DeviceId, Surroundings> surroundings(const Cluster& cluster) {
  std::map<DeviceId, Surroundings> seen;
  for (const Link& link : cluster.links()) {
    seen[link.from].insert({{link.kind, true}, link.capacity.value()});
    seen[link.to].insert({{link.kind, false}, link.capacity.value()});
  }
  return seen;
}

// Does the node look the same from every GPU?
TEST_P(EveryNode, LooksTheSameFromEveryGpu) {
  const Cluster cluster = build_cluster(nodes_of(GetParam(), 2));
  const auto seen = surroundings(cluster);
  for (std::size_t i = 0; i < cluster.gpus().size(); ++i) {
    EXPECT_EQ(seen.at(cluster.gpus()[i]), seen.at(cluster.gpus()[0])) << i;
    EXPECT_EQ(seen.at(cluster.nic_of_gpu()[i]), seen.at(cluster.nic_of_gpu()[0])) << i;
  }
}

// Does the node join all its GPUs?
TEST_P(EveryNode, JoinsAllItsGpus) {
  const Cluster cluster = build_cluster(nodes_of(GetParam(), 1));
  const auto gpus = static_cast<std::uint32_t>(cluster.gpus().size());
  for (std::uint32_t a = 0; a < gpus; ++a) {
    for (std::uint32_t b = 0; b < gpus; ++b)
      EXPECT_EQ(cluster.router().route(a, b).empty(), a == b);
  }
}

INSTANTIATE_TEST_SUITE_P(Data, EveryNode, testing::ValuesIn(node_names()),
                         [](const auto& instance) { return instance.param; });

// Do the promised kinds ship?
TEST(Node, ShipsThePromisedKinds) {
  EXPECT_THAT(node_names(),
              testing::ElementsAre("dgx_a100_40gb", "dgx_a100_80gb", "dgx_b200", "dgx_b300",
                                   "dgx_h100", "dgx_h200", "gb200_nvl72", "gb300_nvl72",
                                   "grand_teton_h100", "hgx_h800", "mi300x"));
}

// Is the usable NVLink rate the one that NCCL uses?
TEST(Node, UsableNvlinkIsWhatNcclTakes) {
  // Links of a GPU times NCCL's rate of a link: 12 x 20, 18 x 20.6, 8 x 20.6, 18 x 40.1.
  EXPECT_DOUBLE_EQ(load_node("dgx_a100_80gb").nvlink.value(), 12 * 20e9);
  EXPECT_DOUBLE_EQ(load_node("dgx_h100").nvlink.value(), 18 * 20.6e9);
  EXPECT_DOUBLE_EQ(load_node("hgx_h800").nvlink.value(), 8 * 20.6e9);
  EXPECT_DOUBLE_EQ(load_node("dgx_b200").nvlink.value(), 18 * 40.1e9);
}

// Does a DGX A100 have two GPUs and two NICs on a PCIe switch?
TEST(Node, DgxA100PutsTwoGpusAndTwoNicsOnAPcieSwitch) {
  const Cluster cluster = build_cluster(nodes_of("dgx_a100_80gb", 1));
  std::map<DeviceKind, int> count;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    ++count[cluster.device(id).kind];
  }
  EXPECT_EQ(count[DeviceKind::Gpu], 8);
  EXPECT_EQ(count[DeviceKind::Nic], 8);
  EXPECT_EQ(count[DeviceKind::PcieSwitch], 4);
  EXPECT_EQ(count[DeviceKind::Cpu], 2);
  EXPECT_EQ(count[DeviceKind::NvSwitch], 1);
  // NVLink 8 cables, PCIe 8 + 8 + 4, socket 1: 29, in both directions.
  EXPECT_EQ(cluster.links().size(), 58U);
}

// Does the mesh of MI300X have a link per pair?
TEST(Node, MeshOfMi300xHasALinkPerPair) {
  const Cluster cluster = build_cluster(nodes_of("mi300x", 1));
  int pairs = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::NvLink) continue;
    ++pairs;
    EXPECT_DOUBLE_EQ(link.nominal.value(), 64e9);
    EXPECT_DOUBLE_EQ(link.capacity.value(), 48e9);
  }
  EXPECT_EQ(pairs, 8 * 7);
  EXPECT_EQ(cluster.router().route(0, 5).size(), 1U);
}

// Is NVL72 one NVLink domain?
TEST(Node, Nvl72IsOneNvlinkDomain) {
  const Cluster cluster = build_cluster(nodes_of("gb200_nvl72", 1));
  EXPECT_EQ(cluster.gpus().size(), 72U);
  const Route route = cluster.router().route(0, 71);
  ASSERT_EQ(route.size(), 2U);
  for (const RouteHop& hop : route) EXPECT_EQ(cluster.link(hop.link).kind, LinkKind::NvLink);
}

// Is an unknown name refused with the nearest one?
TEST(Node, UnknownNameIsRefusedWithTheNearest) {
  EXPECT_THAT(complaint([] { (void)load_node("dgx_h10"); }),
              testing::HasSubstr("did you mean \"dgx_h100\""));
}

// Can a mesh of 256 GPUs be built and routed? The routes between all pairs of a mesh are found
// among its neighbours. With a number of operations proportional to the fourth power of the GPUs
// this would take minutes.
TEST(Mesh, Of256GpusIsBuiltAndRouted) {
  NodeSpec node = load_node("mi300x");
  node.gpus = node.nics = 256;
  node.nvlinks = 255;
  const Cluster cluster = build_cluster({.node = node, .nodes = 1});
  std::size_t routes = 0;
  for (std::uint32_t from = 0; from < 256; ++from) {
    for (std::uint32_t to = 0; to < 256; ++to) {
      if (from == to) continue;
      ASSERT_EQ(cluster.router().route(from, to).size(), 1U);
      ASSERT_EQ(cluster.latency().extra(from, to), Seconds{});
      ++routes;
    }
  }
  EXPECT_EQ(routes, 256U * 255U);
}

}  // namespace
}  // namespace trainyard
