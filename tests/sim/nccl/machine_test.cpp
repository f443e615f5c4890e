// The formulas of the machine model, on constants that are defined here: exact numbers computed by
// hand.
#include "sim/nccl/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "communicators.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "tests/sim/collectives/test_clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard::nccl {
namespace {

using namespace testing;
using namespace trainyard::testing;

// Rates are round numbers of GB/s, as shares of the 370.8 of an H100.
Machine machine() {
  return {.gpu = {.launch_us = 5.0,
                  .ll_step_us = 1.0,
                  .simple_step_us = 4.0,
                  .channel_rate = 10.0,
                  .copy_rate = 800.0,
                  .link_rate = 370.8,
                  .measured_on = {90}},
          .protocols = {.ll128_step_us = 2.0,
                        .ll_share = 200.0 / 370.8,
                        .ll128_share = 300.0 / 370.8,
                        .ring_share = 0.9,
                        .own_share = 500.0 / 370.8,
                        .nvls_us = 20.0,
                        .nvls_round_steps = 2.0,
                        .nvls_share = 300.0 / 370.8,
                        .exchange_ll_us = 3.0,
                        .exchange_steps = 2.25,
                        .exchange_ll_share = 100.0 / 370.8,
                        .exchange_share = 320.0 / 370.8},
          .messages = {.ll_us = 3.0,
                       .ll128_us = 6.0,
                       .simple_us = 15.0,
                       .exchange_us = 2.0,
                       .ll_rate = 2.0,
                       .turn_us = 0.0,
                       .late_share = 0.1,
                       .tree_fill = 0.5,
                       .nvls_tree_share = 0.1,
                       .host_bridge_share = 0.75,
                       .exchange_share = 1.0},
          .network = {.latency_us = 1.0, .rate = 400.0, .nics = 8}};
}

// A choice as if NCCL had made it, with so many channels.
Choice chosen(CollectiveOp op, const Method& method, std::uint32_t channels) {
  return {.op = op, .method = method, .launch = {.channels = channels}, .prediction = {}};
}

double time_us(const Communicator& communicator, const Choice& choice, double bytes) {
  return machine_time(machine(), communicator, choice, bytes).time_us(bytes);
}

constexpr double kMega = 1e6;

// Does a ring of LL on two channels take its time? 5 + 7 steps of 1 us; 7/8 MB at 1/(1/20 + 1/200)
// = 18.1818 GB/s.
TEST(MachineTime, RingOfLlOnTwoChannels) {
  const Choice choice = chosen(CollectiveOp::AllGather, {Algorithm::Ring, Protocol::LL}, 2);
  EXPECT_RELATIVE(time_us(h100(1), choice, kMega), 12.0 + 875.0 * (1.0 / 20.0 + 1.0 / 200.0));
}

// Does a ring of LL128 take its time? 5 + (14 + 3) 2 us; 14/8 of 8 MB at 300 GB/s, at a third of it
// with 8 of 24 channels.
TEST(MachineTime, RingOfLl128) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Ring, Protocol::LL128}, 24);
  EXPECT_RELATIVE(time_us(h100(1), choice, 8 * kMega), 39.0 + 14000.0 / 300.0);
  EXPECT_RELATIVE(time_us(h100(1, {.channels_most = 8}), choice, 8 * kMega),
                  39.0 + 14000.0 / 100.0);
}

// Does a ring of Simple take its time? 12 channels of 30 GB/s, 90 % of it; the own eighth at 500
// GB/s.
TEST(MachineTime, RingOfSimple) {
  const Choice choice =
      chosen(CollectiveOp::ReduceScatter, {Algorithm::Ring, Protocol::Simple}, 24);
  EXPECT_RELATIVE(time_us(h100(1), choice, 80 * kMega),
                  5.0 + 10.0 * 4.0 + 70000.0 / 324.0 + 10000.0 / 500.0);
}

