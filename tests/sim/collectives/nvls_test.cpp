// NVLS and NVLSTree: their loads on the links.
#include "sim/collectives/algorithms/nvls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/collectives/test_clusters.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;

// Does an all_reduce take the bound of the switch (oracle 9, without step latency: (n+1)/n S/B)?
TEST(Nvls, SwitchBoundOfAllReduce) {
  const Cluster cluster = make_cluster({.gpus = 8, .nvlink = 370.8e9, .intra_us = 0.0});
  const auto gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const double time = time_of(cluster, nvls_all_reduce().phases(placed, Bytes{kGibibyte}));
  EXPECT_NEAR(1e6 * time, 3257.711845, 5e-7);
  EXPECT_NEAR(kGibibyte / time * 2 * 7 / 8 / 1e9, 576.8, 1e-9 * 576.8);
}

// Do gathers send or receive the whole buffer?
TEST(Nvls, GathersSendOrReceiveTheBuffer) {
  const Cluster cluster = make_cluster({.gpus = 4, .intra_us = 5.0});
  const auto gpus = gpus_of(4);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const bool gathers : {true, false}) {
    const CollectiveAlgorithm& algorithm = gathers ? nvls_all_gather() : nvls_reduce_scatter();
    const std::vector<double> bytes = bytes_on_links(cluster, algorithm.phases(placed, Bytes{4e6}));
    std::size_t links = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::NvLink) continue;
      const bool up = cluster.device(link.from).kind == DeviceKind::Gpu;
      EXPECT_DOUBLE_EQ(bytes[link.id], up == gathers ? 1e6 : 4e6);
      ++links;
    }
    EXPECT_EQ(links, 2U * 4U) << "to the switch and back";
  }
}

// Does the second half of each rail's part run over the mirrored tree? On two nodes the sums of the
// first half go to node 0, and those of the second half to node 1.
TEST(NvlsTree, TheSecondHalfRunsOverTheMirroredTree) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 2});
  const auto gpus = gpus_of(4);
  const std::vector<Message> messages =
      find_algorithm(CollectiveOp::AllReduce, "nvls_tree")
          ->messages({.cluster = cluster, .gpus = gpus}, Bytes{4096.0});
  std::uint32_t pieces = 0;
  for (const Message& message : messages) pieces = std::max(pieces, message.piece_end);
  std::size_t sums = 0;
  for (const Message& message : messages) {
    const bool of_ranks = message.from < 4 && message.to < 4;
    if (!of_ranks || !message.reduce || message.from / 2 == message.to / 2) continue;
    EXPECT_EQ(message.to / 2, message.piece_begin / (pieces / 4) % 2);  // four halves
    ++sums;
  }
  EXPECT_EQ(sums, 4U);
}

// Is a group without a switch refused?
TEST(Nvls, RefusesAGroupWithoutASwitch) {
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

// Is the switch a participant of the messages? With n GPUs each part goes up n times and down once,
// and the reverse.
TEST(Nvls, SwitchTakesPartInTheMessages) {
  const Cluster cluster = star(4);
  const auto gpus = gpus_of(4);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const std::vector<DeviceId> switches = nvls_all_reduce().switches(placed);
  ASSERT_EQ(switches.size(), 1U);
  EXPECT_EQ(cluster.device(switches[0]).kind, DeviceKind::NvSwitch);
  const std::vector<Message> messages = nvls_all_reduce().messages(placed, Bytes{4e3});
  EXPECT_EQ(messages.size(), 4U * (4U + 1U + 1U + 4U));
  for (const Message& message : messages) EXPECT_TRUE((message.from == 4) != (message.to == 4));
}

// How many chunks are there? A chunk of a head is at least 4 KiB; the number is limited to bound
// the operations of many ranks.
TEST(Nvls, AChunkHasAtLeastFourKibibytes) {
  EXPECT_EQ(nvls_chunks_most(8), 1024U);
  EXPECT_EQ(nvls_chunks_most(64), 32U);
  EXPECT_EQ(nvls_chunks(8, Bytes{kGibibyte}), 1024U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 20}), 32U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 17}), 4U);
  EXPECT_EQ(nvls_chunks(8, Bytes{1 << 10}), 1U);
}

