// One dead NIC of eight costs NCCL an eighth of its network, not half of it.
//
// NCCL's search (NVIDIA/nccl src/graph/search.cc, ncclTopoCompute) starts a channel at each
// existing NIC, so a node with seven has 7 rings of 48 GB/s instead of 8 of 45. Then all ranks take
// the least number of channels and the least rates of all nodes (src/init.cc, initTransportsRank: 7
// of 45 if only one node has lost a NIC). No NIC carries two channels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "communicators.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/collectives/symbolic_check.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "tests/sim/collectives/engine_run.hpp"
#include "tests/sim/collectives/test_clusters.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;
using nccl::testing::h100_node;

Cluster h100_nodes(std::uint32_t nodes, std::vector<Fault> faults,
                   const char* fabric = "rail_optimized") {
  ClusterSpec spec;
  spec.node = load_node("dgx_h100");
  spec.nodes = nodes;
  spec.fabric.kind = fabric_named(fabric);
  spec.faults = std::move(faults);
  return build_cluster(spec);
}

Fault dead_nic(std::uint32_t node) {
  return {.part = Fault::Part::Device, .device = "node " + std::to_string(node) + " nic 3"};
}
Fault dead_rail() { return {.part = Fault::Part::Rail, .rail = 3}; }

double time_us(const Cluster& cluster, const char* method) {
  const std::vector<std::uint32_t> gpus =
      gpus_of(static_cast<std::uint32_t>(cluster.gpus().size()), 1);
  const NcclModel communication(cluster, {.algorithms = parse_algorithms(method)});
  const Workload workload = one_collective(gpus, CollectiveOp::AllReduce, 1LL << 30, "nccl");
  const std::vector<double> kernel_seconds(workload.kernels.size(), 0.0);
  const Partition partition = fold(cluster, workload, communication, {.enabled = true});
  const EngineInput input{.cluster = cluster,
                          .workload = workload,
                          .partition = partition,
                          .kernel_seconds = kernel_seconds,
                          .progress = {}};
  return 1e6 * make_engine("simgrid")->run(input).makespan_s;
}

void expect_ring(const ChannelGraph& graph, std::uint32_t channels, double rate) {
  EXPECT_EQ(graph.channels, channels);
  EXPECT_DOUBLE_EQ(graph.intra, rate);
  EXPECT_DOUBLE_EQ(graph.inter, rate);
}

// Does the search have a channel for each remaining NIC?
TEST(DeadNic, TheSearchHasAChannelForEachRemainingNic) {
  for (const std::ptrdiff_t dead : {0, 3, 7}) {
    NodeView node = h100_node(true);
    node.nics.erase(node.nics.begin() + dead);
    const Graphs graphs = search_graphs(node);
    expect_ring(graphs.ring, 7, 48.0);
    expect_ring(graphs.tree, 7, 48.0);
    EXPECT_EQ(graphs.nvls->channels, 7U);
  }
}

// Do all nodes take the least of each? This holds for any position of the node in the group; groups
// without this node keep their channels.
TEST(DeadNic, AllNodesUseTheMinimumOfEachNumber) {
  const std::vector<std::uint32_t> all = gpus_of(32, 1);
  for (const std::uint32_t node : {0U, 2U, 3U}) {
    const Cluster cluster = h100_nodes(4, {dead_nic(node)});
    const NcclModel communication(cluster, {});
    expect_ring(communication.communicator(all).graphs.ring, 7, 45.0);
    EXPECT_EQ(communication.communicator(all).node.nics.size(), 7U);
    const std::uint32_t first = node == 0 ? 16 : 0;
    std::vector<std::uint32_t> pair = gpus_of(16, 1);
    for (std::uint32_t& gpu : pair) gpu += first;
    expect_ring(communication.communicator(pair).graphs.ring, 8, 45.0);
  }
  const Cluster cluster = h100_nodes(4, {dead_rail()});
  expect_ring(NcclModel(cluster, {}).communicator(all).graphs.ring, 7, 48.0);
}

// Does a dead NIC cost an eighth of the network? The time is eight sevenths if the network is the
// limit, for every method. With two of eight channels on one NIC it was once twice the time.
TEST(DeadNic, CostsAnEighthOfTheNetwork) {
  for (const std::uint32_t nodes : {2U, 4U}) {
    for (const char* method : {"Ring", "Tree", "NVLSTree"}) {
      const double whole = time_us(h100_nodes(nodes, {}), method);
      for (const Fault& fault : {dead_nic(0), dead_nic(1), dead_rail()}) {
        SCOPED_TRACE(std::string(method) + " " + std::to_string(nodes) + " " + fault.device);
        const double ratio = time_us(h100_nodes(nodes, {fault}), method) / whole;
        EXPECT_GE(ratio, 0.99);
        EXPECT_LE(ratio, 8.0 / 7.0 * 1.03);
      }
    }
  }
}

// Is the rail of the dead NIC left out on every node?
TEST(DeadNic, ItsRailIsLeftOutOnEveryNode) {
  const std::vector<std::uint32_t> gpus = gpus_of(32, 1);
  const auto rails = [&](const Cluster& cluster) {
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    return rails_of(placed, placement_of(placed));
  };
  using Rails = std::vector<std::uint32_t>;
  EXPECT_EQ(rails(h100_nodes(4, {})), (Rails{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rails(h100_nodes(4, {dead_nic(2)})), (Rails{0, 1, 2, 4, 5, 6, 7}));
  // If every rank's rail is dead on some node, leaving them out gains nothing.
  std::vector<Fault> everywhere;
  for (std::uint32_t i = 0; i < 4; ++i)
    for (const std::uint32_t nic : {i, 7 - i})
      everywhere.push_back(
          {.part = Fault::Part::Device, .device = fmt::format("node {} nic {}", i, nic)});
  EXPECT_EQ(rails(h100_nodes(4, everywhere)).size(), 8U);
}

// Do the messages still add up?
TEST(DeadNic, MessagesStillAddUp) {
  const Cluster cluster = h100_nodes(2, {dead_nic(1)});
  const std::vector<std::uint32_t> gpus = gpus_of(16, 1);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const char* name : {"ring", "tree", "nvls_tree"}) {
    const CollectiveAlgorithm* algorithm = find_algorithm(CollectiveOp::AllReduce, name);
    ASSERT_NE(algorithm, nullptr);
    EXPECT_EQ(symbolic_fault(*algorithm, placed, Bytes{1 << 20}).value_or(""), "") << name;
  }
}

}  // namespace
}  // namespace trainyard::nccl
