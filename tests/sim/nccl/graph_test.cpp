// The graphs that NCCL finds on well-known nodes (published logs and its own rules), and on unusual
// ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "communicators.hpp"
#include "sim/base/check.hpp"
#include "sim/nccl/communicator.hpp"
#include "topologies/topology.hpp"

namespace trainyard::nccl {
namespace {

using namespace testing;

void expect_graph(const ChannelGraph& graph, std::uint32_t channels, double intra, double inter) {
  EXPECT_EQ(graph.channels, channels);
  EXPECT_DOUBLE_EQ(graph.intra, intra);
  EXPECT_DOUBLE_EQ(graph.inter, inter);
}

// Are the rings of known nodes found?
TEST(GraphSearch, RingsOfKnownNodes) {
  expect_graph(search_graphs(a100_node(false)).ring, 12, 20.0, 20.0);
  expect_graph(search_graphs(a100_node(true)).ring, 8, 24.0, 24.0);
  expect_graph(search_graphs(h100_node(false)).ring, 12, 30.0, 30.0);
  expect_graph(search_graphs(h100_node(true)).ring, 8, 45.0, 45.0);
  expect_graph(search_graphs(b200_node(false)).ring, 16, 45.0, 45.0);
}

// Are slow wires used at their rate? Below NCCL's least search rate (3 GB/s) there is one channel
// as fast as its slowest wire.
TEST(GraphSearch, SlowWiresAreUsedAtTheirRate) {
  for (const double rate : {3.0, 2.9, 1.0, 0.5}) {
    SCOPED_TRACE(rate);
    NodeView node = h100_node(false);
    node.nvlink = rate;
    expect_graph(search_graphs(node).ring, 1, rate, rate);
  }
}

// Does the search end at half of the rate that it has found? NVLink of 44 GB/s carries one channel
// of 40. Two of 20 are no better, and the next rate, 15, is below 0.49 of 40: four channels of 11,
// which would carry 44, are not tried. The channel of 40 is split in two.
TEST(GraphSearch, EndsAtHalfOfTheRateFound) {
  expect_graph(search_graphs(switched_node({.nvlink = 44.0, .pcie = 24.0})).ring, 2, 20.0, 20.0);
}

// Are the types of paths correct?
TEST(GraphSearch, TypesOfPaths) {
  EXPECT_EQ(search_graphs(a100_node(true)).ring.type_inter, PathType::OneSwitch);
  EXPECT_EQ(search_graphs(h100_node(true)).ring.type_inter, PathType::NicByPeer);
  EXPECT_EQ(search_graphs(h100_node(true)).ring.type_intra, PathType::NvLink);
}

// Do NVLS heads count twice?
TEST(GraphSearch, NvlsHeadsCountTwice) {
  expect_graph(*search_graphs(h100_node(false)).nvls, 8, 40.0, 60.0);
  expect_graph(*search_graphs(h100_node(true)).nvls, 8, 40.0, 48.0);
  expect_graph(*search_graphs(b200_node(false)).nvls, 8, 80.0, 90.0);
  EXPECT_FALSE(search_graphs(a100_node(false)).nvls.has_value());
}

// Are there as many NVLS heads as NICs? Eight GPUs with four NICs have four.
TEST(GraphSearch, EveryNvlsHeadHasANic) {
  NodeView node = h100_node(true);
  node.nics.resize(4);
  EXPECT_EQ(search_graphs(node).nvls->channels, 4U);
}

// Do trees have the channels of the ring?
TEST(GraphSearch, TreesHaveTheChannelsOfTheRing) {
  for (const NodeView& node : {a100_node(false), a100_node(true), h100_node(false), h100_node(true),
                               b200_node(false), b200_node(true)}) {
    const Graphs graphs = search_graphs(node);
    EXPECT_EQ(graphs.tree.channels, graphs.ring.channels);
    EXPECT_FALSE(graphs.tree.simple_tree);
  }
}

// Are groups of fewer GPUs correct? Two of the eight GPUs keep their whole NVLink.
TEST(GraphSearch, GroupsOfFewerGpus) {
  for (const std::uint32_t gpus : {2U, 4U}) {
    const Graphs graphs = search_graphs(switched_node({.gpus = gpus}));
    expect_graph(graphs.ring, 12, 30.0, 30.0);
    expect_graph(*graphs.nvls, gpus, 60.0, 60.0);
  }
}

// Are there paths only between GPUs of the node?
TEST(NodeLinks, HaveNoPathToAGpuOutsideTheNode) {
  const NodeView node = h100_node(false);
  const NodeLinks links(node);
  EXPECT_EQ(links.to_gpu(0, 7).type, PathType::NvLink);
  EXPECT_THROW(static_cast<void>(links.to_gpu(0, 8)), InternalError);
  EXPECT_THROW(static_cast<void>(links.to_gpu(8, 0)), InternalError);
}

// Do GPUs without NVLink reach each other over the host bridge of their CPU, and over the sockets
// where they have different ones? Four GPUs with PCIe switches of their own, two on each CPU.
TEST(NodeLinks, PathsOverPcieCrossTheHostBridgeOrTheSockets) {
  NodeView node = switched_node({.gpus = 4, .nvlink = 0.0, .pcie = 24.0});
  node.scale_up = NodeView::ScaleUp::None;
  node.socket = 16.0;
  const NodeLinks links(node);
  EXPECT_EQ(links.to_gpu(0, 1).type, PathType::HostBridge);
  EXPECT_EQ(links.to_gpu(0, 1).rate, 24.0);
  EXPECT_EQ(links.to_gpu(1, 2).type, PathType::AcrossSockets);
  EXPECT_EQ(links.to_gpu(1, 2).rate, 16.0);
}

// Do the ways from a GPU to a NIC and back share no wire? Each wire carries one direction.
TEST(NodeLinks, TheWaysToANicAndBackShareNoWire) {
  const NodeView node = h100_node(true);
  const NodeLinks links(node);
  std::size_t ways = 0;
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu) {
    for (std::uint32_t nic = 0; nic < 8; ++nic, ++ways) {
      const std::vector<std::uint32_t>& back = links.from_nic(nic, gpu).wires;
      for (const std::uint32_t wire : links.to_nic(gpu, nic).wires)
        EXPECT_EQ(std::ranges::count(back, wire), 0) << gpu << " and " << nic;
    }
  }
  EXPECT_EQ(ways, 64U);
}

// Does a mesh use every wire? Each of the six orders of a ring over four GPUs that are wired to
// each other fits once, at 40.
TEST(GraphSearch, MeshUsesEveryWire) {
  NodeView node = switched_node({.gpus = 4, .sm = 80, .nvlink = 80.0, .pcie = 24.0});
  node.scale_up = NodeView::ScaleUp::FullMesh;
  expect_graph(search_graphs(node).ring, 12, 20.0, 20.0);
  EXPECT_FALSE(search_graphs(node).nvls.has_value());
}

// Do NICs on ports of one CPU enter at different GPUs? Four GPUs in a full mesh have four NICs that
// are equally near to all of them: four rings of 24, not one.
TEST(GraphSearch, NicsOnPortsOfOneCpuEnterAtDifferentGpus) {
  NodeView node = switched_node({.gpus = 4, .sm = 80, .nvlink = 80.0, .pcie = 24.0, .nic = 25.0});
  node.scale_up = NodeView::ScaleUp::FullMesh;
  for (NodeGpu& gpu : node.gpus) gpu.socket = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    node.nics[i].pcie_switch = 4 + i;
    node.nics[i].socket = 0;
  }
  const NodeLinks links(node);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(links.nearest_gpu_of(i), i);
  expect_graph(search_graphs(node).ring, 4, 24.0, 24.0);
}