// How many chunks does NVLSTree have? The largest power of two, 64 at most, for which its messages
// stay within 2^17. With 2 GPUs on each of N nodes there are 2 heads with 2 trees each. A tree
// needs 2N passes of 3 messages and 2(N-1) edges for every chunk: 4(6N + 2N - 2) = 32N - 8
// messages. 128 nodes have 4 088, of which 32 chunks fit; 129 nodes have 4 120, of which 31 would
// fit.
TEST(NvlsTree, MessagesOfAllChunksStayWithinTheirLimit) {
  for (const auto& [nodes, chunks] : {std::pair{4U, 64U}, {128U, 32U}, {129U, 16U}}) {
    const Cluster cluster = make_cluster({.nodes = nodes, .gpus = 2});
    const auto gpus = gpus_of(2 * nodes);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    EXPECT_EQ(nvls_tree_chunks_most(placed), chunks) << nodes;
    const Bytes one_chunk{4096.0 * 4.0};  // 4 KiB for each of the 4 trees
    EXPECT_EQ(nvls_tree_messages(placed, one_chunk).size(), 32U * nodes - 8U) << nodes;
  }
}

// Are the bytes of NVLSTree on the links correct? Within the node as NVLS; across nodes, 2 (N-1)
// edges of each tree carry half a head's part in both directions.
TEST(NvlsTree, BytesOnWires) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const auto gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const std::vector<MultiLinkFlow> link_flows = nvls_tree_flows(placed, 8e6);
  EXPECT_EQ(link_flows.size(), 16U);
  const std::vector<double> bytes = bytes_on_links(cluster, {{.latency = {}, .flows = link_flows}});
  double ports = 0.0;
  std::size_t links = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::NvLink) {
      EXPECT_NEAR(bytes[link.id], 8e6 * 9.0 / 8.0, 1e-3);
      ++links;
    }
    const bool out = cluster.device(link.from).kind == DeviceKind::Nic;
    if (link.kind == LinkKind::NicPort && out) ports += bytes[link.id];
  }
  EXPECT_EQ(links, 2U * 32U);
  EXPECT_NEAR(ports, 2.0 * 3.0 * 8e6, 1e-3);
}

// Does NVLSTree use as many heads as the node with the fewest ranks has? Twelve replicas on nodes
// of eight GPUs: both nodes use four heads; the other GPUs of the fuller node only add and receive
// copies.
TEST(NvlsTree, TakesAsManyHeadsAsTheNodeWithFewestHasRanks) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 8});
  const auto gpus = gpus_of(12);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  ASSERT_FALSE(nvls_tree_refusal(placed).has_value());
  const std::vector<MultiLinkFlow> link_flows = nvls_tree_flows(placed, 8e6);
  EXPECT_EQ(link_flows.size(), 8U);
  const std::vector<double> bytes = bytes_on_links(cluster, {{.latency = {}, .flows = link_flows}});
  double ports = 0.0;
  std::size_t links = 0;
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    if (link.kind == LinkKind::NicPort && from == DeviceKind::Nic) ports += bytes[link.id];
    if (link.kind != LinkKind::NvLink) continue;
    const DeviceId gpu = from == DeviceKind::Gpu ? link.from : link.to;
    const auto found = std::ranges::find(cluster.gpus(), gpu);
    const auto number = found - cluster.gpus().begin();
    const bool head = number < 4 || number >= 8;
    EXPECT_NEAR(bytes[link.id], number >= 12 ? 0.0 : head ? 8e6 * 5.0 / 4.0 : 8e6, 1e-3) << number;
    ++links;
  }
  EXPECT_EQ(links, 2U * 16U);
  EXPECT_NEAR(ports, 2.0 * 8e6, 1e-3);
}

}  // namespace
}  // namespace trainyard::nccl