// Does a ring across nodes take its time? With four nodes, 4 of the 31 hops of a block cross, each
// at 15 us and the wire's 1 us.
TEST(MachineTime, RingAcrossNodes) {
  const Choice simple = chosen(CollectiveOp::AllGather, {Algorithm::Ring, Protocol::Simple}, 16);
  EXPECT_RELATIVE(time_us(h100(4), simple, 320 * kMega),
                  5.0 + (27.0 + 3.0) * 4.0 + 4.0 * 16.0 + 310000.0 / 324.0 + 10000.0 / 500.0);
  // One channel uses one of the eight NICs, and LL sends twice the bytes: 25 GB/s are more than the
  // channel's own 1/(1/10 + 1/200).
  const Choice small = chosen(CollectiveOp::AllGather, {Algorithm::Ring, Protocol::LL}, 1);
  EXPECT_RELATIVE(time_us(h100(4), small, 0.032 * kMega),
                  5.0 + 27.0 + 4.0 * 4.0 + 31.0 * (1.0 / 10.0 + 1.0 / 200.0));
  Machine slow = machine();
  slow.network.rate = 40.0;  // 5 GB/s per NIC: 2.5 under LL
  EXPECT_RELATIVE(machine_time(slow, h100(4), small, 32000.0).time_us(32000.0),
                  5.0 + 27.0 + 16.0 + 31.0 / 2.5);
}

// Do messages that meet their receiver first delay the proxy of their NIC? A block of 100 KB on two
// channels: each message under LL has at most 32 KiB of data, so a block is 50000/32768 of them; 8
// per channel are posted. Two channels are on two of the eight NICs.
TEST(MachineTime, MessagesThatMeetTheirReceiverDelayTheProxy) {
  const Choice choice = chosen(CollectiveOp::AllGather, {Algorithm::Ring, Protocol::LL}, 2);
  Machine meets = machine();
  meets.network.rendezvous_us = 20.0;
  meets.network.rendezvous_bytes = 2048.0;
  meets.messages.ll_rate = 100.0;
  const auto time = [&](double bytes) {
    return machine_time(meets, h100(4), choice, bytes).time_us(bytes);
  };
  EXPECT_RELATIVE(time(3.2 * kMega), 5.0 + (31.0 * 50000.0 / 32768.0 - 8.0) * 20.0);
  // 1024 bytes of data are 2048 on the wire: no more than the threshold. Of four nodes, one is late
  // with a probability of 1 - 0.9^4.
  EXPECT_RELATIVE(time(32.0 * 2048.0), 5.0 + (31.0 - 8.0) * (1.0 - std::pow(0.9, 4)) * 20.0);
  // A block that is cut into messages has messages of 32 KiB, which are 64 KiB on the wire, however
  // long it is.
  meets.network.rendezvous_bytes = 65536.0;
  EXPECT_RELATIVE(time(3.2 * kMega),
                  5.0 + (31.0 * 50000.0 / 32768.0 - 8.0) * (1.0 - std::pow(0.9, 4)) * 20.0);
  meets.network.rendezvous_bytes = 2048.0;
  // A chunk of Simple has two slices of 32 KiB or more, and four of them are posted. Of 16
  // channels, two are on a NIC.
  const Choice simple = chosen(CollectiveOp::AllGather, {Algorithm::Ring, Protocol::Simple}, 16);
  const double bytes = 32.0 * 16.0 * 65536.0;
  EXPECT_RELATIVE(machine_time(meets, h100(4), simple, bytes).time_us(bytes),
                  5.0 + (62.0 - 4.0) * 2.0 * 20.0);
}

// Does a long ring take a turn of the proxy for each message? With verbs, the proxy posts those of
// all channels in one turn: 2 x 1023 steps of 9 us for 1024 ranks, whatever the channels.
TEST(MachineTime, LongRingsTakeATurnOfTheProxyForEachMessage) {
  Machine verbs = machine();
  verbs.messages.turn_us = 9.0;
  for (const std::uint32_t channels : {8U, 16U}) {
    const Choice ring =
        chosen(CollectiveOp::AllReduce, {Algorithm::Ring, Protocol::LL128}, channels);
    EXPECT_RELATIVE(machine_time(verbs, h100(128), ring, 1e8).time_us(1e8),
                    5.0 + (2046.0 - 8.0) * 9.0);
  }
}

// Does a broadcast stream through the ring?
TEST(MachineTime, BroadcastFlowsThrough) {
  const Choice choice = chosen(CollectiveOp::Broadcast, {Algorithm::Ring, Protocol::Simple}, 24);
  EXPECT_RELATIVE(time_us(h100(1), choice, 324 * kMega), 5.0 + 10.0 * 4.0 + 1000.0);
}

