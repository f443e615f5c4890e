// NVLS and NVLSTree: what they put on the wires.
#include "sim/collectives/algorithms/nvls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/collectives/test_clusters.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;

// Oracle 9, with no step latency: (n+1)/n S/B.
TEST(Nvls, SwitchBoundOfAllReduce) {
  const Cluster cluster = make_cluster({.gpus = 8, .nvlink = 370.8e9, .intra_us = 0.0});
  const auto gpus = gpus_of(8);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  const double time = time_of(cluster, nvls_all_reduce().phases(place, Bytes{kGibibyte}));
  EXPECT_NEAR(1e6 * time, 3257.711845, 5e-7);
  EXPECT_NEAR(kGibibyte / time * 2 * 7 / 8 / 1e9, 576.8, 1e-9 * 576.8);
}

TEST(Nvls, GathersSendOrReceiveTheBuffer) {
  const Cluster cluster = make_cluster({.gpus = 4, .intra_us = 5.0});
  const auto gpus = gpus_of(4);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  for (const bool gathers : {true, false}) {
    const CollectiveAlgorithm& algorithm = gathers ? nvls_all_gather() : nvls_reduce_scatter();
    const std::vector<double> bytes = bytes_on_links(cluster, algorithm.phases(place, Bytes{4e6}));
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::NvLink) continue;
      const bool up = cluster.device(link.from).kind == DeviceKind::Gpu;
      EXPECT_DOUBLE_EQ(bytes[link.id], up == gathers ? 1e6 : 4e6);
    }
  }
}

TEST(Nvls, RefusesWhatHasNoSwitch) {
  const auto gpus = gpus_of(4);
  const Cluster mesh = make_cluster({.gpus = 4, .mesh = true});
  EXPECT_TRUE(nvls_refusal({.cluster = mesh, .gpus = gpus}).has_value());
  const Cluster nodes = make_cluster({.nodes = 2, .gpus = 2});
  EXPECT_TRUE(nvls_refusal({.cluster = nodes, .gpus = gpus}).has_value());
  EXPECT_FALSE(nvls_tree_refusal({.cluster = nodes, .gpus = gpus}).has_value());
  const auto rail = gpus_of(2, 2);
  EXPECT_TRUE(nvls_tree_refusal({.cluster = nodes, .gpus = rail}).has_value());
  const std::vector<std::uint32_t> one_alone{0, 1, 2};
  EXPECT_TRUE(nvls_tree_refusal({.cluster = nodes, .gpus = one_alone}).has_value());
  const Cluster one = star(4);
  EXPECT_TRUE(nvls_tree_refusal({.cluster = one, .gpus = gpus}).has_value());
}

// The switch takes part: with n GPUs each part goes up n times and down once, and back.
TEST(Nvls, SwitchTakesPartInTheMessages) {
  const Cluster cluster = star(4);
  const auto gpus = gpus_of(4);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  const std::vector<DeviceId> switches = nvls_all_reduce().switches(place);
  ASSERT_EQ(switches.size(), 1U);
  EXPECT_EQ(cluster.device(switches[0]).kind, DeviceKind::NvSwitch);
  const std::vector<Message> messages = nvls_all_reduce().messages(place, Bytes{4e3});
  EXPECT_EQ(messages.size(), 4U * (4U + 1U + 1U + 4U));
  for (const Message& message : messages) EXPECT_TRUE((message.from == 4) != (message.to == 4));
}

// A chunk of a head is 4 KiB at least; their number keeps the operations of many ranks
// bounded.
TEST(Nvls, Chunks) {
  EXPECT_EQ(nvls_chunks_most(8), 1024U);
  EXPECT_EQ(nvls_chunks_most(64), 32U);
  EXPECT_EQ(nvls_chunks(8, Bytes{kGibibyte}), 1024U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 20}), 32U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 17}), 4U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 10}), 1U);
}

// Within the node as NVLS; across, 2 (N-1) edges of each tree carry half a head's part both ways.
TEST(NvlsTree, BytesOnWires) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const auto gpus = gpus_of(32);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  const std::vector<MultiLinkFlow> link_flows = nvls_tree_flows(place, 8e6);
  EXPECT_EQ(link_flows.size(), 16U);
  const std::vector<double> bytes = bytes_on_links(cluster, {{.latency = {}, .flows = link_flows}});
  double ports = 0.0;
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NvLink) {
      EXPECT_NEAR(bytes[link.id], 8e6 * 9.0 / 8.0, 1e-3);
    }
    const bool out = cluster.device(link.from).kind == DeviceKind::Nic;
    if (link.kind == LinkKind::NicPort && out) ports += bytes[link.id];
  }
  EXPECT_NEAR(ports, 2.0 * 3.0 * 8e6, 1e-3);
}

// Twelve replicas on nodes of eight GPUs: the node that has fewer sets the heads, of which there
// are four on both; the others of the fuller node add and take copies alone.
TEST(NvlsTree, TakesAsManyHeadsAsTheNodeWithFewestHasRanks) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 8});
  const auto gpus = gpus_of(12);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  ASSERT_FALSE(nvls_tree_refusal(place).has_value());
  const std::vector<MultiLinkFlow> link_flows = nvls_tree_flows(place, 8e6);
  EXPECT_EQ(link_flows.size(), 8U);
  const std::vector<double> bytes = bytes_on_links(cluster, {{.latency = {}, .flows = link_flows}});
  double ports = 0.0;
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    if (link.kind == LinkKind::NicPort && from == DeviceKind::Nic) ports += bytes[link.id];
    if (link.kind != LinkKind::NvLink) continue;
    const DeviceId gpu = from == DeviceKind::Gpu ? link.from : link.to;
    const auto found = std::ranges::find(cluster.gpus(), gpu);
    const auto number = found - cluster.gpus().begin();
    const bool head = number < 4 || number >= 8;
    EXPECT_NEAR(bytes[link.id], number >= 12 ? 0.0 : head ? 8e6 * 5.0 / 4.0 : 8e6, 1e-3) << number;
  }
  EXPECT_NEAR(ports, 2.0 * 8e6, 1e-3);
}

}  // namespace
}  // namespace trainyard::nccl
