// The output of `show topology`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/render/views/views.hpp"
#include "tests/topologies/one_gpu_node.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Does the table count the devices and links?
TEST(TopologyTable, CountsDevicesAndLinks) {
  const std::string text =
      topology_table(build_cluster(nodes_of("dgx_h100", 32, {.kind = RailOptimized{}})));
  EXPECT_THAT(text, StartsWith("32 x dgx_h100, rail_optimized\n256 GPUs (h100, 79.65 GiB usable"));
  EXPECT_THAT(text, HasSubstr("gpu                256         8\n"));
  EXPECT_THAT(text, HasSubstr("spine                4         -\n"));
  EXPECT_THAT(text, HasSubstr("370.8 GB/s      450 GB/s     375 ns"));
  EXPECT_THAT(text, HasSubstr("bisection     6.144 TB/s each way"));
  EXPECT_THAT(text, HasSubstr("48 GB/s per GPU"));
  EXPECT_THAT(text, HasSubstr("node to leaf 256, leaf to spine 256, spine to core 0"));
}

// Does the table name both endpoints of links?
TEST(TopologyTable, NamesBothEndsOfLinks) {
  const std::string text = topology_table(h100s(4));
  for (const char* ends : {"gpu - nvswitch", "pcie_switch - nic", "nic - leaf"})
    EXPECT_THAT(text, HasSubstr(ends));
}

// Does the matrix have the form of nvidia-smi's?
TEST(TopologyMatrix, HasTheWordsOfNvidiaSmi) {
  const std::string text = topology_matrix(build_cluster(nodes_of("dgx_a100_80gb", 2)), 1);
  EXPECT_THAT(text, HasSubstr("GPU0       X  NV12  NV12  NV12  NV12  NV12  NV12  NV12"
                              "   PIX   PIX  NODE  NODE   SYS   SYS   SYS   SYS\n"));
  EXPECT_THAT(text, HasSubstr("NIC7     SYS   SYS   SYS   SYS  NODE  NODE   PIX   PIX"
                              "   SYS   SYS   SYS   SYS  NODE  NODE   PIX     X\n"));
  EXPECT_THAT(text, HasSubstr("  SYS  "));
}

// Is the matrix symmetric?
TEST(TopologyMatrix, IsSymmetric) {
  for (const std::string& name : node_names()) {
    const std::string text = topology_matrix(build_cluster(nodes_of(name, 1)), 0);
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && !line.empty()) {
      std::istringstream words(line);
      rows.emplace_back(std::istream_iterator<std::string>(words),
                        std::istream_iterator<std::string>());
    }
    const std::size_t size = rows.size();
    ASSERT_GE(size, 16U);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(rows[i].size(), size + 1) << name;
      for (std::size_t j = 0; j < size; ++j) {
        EXPECT_EQ(rows[i][j + 1] == "X", i == j) << name;
        EXPECT_EQ(rows[i][j + 1], rows[j][i + 1]) << name;
      }
    }
  }
}

// Does the matrix show pairs without a switch, and pairs that are cut off?
TEST(TopologyMatrix, DistinguishesPairsWithoutASwitchAndWithoutARoute) {
  const std::string text = topology_matrix(build_cluster(nodes_of("gb200_nvl72", 1)), 0);
  EXPECT_THAT(text, HasSubstr("NV18"));
  // the GPU's own Grace, the other one of the tray, and none
  EXPECT_THAT(text, HasSubstr("PHB   PHB   SYS   SYS     -"));
}

std::size_t edges_of(const std::string& dot) {
  std::size_t edges = 0;
  for (std::size_t at = dot.find("--"); at != std::string::npos; at = dot.find("--", at + 1)) {
    ++edges;
  }
  return edges;
}

// Does the drawing hold every device of a small cluster?
TEST(TopologyDot, DrawsEveryDeviceOfASmallCluster) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const std::string text = topology_dot(cluster);
  EXPECT_THAT(text, StartsWith("graph G {"));
  EXPECT_THAT(text, HasSubstr("[label=\"node 1 gpu 7\", shape=box];"));
  EXPECT_EQ(edges_of(text), cluster.links().size() / 2);
}