// Does a tree over two nodes take its time? A first chunk of 512 KiB of each of 16 channels passes
// seven GPUs up and down, and delays both hops of 16 us by half of its time at 400 GB/s. For the
// rest, 2S/(370.8 x 0.9) is more than S/400.
TEST(MachineTime, TreeOverTwoNodes) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Tree, Protocol::Simple}, 16);
  const double first = 16.0 * 524288.0;
  const double inside = 370800.0 * 0.9;
  EXPECT_RELATIVE(time_us(h100(2), choice, 20 * kMega),
                  5.0 + 14.0 * 4.0 + 2.0 * 16.0 + 14.0 * first / inside +
                      2.0 * 0.5 * first / 400000.0 + 2.0 * (20e6 - first) / inside);
}

// Do doublings of the nodes add two hops to a tree, each of a message and a chunk? 10 nodes are as
// deep as 16.
TEST(MachineTime, DoublingsOfNodesAddTwoHopsToATree) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Tree, Protocol::Simple}, 16);
  const double bytes = 64.0 * 1048576.0;
  const double hop = 16.0 + 0.5 * 16.0 * 524288.0 / 400000.0;
  const double four = time_us(h100(4), choice, bytes);
  EXPECT_RELATIVE(time_us(h100(8), choice, bytes) - four, 2.0 * hop);
  EXPECT_RELATIVE(time_us(h100(16), choice, bytes) - four, 4.0 * hop);
  EXPECT_RELATIVE(time_us(h100(10), choice, bytes), time_us(h100(16), choice, bytes));
}

// Do chunks of a tree with LL128 get smaller until there are enough of them? NCCL halves 512 KiB to
// 128 KiB while a channel has fewer than 64 times the depth, and then to 32 KiB while it has fewer
// than 16 times. Two nodes of eight are (1 + 1 + 0.1 x 8) / 8 = 0.35 deep: 22.4 and 5.6 chunks.
TEST(MachineTime, ChunksOfATreeOfLl128GetSmallerUntilThereAreEnough) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Tree, Protocol::LL128}, 16);
  constexpr double kKibi = 1024.0;
  for (const auto& [of_channel, chunk] : {std::pair{16384.0, 512.0},
                                          {8192.0, 256.0},
                                          {1024.0, 128.0},
                                          {512.0, 64.0},
                                          {256.0, 32.0}}) {
    const double bytes = 16.0 * of_channel * kKibi;
    const double first = 16.0 * chunk * kKibi;
    EXPECT_RELATIVE(time_us(h100(2), choice, bytes),
                    5.0 + 14.0 * 2.0 + 2.0 * 7.0 + 14.0 * first / 300000.0 +
                        2.0 * 0.5 * first / 375000.0 + 2.0 * (bytes - first) / 300000.0)
        << of_channel << " KiB";
  }
}

// Do messages of a tree meet their receiver? With LL and more bytes on the wire than the threshold,
// at both hops; their buffers are copied at 2 GB/s.
TEST(MachineTime, MessagesOfATreeMeetTheirReceiver) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Tree, Protocol::LL}, 1);
  Machine meets = machine();
  meets.network.rendezvous_us = 20.0;
  meets.network.rendezvous_bytes = 4096.0;
  const auto time = [&](double bytes) {
    return machine_time(meets, h100(2), choice, bytes).time_us(bytes);
  };
  const double inside = 1000.0 / (1.0 / 10.0 + 1.0 / 200.0);
  const auto without = [&](double bytes) {
    return 5.0 + 14.0 + 2.0 * 4.0 + 14.0 * bytes / inside + 2.0 * 0.5 * bytes / 2000.0;
  };
  EXPECT_RELATIVE(time(2048.0), without(2048.0));
  EXPECT_RELATIVE(time(4096.0), without(4096.0) + 2.0 * 20.0);
}