// Does the ring of a single rank return at its NIC?
TEST(GraphSearch, LoneRankTurnsAtItsNic) {
  const Graphs graphs = search_graphs(switched_node({.gpus = 1, .nic = 50.0}));
  expect_graph(graphs.ring, 2, 24.0, 24.0);
  expect_graph(graphs.tree, 2, 48.0, 24.0);  // nothing within the node limits it
  EXPECT_TRUE(graphs.tree.simple_tree);
}

// Is a node with only PCIe searched correctly?
TEST(GraphSearch, FindsARingOverPcieAlone) {
  NodeView node =
      switched_node({.gpus = 4, .sm = 80, .nvlink = 0.0, .pcie = 24.0, .per_switch = 2});
  node.scale_up = NodeView::ScaleUp::None;
  node.socket = 16.0;
  const ChannelGraph ring = search_graphs(node).ring;
  EXPECT_GE(ring.channels * ring.intra, 12.0);
  EXPECT_LE(ring.channels * ring.intra, 24.0);
  EXPECT_GE(ring.type_intra, PathType::HostBridge);
}

// Do clusters that are built from node types give the same graphs?
TEST(GraphSearch, ClustersOfNodeTypesHaveTheSameGraphs) {
  struct Known {
    const char* node;
    std::uint32_t nodes;
    std::uint32_t channels;
    double intra;
  };
  for (const Known& known : {Known{"dgx_a100_80gb", 1, 12, 20.0},
                             Known{"dgx_a100_80gb", 2, 8, 24.0}, Known{"dgx_h100", 1, 12, 30.0},
                             Known{"dgx_h100", 4, 8, 45.0}, Known{"dgx_b200", 1, 16, 45.0}}) {
    SCOPED_TRACE(known.node);
    ClusterSpec spec;
    spec.node = load_node(known.node);
    spec.nodes = known.nodes;
    const Cluster cluster = build_cluster(spec);
    std::vector<std::uint32_t> gpus(known.nodes * 8);
    for (std::uint32_t i = 0; i < gpus.size(); ++i) gpus[i] = i;
    const auto facts = host_facts(cluster.facts().gpu, cluster.facts().node);
    ASSERT_TRUE(facts.has_value());
    const NodeView view = node_view({.cluster = cluster, .gpus = gpus}, *facts);
    EXPECT_EQ(view.gpus.size(), 8U);
    EXPECT_EQ(view.nics.size(), known.nodes > 1 ? 8U : 0U);
    expect_graph(search_graphs(view).ring, known.channels, known.intra, known.intra);
  }
}