// Edges of a drawing in addition to those of its nodes: cables of NICs and sets of parallel links
// between switches.
std::size_t fabric_edges(const Cluster& cluster, const std::string& dot) {
  std::size_t inside = 0;
  for (const Link& link : cluster.links()) {
    const bool stays = cluster.device(link.from).node >= 0 && cluster.device(link.to).node >= 0;
    inside += stays ? 1 : 0;
  }
  return edges_of(dot) - inside / 2;
}

struct Fabric {
  const char* name;
  ClusterSpec spec;
  std::size_t edges;  // counted by hand
  const char* device;
  std::vector<const char*> lines;
};

ClusterSpec with_fault(ClusterSpec spec, Fault fault) {
  spec.faults = {std::move(fault)};
  return spec;
}

std::vector<Fabric> drawn_fabrics() {
  const FabricSpec ecmp{
      .kind = FatTree{.radix = 8},
      .routing = {.kind = Routing::Kind::Ecmp, .seed = 7, .flows_per_connection = 4}};
  return {
      // 8 NICs; two rings of four wires, four wires of two cables across.
      {"torus",
       one_gpu_nodes(8, {.kind = Torus{.dims = {4, 2}, .cables = 1}}),
       8 + 8 + 4,
       "router 7",
       {"8 x dgx_h100, torus", "between neighbours 16, between groups 0"}},
      // 64 NICs; two groups of 8 routers, 28 cables each; 32 global ones in sets of 4 parallel
      // links.
      {"dragonfly",
       one_gpu_nodes(64, {.kind = Dragonfly{.radix = 15}}),
       64 + 56 + 8,
       "router 15",
       {"between neighbours 56, between groups 32", "global"}},
      // One leaf per plane.
      {"multi_plane",
       nodes_of("dgx_h100", 4, {.kind = MultiPlane{}}),
       32,
       "leaf 7",
       {"node to leaf 32, leaf to spine 0", "leaf                 8         -"}},
      // Two planes of eight rails: every NIC has a cable to both; the eight leaves of each plane
      // have four spines.
      {"dual_tor",
       nodes_of("dgx_h100", 4, {.kind = DualTor{}}),
       64 + 2 * 8 * 4,
       "leaf 15",
       {"node to leaf 64, leaf to spine 512", "24.25 GB/s"}},
      // 12 NICs on three leaves of four, with two cables to each of two spines: static hashing uses
      // them one by one, and the drawing shows them as one line.
      {"ecmp",
       one_gpu_nodes(12, ecmp),
       12 + 3 * 2,
       "leaf 2",
       {"routing       ecmp, 4 flows per connection, seed 7", "fat_tree, ecmp"}},
      // The NICs of a rail have lost their leaf, which still has its four spines.
      {"dead rail",
       with_fault(nodes_of("dgx_h100", 4, {.kind = RailOptimized{}}),
                  {.part = Fault::Part::Rail, .rail = 2}),
       32 - 4 + 8 * 4,
       "leaf 7",
       {"rail_optimized, 1 fault", "node to leaf 28"}},
  };
}

// Do the views draw and count every kind of fabric?
TEST(TopologyViews, DrawAndCountEveryKindOfFabric) {
  for (const Fabric& fabric : drawn_fabrics()) {
    SCOPED_TRACE(fabric.name);
    const Cluster cluster = build_cluster(fabric.spec);
    const std::string dot = topology_dot(cluster);
    EXPECT_THAT(dot, HasSubstr(fabric.device));
    const bool boxes = cluster.facts().nodes > kDotNodesMost;
    EXPECT_FALSE(boxes);
    EXPECT_EQ(fabric_edges(cluster, dot), fabric.edges);
    for (const char* line : fabric.lines) EXPECT_THAT(topology_table(cluster), HasSubstr(line));
  }
}

// Does the drawing collapse many nodes, and does it report so?
TEST(TopologyDot, CollapsesManyNodesAndSaysSo) {
  const std::string text =
      topology_dot(build_cluster(nodes_of("dgx_h100", 65, {.kind = FatTree{}})));
  EXPECT_THAT(text, HasSubstr("each node is one box: there are more than 64"));
  EXPECT_THAT(text, HasSubstr("[label=\"node 64\", shape=box3d];"));
  EXPECT_THAT(text, Not(HasSubstr("gpu")));
  EXPECT_THAT(text, HasSubstr("8 x nic 48.5 GB/s"));
}

}  // namespace
}  // namespace trainyard