// Does PCIe bound a NIC that is on another port of the CPU than its GPU? Four A100 in a full mesh:
// 0.75 of 24 GB/s for each NIC, of which Grace's NVLink to its GPU knows nothing.
TEST(MachineTime, PortsOfACpuBoundTheNics) {
  NodeView node = switched_node({.gpus = 4, .sm = 80, .nvlink = 80.0, .pcie = 24.0, .nic = 25.0});
  node.scale_up = NodeView::ScaleUp::FullMesh;
  const Choice ring = chosen(CollectiveOp::AllReduce, {Algorithm::Ring, Protocol::LL128}, 8);
  Machine mesh = machine();
  mesh.network = {.latency_us = 1.0, .rate = 97.0, .nics = 4};
  const auto rate = [&](CpuVendor cpu) {
    node.cpu = cpu;
    const Communicator comm = of_nodes(node, 2, {});
    const auto time = [&](double bytes) {
      return machine_time(mesh, comm, ring, bytes).time_us(bytes);
    };
    return 2.0 * 7.0 / 8.0 * 1e9 / (time(2e9) - time(1e9)) / 1000.0;
  };
  EXPECT_RELATIVE(rate(CpuVendor::Amd), 4.0 * 0.75 * 24.0 * 15.0 / 16.0);
  EXPECT_RELATIVE(rate(CpuVendor::Arm), 97.0 * 15.0 / 16.0);
}

// Does NVLS work in rounds? 16 channels x 8: rounds of 16 MiB for 1 GiB, of 8 MiB below, of 4 MiB
// below 64 MiB.
TEST(MachineTime, NvlsGoesInRounds) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Nvls, Protocol::Simple}, 16);
  constexpr double kMebi = 1048576.0;
  for (const auto& [mebi, rounds] :
       {std::pair{1024.0, 64.0}, {512.0, 64.0}, {32.0, 8.0}, {8.0, 2.0}, {1.0, 1.0}}) {
    const double bytes = mebi * kMebi;
    EXPECT_RELATIVE(time_us(h100(1), choice, bytes), 25.0 + rounds * 8.0 + bytes / 300000.0)
        << mebi << " MiB";
  }
}

// Does NVLSTree hide the network? The network's S/400 hides behind the switch, which is a tenth
// slower than without it. Chunks of 256 KiB of 16 channels and 8 heads delay both hops of 16 us.
TEST(MachineTime, NvlsTreeHidesTheNetwork) {
  const Choice choice =
      chosen(CollectiveOp::AllReduce, {Algorithm::NvlsTree, Protocol::Simple}, 16);
  const double bytes = 1073741824.0;
  const double inside = 64.0 * 8.0 + bytes / 300000.0;
  const double first = 16.0 * 8.0 * 262144.0;
  EXPECT_RELATIVE(time_us(h100(2), choice, bytes),
                  25.0 + 32.0 + 1.1 * inside + 2.0 * 0.5 * first / 400000.0);
}

// Does an all_to_all on a node take its time? 7 of 8 blocks of 1 MB at 320 GB/s, the eighth at 800;
// small ones by LL.
TEST(MachineTime, AllToAllOnANode) {
  const Communicator comm = h100(1, {.version = "2.30"});
  const auto time = [&](double bytes) {
    return exchange_time(machine(), comm, CollectiveOp::AllToAll, bytes).time_us(bytes);
  };
  EXPECT_RELATIVE(time(8 * kMega), 14.0 + 7000.0 / 320.0 + 1000.0 / 800.0);
  EXPECT_RELATIVE(time(80000.0), 8.0 + 70.0 / 100.0 + 10.0 / 800.0);
  EXPECT_RELATIVE(time(160000.0), 14.0 + 140.0 / 320.0 + 20.0 / 800.0);
  // Before 2.29 LL is used up to 16 KiB for each of the 32 channels of a peer.
  const Communicator older = h100(1, {.version = "2.27"});
  EXPECT_RELATIVE(
      exchange_time(machine(), older, CollectiveOp::AllToAll, 160000.0).time_us(160000.0),
      8.0 + 140.0 / 100.0 + 20.0 / 800.0);
}

// Does an all_to_all across nodes take its time? 24 remote peers: 2 + 1 us each; 24 blocks through
// a NIC of 50 GB/s take longer than 7 over NVLink.
TEST(MachineTime, AllToAllAcrossNodes) {
  const double bytes = 32 * kMega;
  EXPECT_RELATIVE(exchange_time(machine(), h100(4), CollectiveOp::AllToAll, bytes).time_us(bytes),
                  14.0 + 24.0 * 3.0 + 24000.0 / 50.0 + 1000.0 / 800.0);
  // The NICs reach InfiniBand's share in all_to_all if the network has no share of its own.
  Machine shared = machine();
  shared.messages.exchange_share = 0.8;
  EXPECT_RELATIVE(exchange_time(shared, h100(4), CollectiveOp::AllToAll, bytes).time_us(bytes),
                  14.0 + 24.0 * 3.0 + 24000.0 / 40.0 + 1000.0 / 800.0);
  shared.network.exchange_share = 0.5;
  EXPECT_RELATIVE(exchange_time(shared, h100(4), CollectiveOp::AllToAll, bytes).time_us(bytes),
                  14.0 + 24.0 * 3.0 + 24000.0 / 25.0 + 1000.0 / 800.0);
}