NodeView view_of_node(const NodeSpec& node) {
  ClusterSpec spec;
  spec.node = node;
  const Cluster cluster = build_cluster(spec);
  const std::vector<std::uint32_t> gpus{0, 1, 2, 3, 4, 5, 6, 7};
  return node_view({.cluster = cluster, .gpus = gpus},
                   {.sm = 90, .nvlink = nvlink_facts(90), .cpu = CpuVendor::Intel});
}

// Are links counted correctly? 18 links of 20.6 GB/s are counted whatever they carry. A wire that
// is not marked as a set of parallel links represents all 18, and in a mesh 18 / 7 of them.
TEST(NodeViewOfCluster, CountsLinks) {
  NodeSpec node = load_node("dgx_h100");
  node.nvlink = BytesPerSecond{741.6e9};
  const NodeView set = view_of_node(node);
  EXPECT_DOUBLE_EQ(set.nvlink, 370.8);
  EXPECT_DOUBLE_EQ(set.nvlink_wire, 20.6);
  EXPECT_DOUBLE_EQ(set.nvlink_share, 2.0);
  node.nvlinks = 1;
  const NodeView wire = view_of_node(node);
  EXPECT_DOUBLE_EQ(wire.nvlink, 370.8);
  EXPECT_DOUBLE_EQ(wire.nvlink_wire, 20.6);
  EXPECT_DOUBLE_EQ(wire.nvlink_share, 2.0);
  node.scale_up = NodeSpec::ScaleUp::FullMesh;
  node.nvlink = BytesPerSecond{7 * 41.2e9};
  const NodeView mesh = view_of_node(node);
  EXPECT_DOUBLE_EQ(mesh.nvlink, 2 * 20.6);
  EXPECT_DOUBLE_EQ(mesh.nvlink_share, 1.0);
}

// Does every NVIDIA node have a ring?
TEST(GraphSearch, EveryNvidiaNodeHasARing) {
  std::size_t nodes = 0;
  for (const std::string& name : node_names()) {
    SCOPED_TRACE(name);
    ClusterSpec spec;
    spec.node = load_node(name);
    spec.nodes = 2;
    const Cluster cluster = build_cluster(spec);
    const auto facts = host_facts(cluster.facts().gpu, cluster.facts().node);
    EXPECT_EQ(facts.has_value(), name != "mi300x");
    if (!facts) continue;
    std::vector<std::uint32_t> gpus(gpu_count(spec));
    for (std::uint32_t i = 0; i < gpus.size(); ++i) gpus[i] = i;
    const Graphs graphs = search_graphs(node_view({.cluster = cluster, .gpus = gpus}, *facts));
    EXPECT_GE(graphs.ring.channels * graphs.ring.intra, 100.0);
    EXPECT_EQ(graphs.tree.channels, graphs.ring.channels);
    ++nodes;
  }
  EXPECT_GE(nodes, 10U);
}

}  // namespace
}  // namespace trainyard::nccl
