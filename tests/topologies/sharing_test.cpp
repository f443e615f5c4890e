// Do transfers that share links inside a node and above the leaves end when max-min fairness
// predicts?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/cluster/fabric_figures.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "tests/sim/workload/hand_workload.hpp"
#include "tests/topologies/one_gpu_node.hpp"

namespace trainyard {
namespace {

using test::add_group;
using test::add_rank;
using test::ProgramWriter;

struct Flow {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t bytes = 0;
};

// The end of each flow, in seconds, if all start together; without latencies.
std::vector<double> ends(const Cluster& cluster, const std::vector<Flow>& flows) {
  Workload workload = test::empty_workload();
  const auto gpus = static_cast<std::uint32_t>(cluster.gpus().size());
  std::vector<OpIndex> sends;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    ProgramWriter program(workload, fmt::format("gpu {}", gpu));
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const std::string name = fmt::format("flow {}", i);
      if (flows[i].from == gpu) program.send(name, name, flows[i].bytes);
      if (flows[i].to == gpu) program.receive(name, name, flows[i].bytes);
    }
    program.delay("end", 1e-9);
  }
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) add_rank(workload, gpu, gpu);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    add_group(workload, GroupKind::Pipeline, {RankId{flows[i].from}, RankId{flows[i].to}},
              {fmt::format("flow {}", i)});
  }
  const Partition partition = fold(cluster, workload, AlgorithmModel(cluster), {.enabled = false});
  const Timeline timeline = make_engine("simgrid")->run({.cluster = cluster,
                                                         .workload = workload,
                                                         .partition = partition,
                                                         .kernel_seconds = {},
                                                         .progress = {}});
  std::vector<double> result;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const std::uint32_t rank = flows[i].to;
    const Program& program = workload.programs[rank];
    for (std::size_t op = 0; op < program.operations.size(); ++op) {
      const bool own = workload.streams[program.operations[op].stream] == fmt::format("flow {}", i);
      if (own) result.push_back(timeline.classes[partition.class_of_rank[rank]].end_s[op]);
    }
  }
  EXPECT_EQ(result.size(), flows.size());
  return result;
}

// Two GPUs and two NICs behind one PCIe switch (24 GB/s a GPU), NICs of 23.5 GB/s, no NVLink.
ClusterSpec pcie_nodes(std::uint32_t nics) {
  ClusterSpec spec = nodes_of("dgx_a100_80gb", 2);
  spec.node.scale_up = NodeSpec::ScaleUp::None;
  spec.node.nics = nics;
  spec.node.latency = {};
  return spec;
}

constexpr std::int64_t kGiga = 1'000'000'000;

// Do network and host traffic share the GPU's PCIe link? GPU 2 receives from GPUs 0, 1 (over the
// CPU) and 3 through its one PCIe link: 8 GB/s each. GPU 0 also sends to the network and has 24 - 8
// = 16 GB/s left for it.
TEST(Sharing, NetworkAndHostTrafficMeetOnTheGpusPcie) {
  const Cluster cluster = build_cluster(pcie_nodes(8));
  const std::vector<double> done =
      ends(cluster, {{0, 8, 16 * kGiga}, {0, 2, 8 * kGiga}, {1, 2, 8 * kGiga}, {3, 2, 8 * kGiga}});
  for (const double end : done) EXPECT_NEAR(end, 1.0, 1e-9);
}

// Do neighbours on a switch not disturb each other? The host traffic of GPU 1 and its neighbour's
// network traffic have no link in common.
TEST(Sharing, NeighboursOnASwitchDoNotDisturbEachOther) {
  const Cluster cluster = build_cluster(pcie_nodes(8));
  const std::vector<double> done =
      ends(cluster, {{0, 8, 47 * kGiga / 2}, {1, 9, 47 * kGiga / 2}, {2, 3, 24 * kGiga}});
  for (const double end : done) EXPECT_NEAR(end, 1.0, 1e-9);
}

// Do two GPUs each get half of their NIC? Four NICs serve eight GPUs: neighbours have half a NIC
// each, and a GPU that sends alone has all of it.
TEST(Sharing, TwoGpusHalveTheirNic) {
  const Cluster cluster = build_cluster(pcie_nodes(4));
  const std::vector<double> done =
      ends(cluster, {{0, 8, 47 * kGiga / 4}, {1, 9, 47 * kGiga / 4}, {2, 10, 47 * kGiga / 2}});
  for (const double end : done) EXPECT_NEAR(end, 1.0, 1e-9);
}

// Do the uplinks bound an oversubscribed all-to-all? With o : 1 a GPU's rate in an all-to-all is at
// most B / (o x the share that leaves its leaf). 24 NICs on a leaf with 8 uplinks, 48 nodes on 2
// leaves: 24/47 of the bytes cross.
TEST(Sharing, OversubscribedAllToAllIsBoundedByTheUplinks) {
  ClusterSpec spec = one_gpu_nodes(48, {.kind = FatTree{.radix = 32, .oversubscription = 3.0}});
  const Cluster cluster = build_cluster(spec);
  ASSERT_EQ(count_fabric(cluster).leaves, 2U);
  const double bytes = 1e6;  // from each to each
  double worst_s = 0.0;
  std::vector<double> flows(cluster.links().size(), 0.0);
  for (std::uint32_t a = 0; a < 48; ++a) {
    for (std::uint32_t b = 0; b < 48; ++b) add_flow(flows, cluster.router().route(a, b));
  }
  for (const Link& link : cluster.links()) {
    worst_s = std::max(worst_s, flows[link.id] * bytes / link.capacity.value());
  }
  const double share = 24.0 / 47.0;
  const double rate = 47.0 * bytes / worst_s;
  EXPECT_NEAR(rate, 48.5e9 / (3.0 * share), 1.0);
}

// Does an oversubscribed exchange take longer by the ratio? This is the same through the engine,
// smaller: 6 NICs over 2 uplinks, every GPU sends across.
TEST(Sharing, OversubscribedExchangeTakesTheRatioAsLong) {
  ClusterSpec spec =
      one_gpu_nodes(12, {.kind = FatTree{.radix = 8, .oversubscription = 3.0, .hop_latency = {}}});
  spec.node.latency = {};
  spec.node.nic_latency = {};
  const Cluster cluster = build_cluster(spec);
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < 12; ++i) flows.push_back({i, (i + 6) % 12, 97 * kGiga / 6});
  for (const double end : ends(cluster, flows)) EXPECT_NEAR(end, 1.0, 1e-9);
}

}  // namespace
}  // namespace trainyard