// Does a message to another node go at the rate of its channels, 14 GB/s each, if that is less than
// the NIC's 50? What NICs lose in an all_to_all slows no message alone.
TEST(MachineTime, AMessageToAnotherNodeGoesAtTheRateOfItsChannels) {
  Machine shared = machine();
  shared.messages.exchange_share = 0.5;
  const auto time = [&](std::uint32_t nodes, const char* version) {
    const Communicator comm = h100(nodes, {.version = version});
    return exchange_time(shared, comm, CollectiveOp::SendRecv, 28 * kMega).time_us(28 * kMega);
  };
  EXPECT_RELATIVE(time(2, "2.30"), 17.0 + 28000.0 / 50.0);
  EXPECT_RELATIVE(time(8, "2.30"), 17.0 + 28000.0 / 28.0);
  EXPECT_RELATIVE(time(10, "2.30"), 17.0 + 28000.0 / 14.0);
  EXPECT_RELATIVE(time(2, "2.28"), 17.0 + 28000.0 / 28.0);
}

// Are small messages of an all_to_all fetched by the CPU? 24 messages of 128 bytes are, at 10 us
// each; of 256 bytes none is.
TEST(MachineTime, SmallMessagesOfAllToAllAreFetched) {
  Machine fetches = machine();
  fetches.network.inject_us = 10.0;
  fetches.network.inject_bytes = 192.0;
  const auto latency = [&](double bytes) {
    return exchange_time(fetches, h100(4), CollectiveOp::AllToAll, bytes).latency_us;
  };
  EXPECT_RELATIVE(latency(32.0 * 128.0), 8.0 + 24.0 * 13.0);
  EXPECT_RELATIVE(latency(32.0 * 256.0), 8.0 + 24.0 * 3.0);
}

// Are fewer links slower in proportion?
TEST(MachineTime, FewerLinksAreSlowerInProportion) {
  NodeView node = h100_node(false);
  node.nvlink = 370.8 / 2.0;
  const Communicator half = of_nodes(node, 1, {});
  const double bytes = 8 * kMega;
  EXPECT_RELATIVE(exchange_time(machine(), half, CollectiveOp::AllToAll, bytes).time_us(bytes),
                  14.0 + 7000.0 / 160.0 + 1000.0 / 800.0);
}

// Is the PCIe link of a GPU its link where there is no NVLink? Four GPUs send 3 blocks of 2 MB at
// 320/370.8 of PCIe's 24 GB/s. A link that is faster than that of the fitted machine adds nothing.
TEST(MachineTime, WithoutNvlinkPcieIsTheLink) {
  NodeView node = switched_node({.gpus = 4, .nvlink = 0.0, .pcie = 24.0});
  node.scale_up = NodeView::ScaleUp::None;
  node.socket = 24.0;
  const Communicator comm = of_nodes(node, 1, {});
  const auto time = [&](const Machine& made) {
    return exchange_time(made, comm, CollectiveOp::AllToAll, 8 * kMega).time_us(8 * kMega);
  };
  EXPECT_RELATIVE(time(machine()), 14.0 + 6000.0 / (24.0 * 320.0 / 370.8) + 2000.0 / 800.0);
  Machine slow = machine();
  slow.gpu.link_rate = 20.0;
  EXPECT_RELATIVE(time(slow), 14.0 + 6000.0 / (20.0 * 320.0 / 370.8) + 2000.0 / 800.0);
}

// Does PAT keep its prediction? An algorithm without measurements keeps NCCL's own expectation.
TEST(MachineTime, PatKeepsItsPrediction) {
  Choice choice = chosen(CollectiveOp::AllGather, {Algorithm::Pat, Protocol::Simple}, 4);
  choice.prediction = {.latency_us = 33.0, .rate = 50.0};
  EXPECT_DOUBLE_EQ(time_us(h100(4), choice, kMega), 53.0);
}

// Is only the latency left without bytes?
TEST(MachineTime, WithoutBytesOnlyLatency) {
  const Choice choice = chosen(CollectiveOp::AllReduce, {Algorithm::Nvls, Protocol::Simple}, 16);
  EXPECT_DOUBLE_EQ(time_us(h100(1), choice, 0.0), 33.0);
}

// Is there a machine model for every measured GPU generation?
TEST(MachineModel, ShippedForWhatWasMeasured) {
  EXPECT_FALSE(machine_model(70).has_value());
  for (const std::uint32_t sm : {80U, 90U, 100U, 103U}) {
    const auto model = machine_model(sm);
    ASSERT_TRUE(model.has_value()) << sm;
    for (const auto& parameter : machine_parameters())
      EXPECT_GT((*model).*parameter.value, 0.0) << parameter.key;
    EXPECT_GT(model->link_rate, 100.0);
    EXPECT_THAT(model->measured_on, ::testing::Contains(sm));
  }
  EXPECT_THAT(machine_model(89)->measured_on, ::testing::ElementsAre(80U));
  for (const auto& parameter : protocol_parameters())
    EXPECT_GT(protocol_model().*parameter.value, 0.0) << parameter.key;
  EXPECT_GT(message_model().exchange_share, 0.5);
  for (const auto& parameter : message_parameters())
    EXPECT_GT(message_model().*parameter.value, 0.0) << parameter.key;
}

// Is the network of the machine that of the cluster? Two NICs and one leaf: 0.475 + 0.2 + 0.475 us;
// eight NICs of 48.5 of 50 GB/s.
TEST(MachineNetwork, IsThatOfTheCluster) {
  const Cluster cluster = build_cluster({.node = load_node("dgx_h100"), .nodes = 4});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const NcclModel communication(cluster, {});
  const Network network =
      network_of({.cluster = cluster, .gpus = gpus}, communication.communicator(gpus));
  EXPECT_EQ(network.nics, 8U);
  EXPECT_RELATIVE(network.rate, 8.0 * 48.5);
  EXPECT_GT(network.latency_us, 0.9);
  EXPECT_LT(network.latency_us, 2.5);
  EXPECT_EQ(network.most_members, 0U);
}

// On a ring of 16 nodes, is the latency that of the other side, for all nodes as for nine of them?
// The last of all nodes is next to the first.
TEST(MachineNetwork, OfARingIsThatOfItsOtherSide) {
  const Cluster cluster =
      build_cluster({.node = load_node("dgx_h100"),
                     .nodes = 16,
                     .fabric = {.kind = Torus{.dims = {16}, .hop_latency = Seconds{50e-6}}}});
  const NcclModel communication(cluster, {});
  const auto latency_us = [&](std::uint32_t ranks) {
    const std::vector<std::uint32_t> gpus = gpus_of(ranks);
    return network_of({.cluster = cluster, .gpus = gpus}, communication.communicator(gpus))
        .latency_us;
  };
  EXPECT_RELATIVE(latency_us(128), latency_us(72));
  EXPECT_GT(latency_us(128), 6.0 * 50.0);
}

// Nine ranks are on two nodes of eight: the ninth sends a block to each of the other eight through
// its own NIC, and each of the eight sends one to it. With 17 ranks on three nodes the last one
// sends 16.
TEST(MachineNetwork, OfUnequalNodesIsThatOfTheBusiestNics) {
  const Cluster cluster = build_cluster({.node = load_node("dgx_h100"), .nodes = 3});
  const NcclModel communication(cluster, {});
  for (const auto& [ranks, least, blocks] : {std::tuple{9U, 1U, 8.0}, std::tuple{10U, 2U, 8.0},
                                             std::tuple{12U, 4U, 8.0}, std::tuple{17U, 1U, 16.0}}) {
    const std::vector<std::uint32_t> gpus = gpus_of(ranks);
    const Network network =
        network_of({.cluster = cluster, .gpus = gpus}, communication.communicator(gpus));
    EXPECT_EQ(network.most_members, 8U) << ranks;
    EXPECT_EQ(network.least_members, least) << ranks;
    EXPECT_DOUBLE_EQ(network.blocks_of_nic, blocks) << ranks;
  }
}

}  // namespace
}  // namespace trainyard::nccl
