// The worked numbers of NCCL's tuning model: rates, latencies, choices and times.
#include <gtest/gtest.h>

#include "communicators.hpp"
#include "sim/base/error.hpp"

namespace trainyard::nccl {
namespace {

using namespace testing;

constexpr CollectiveOp kAllReduce = CollectiveOp::AllReduce;
constexpr CollectiveOp kAllGather = CollectiveOp::AllGather;
constexpr Method kRingLl{Algorithm::Ring, Protocol::LL};
constexpr Method kRingLl128{Algorithm::Ring, Protocol::LL128};
constexpr Method kRingSimple{Algorithm::Ring, Protocol::Simple};
constexpr Method kTreeLl{Algorithm::Tree, Protocol::LL};
constexpr Method kTreeLl128{Algorithm::Tree, Protocol::LL128};
constexpr Method kTreeSimple{Algorithm::Tree, Protocol::Simple};
constexpr Method kNvls{Algorithm::Nvls, Protocol::Simple};
constexpr Method kNvlsTree{Algorithm::NvlsTree, Protocol::Simple};
constexpr Method kPat{Algorithm::Pat, Protocol::Simple};

struct Row {
  CollectiveOp op;
  Method method;
  double bus;  // printed with three digits after the point
  double algorithm;
  double latency;
};

void expect_rows(const Communicator& comm, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(to_string(row.method.algorithm)) + "/" +
                 std::string(to_string(row.method.protocol)));
    const auto made = estimate(comm, row.op, row.method);
    ASSERT_TRUE(made.has_value());
    EXPECT_NEAR(made->bus_rate, row.bus, 5.0001e-4);
    EXPECT_NEAR(made->algorithm_rate, row.algorithm, 5.0001e-4);
    EXPECT_NEAR(made->latency_us, row.latency, 1e-9 * row.latency);
  }
}

// Are the rates and latencies of one node of H100 those of NCCL?
TEST(Tuning, OneNodeOfH100) {
  expect_rows(h100(1), {{kAllReduce, kRingLl, 141.0, 80.571, 15.0},
                        {kAllReduce, kRingLl128, 331.2, 189.257, 40.6},
                        {kAllReduce, kRingSimple, 360.0, 205.714, 56.0},
                        {kAllReduce, kTreeLl, 87.158, 43.579, 15.2},
                        {kAllReduce, kTreeLl128, 257.6, 128.8, 31.5},
                        {kAllReduce, kTreeSimple, 331.2, 165.6, 64.4},
                        {kAllReduce, kNvls, 476.0, 272.0, 25.0},
                        {kAllGather, kRingLl, 141.0, 161.143, 10.8},
                        {kAllGather, kRingLl128, 331.2, 378.514, 27.3},
                        {kAllGather, kRingSimple, 360.0, 411.429, 32.2}});
}

// Are the rates and latencies of four nodes of H100 those of NCCL?
TEST(Tuning, FourNodesOfH100) {
  expect_rows(h100(4), {{kAllReduce, kRingLl, 20.4, 10.529, 78.8},
                        {kAllReduce, kRingLl128, 293.6, 151.535, 144.4},
                        {kAllReduce, kRingSimple, 360.0, 185.806, 282.8},
                        {kAllReduce, kTreeLl, 20.4, 10.2, 35.2},
                        {kAllReduce, kTreeLl128, 232.0, 116.0, 65.5},
                        {kAllReduce, kTreeSimple, 288.0, 144.0, 120.4},
                        {kAllReduce, kNvlsTree, 364.0, 187.871, 108.6},
                        {kAllGather, kRingSimple, 360.0, 371.613, 145.6}});
}

// Are the rates and latencies of A100 and B200 those of NCCL?
TEST(Tuning, A100AndB200) {
  expect_rows(a100(1), {{kAllReduce, kRingLl, 87.7, 50.114, 15.0},
                        {kAllReduce, kRingLl128, 220.8, 126.171, 40.6},
                        {kAllReduce, kRingSimple, 240.0, 137.143, 56.0}});
  expect_rows(a100(4), {{kAllReduce, kRingSimple, 192.0, 99.097, 282.8},
                        {kAllReduce, kTreeSimple, 142.4, 71.2, 120.4}});
  expect_rows(b200(1), {{kAllReduce, kRingSimple, 720.0, 411.429, 56.0},
                        {kAllReduce, kNvls, 720.0, 411.429, 25.0}});
}

// Are the rates of oracles 16 to 18 exact?
TEST(Tuning, ExactRates) {
  const Communicator one = h100(1);
  const auto relative = [](double value, double wanted) {
    EXPECT_NEAR(value, wanted, 1e-9 * wanted);
  };
  relative(estimate(one, kAllReduce, kRingSimple)->bus_rate, 360.0);
  relative(estimate(one, kAllReduce, kRingLl128)->bus_rate, 331.2);
  relative(estimate(one, kAllReduce, kRingLl)->bus_rate, 141.0);
  relative(estimate(one, kAllReduce, kNvls)->bus_rate, 476.0);
  relative(estimate(one, kAllReduce, kNvls)->algorithm_rate, 272.0);
  const Prediction gibibyte = *predict(one, {kAllReduce, 1073741824.0}, kNvls);
  relative(gibibyte.time_us(1073741824.0), 25.0 + 1073741824.0 / 272000.0);
  EXPECT_NEAR(gibibyte.time_us(1073741824.0), 3972.58, 5e-3);
  relative(estimate(one, kAllGather, kRingSimple)->algorithm_rate, 360.0 * 8.0 / 7.0);
  relative(estimate(h100(4), kAllReduce, kRingSimple)->latency_us, 282.8);
  relative(estimate(h100(4), kAllReduce, kTreeLl)->latency_us, 35.2);
}

// Is NCCL's factor for trees with medium buffers applied to NVLSTree? Since 2.30 it is, from
// Blackwell (compute capability 10.0) on: 0.5 at 1 MiB, the fifteenth size class.
TEST(Tuning, TreeCorrectionOfNvlsTreeBeginsWithBlackwell) {
  for (const auto& [comm, factor] :
       {std::pair{h100(2), 1.0}, {b200(2), 0.5}, {b200(2, {.version = "2.28"}), 1.0}}) {
    const double rate = estimate(comm, kAllReduce, kNvlsTree)->algorithm_rate;
    const Prediction mebibyte = *predict(comm, {kAllReduce, 1048576.0}, kNvlsTree);
    EXPECT_NEAR(mebibyte.rate / rate, factor, 1e-9) << comm.node.sm;
  }
}

// Do the NICs limit NVLSTree from three nodes on? Eight heads with 6 GB/s each have 48. Two nodes
// use a NIC for one tree in each direction, 96, of which the switch carries 8 * 6 * 0.85 * 7/8 * 2.
TEST(Tuning, NicsLimitNvlsTreeFromThreeNodesOn) {
  const NodeView node = switched_node({.nic = 10.0});
  for (const auto& [nodes, rate] : {std::pair{2U, 71.4}, {3U, 48.0}, {4U, 48.0}})
    EXPECT_NEAR(estimate(of_nodes(node, nodes, {}), kAllReduce, kNvlsTree)->bus_rate, rate, 1e-9)
        << nodes;
}

// Do the NICs limit trees and PAT from three nodes on? A lone GPU has a tree of two channels, 48
// GB/s within the node and 24 to its NIC. PAT has 0.75 of it: 72, and 36 from three nodes on.
TEST(Tuning, NicsLimitPatFromThreeNodesOn) {
  const NodeView node = switched_node({.gpus = 1, .nic = 50.0});
  for (const auto& [nodes, rate] : {std::pair{2U, 72.0}, {3U, 36.0}, {4U, 36.0}})
    EXPECT_NEAR(estimate(of_nodes(node, nodes, {}), kAllGather, kPat)->bus_rate, rate, 1e-9)
        << nodes;
}

// What share of the rate of Simple does LL have? Up to 2.21 a quarter where the ring adds values
// and a third where it only passes them on within a node; since then half for both. 8 of 24
// channels have 120 of 360 GB/s, below the 141 that LL reaches at most.
TEST(Tuning, SharesOfLl) {
  for (const auto& [version, adding, passing] :
       {std::tuple{"2.21", 30.0, 40.0}, {"2.23", 60.0, 60.0}, {"2.30", 60.0, 60.0}}) {
    const Communicator one = h100(1, {.version = version, .channels_most = 8});
    const auto rate = [&](CollectiveOp op) { return estimate(one, op, kRingLl)->bus_rate; };
    EXPECT_NEAR(rate(kAllReduce), adding, 1e-9) << version;
    EXPECT_NEAR(rate(CollectiveOp::Reduce), adding, 1e-9) << version;
    EXPECT_NEAR(rate(kAllGather), passing, 1e-9) << version;
    EXPECT_NEAR(rate(CollectiveOp::Broadcast), passing, 1e-9) << version;
  }
}

struct Pick {
  double bytes;
  Method method;
  double time_us;  // printed with two digits after the point
};

void expect_picks(const Communicator& comm, const std::vector<Pick>& picks) {
  for (const Pick& pick : picks) {
    SCOPED_TRACE(pick.bytes);
    const Choice made = choose(comm, {.op = kAllReduce, .bytes = pick.bytes});
    EXPECT_EQ(made.method, pick.method) << to_text(made);
    EXPECT_NEAR(made.prediction.time_us(pick.bytes), pick.time_us, 5.0001e-3);
  }
}

constexpr double kKib = 1024.0;
constexpr double kMib = 1024.0 * kKib;

// Are the choices and times those of NCCL (including oracles 19 and 20)?
TEST(Tuning, ChoicesAndTimes) {
  expect_picks(h100(1), {{kKib, kRingLl, 15.01},
                         {64 * kKib, kRingLl, 15.81},
                         {kMib, kRingLl, 28.01},
                         {16 * kMib, kNvls, 86.68},
                         {256 * kMib, kNvls, 1011.90},
                         {1024 * kMib, kNvls, 3972.58}});
  expect_picks(h100(4), {{kKib, kTreeLl, 35.31},
                         {64 * kKib, kTreeLl, 45.91},
                         {kMib, kTreeLl128, 80.57},
                         {16 * kMib, kNvlsTree, 197.90},
                         {256 * kMib, kNvlsTree, 1537.43},
                         {1024 * kMib, kNvlsTree, 5823.92}});
  expect_picks(a100(1), {{kKib, kRingLl, 15.02},
                         {64 * kKib, kRingLl, 16.31},
                         {kMib, kRingLl, 35.92},
                         {16 * kMib, kRingLl128, 173.57},
                         {256 * kMib, kRingSimple, 2013.34},
                         {1024 * kMib, kRingSimple, 7885.37}});
  expect_picks(a100(4), {{kKib, kTreeLl, 35.31},
                         {64 * kKib, kTreeLl, 45.91},
                         {kMib, kTreeLl128, 91.68},
                         {16 * kMib, kTreeLl128, 344.77},
                         {256 * kMib, kRingSimple, 3104.74},
                         {1024 * kMib, kRingSimple, 11231.21}});
}

// Are unavailable methods not offered?
TEST(Tuning, Availability) {
  const Communicator one = h100(1);
  EXPECT_FALSE(estimate(one, kAllReduce, kNvlsTree));
  EXPECT_FALSE(estimate(one, CollectiveOp::Broadcast, kTreeSimple));
  EXPECT_FALSE(estimate(one, kAllGather, kPat));
  EXPECT_TRUE(estimate(one, kAllGather, kNvls));
  const Communicator four = h100(4);
  EXPECT_FALSE(estimate(four, kAllReduce, kNvls));
  EXPECT_FALSE(estimate(four, kAllGather, kPat));
  EXPECT_FALSE(estimate(a100(1), kAllReduce, kNvls));
  const Communicator lone = of_nodes(switched_node({.gpus = 1, .nic = 50.0}), 32, {});
  EXPECT_TRUE(estimate(lone, kAllGather, kPat));
  EXPECT_FALSE(estimate(lone, kAllReduce, kPat));
  EXPECT_NEAR(estimate(lone, kAllGather, kPat)->algorithm_rate, 36.0, 1e-9);
  EXPECT_NEAR(estimate(lone, kAllGather, kPat)->latency_us, 8.0 + 5.0 * 14.0 / 3.5 + 32 * 2.8,
              1e-9);
}

// Does NVLS gather for at most 32 GPUs of a node? It reduces for any number.
TEST(Tuning, NvlsGathersForUpTo32GpusOfANode) {
  for (const auto& [gpus, gathers] : {std::pair{32U, true}, {36U, false}}) {
    const Communicator one = of_nodes(switched_node({.gpus = gpus}), 1, {});
    EXPECT_EQ(estimate(one, kAllGather, kNvls).has_value(), gathers) << gpus;
    EXPECT_EQ(estimate(one, CollectiveOp::ReduceScatter, kNvls).has_value(), gathers) << gpus;
    EXPECT_TRUE(estimate(one, kAllReduce, kNvls).has_value()) << gpus;
  }
}

// Are there CollNet algorithms where the switches between nodes reduce? NCCL's latencies for eight
// GPUs of a node: CollNetDirect takes a step of 3.7 us up and down, 0.4 us for each of the 7 other
// GPUs, and 31 us in the network; CollNetChain 7 steps of 2.8 us up and down, and 30 us.
TEST(Tuning, CollNetNeedsSwitchesThatReduce) {
  const Method direct{Algorithm::CollNetDirect, Protocol::Simple};
  const Method link{Algorithm::CollNetChain, Protocol::Simple};
  const Communicator four = h100(4, {.collnet = true});
  EXPECT_NEAR(estimate(four, kAllReduce, direct)->latency_us, 2.0 * (3.7 + 7.0 * 0.4) + 31.0, 1e-9);
  EXPECT_NEAR(estimate(four, kAllReduce, link)->latency_us, 2.0 * 7.0 * 2.8 + 30.0, 1e-9);
  EXPECT_TRUE(estimate(four, kAllGather, direct));
  EXPECT_FALSE(estimate(four, kAllGather, link));
  for (const Communicator& comm : {h100(4), h100(1, {.collnet = true})}) {
    EXPECT_FALSE(estimate(comm, kAllReduce, direct)) << comm.nodes;
    EXPECT_FALSE(estimate(comm, kAllReduce, link)) << comm.nodes;
  }
}

// Do operations with a root run on rings?
TEST(Tuning, RootedOperationsRunOnRings) {
  const Estimate one = *estimate(h100(1), CollectiveOp::Broadcast, kRingSimple);
  EXPECT_NEAR(one.latency_us, 8.4 + 3.4, 1e-9);
  EXPECT_NEAR(one.algorithm_rate, 360.0, 1e-9);
  const Estimate four = *estimate(h100(4), CollectiveOp::Reduce, kRingSimple);
  EXPECT_NEAR(four.latency_us, 8.4 + 32 * 14.0, 1e-9);
}

// Are long rings of 8-bit floats avoided?
TEST(Tuning, LongRingsOfEightBitFloatsAreAvoided) {
  TuningQuery query{.op = kAllReduce, .bytes = 1024.0 * kMib};
  EXPECT_EQ(choose(a100(4), query).method, kRingSimple);
  query.eight_bit_float = true;
  EXPECT_EQ(choose(a100(4), query).method.algorithm, Algorithm::Tree);
  EXPECT_EQ(choose(a100(1), query).method, kRingSimple);
}

// Do NVSwitches add no 8-bit floats, while they still pass them on?
TEST(Tuning, NvSwitchesAddNoEightBitFloats) {
  for (const CollectiveOp op : {kAllReduce, CollectiveOp::ReduceScatter}) {
    const TuningQuery query{.op = op, .bytes = 1024.0 * kMib, .eight_bit_float = true};
    EXPECT_EQ(choose(h100(1), query).method.algorithm, Algorithm::Ring);
    EXPECT_FALSE(predict(h100(1), query, kNvls));
    EXPECT_FALSE(predict(h100(4), query, kNvlsTree));
  }
  EXPECT_TRUE(predict(h100(1), {.op = kAllGather, .bytes = kMib, .eight_bit_float = true}, kNvls));
}

// Does every release give a choice?
TEST(Tuning, EveryReleaseHasAChoice) {
  const std::vector<std::string> known = tuning_versions();
  EXPECT_EQ(known,
            (std::vector<std::string>{"2.18", "2.21", "2.23", "2.27", "2.28", "2.29", "2.30"}));
  for (const std::string& version : known) {
    SCOPED_TRACE(version);
    for (const std::uint32_t nodes : {1U, 2U, 4U}) {
      const Communicator comm = h100(nodes, {.version = version});
      EXPECT_EQ(comm.constants.version, version);
      double before = 0.0;
      for (const double bytes : {kKib, 64 * kKib, 16 * kMib, 1024 * kMib}) {
        const double time = choose(comm, {kAllReduce, bytes}).prediction.time_us(bytes);
        EXPECT_GT(time, before);
        before = time;
      }
    }
  }
}

// Do the releases differ in the documented points?
TEST(Tuning, ReleasesDiffer) {
  const auto rate = [](const char* version, std::uint32_t nodes, const Method& method) {
    return *estimate(h100(nodes, {.version = version}), kAllReduce, method);
  };
  EXPECT_NEAR(rate("2.21", 1, kNvls).algorithm_rate, 8 * 40.0 * 5 / 6, 1e-9);
  EXPECT_NEAR(rate("2.28", 1, kNvls).algorithm_rate, 272.0, 1e-9);
  EXPECT_NEAR(rate("2.18", 1, kNvls).latency_us, 23.0, 1e-9);
  EXPECT_NEAR(rate("2.28", 4, kNvlsTree).latency_us, 25.0 + 4 * 14.0, 1e-9);
  EXPECT_NEAR(rate("2.29", 4, kNvlsTree).latency_us, 108.6, 1e-9);
  EXPECT_NEAR(rate("2.21", 4, kTreeSimple).latency_us, 2 * (7 * 28.0 + 2 * 28.0), 1e-9);
  EXPECT_NEAR(rate("2.18", 4, kRingSimple).latency_us, 8.4 + 54 * 3.4 + 8 * 14.0, 1e-9);
  EXPECT_NEAR(rate("2.18", 1, kRingLl).bus_rate, 87.7, 1e-9);
}

// Are version numbers read tolerantly?
TEST(Tuning, VersionsAreReadTolerantly) {
  EXPECT_EQ(tuning_constants("2.27.3").version, "2.27");
  EXPECT_EQ(tuning_constants("v2.22.3-1").version, "2.21");
  EXPECT_EQ(data_version("2.30.7"), "2.30");
  EXPECT_THROW((void)tuning_constants("2.99"), InputError);  // its behaviour is not known
  EXPECT_THROW((void)tuning_constants("9.9"), InputError);
  EXPECT_THROW((void)tuning_constants("2.10"), InputError);
  EXPECT_THROW((void)tuning_constants("newest"), InputError);
}

// Is the number of channels that of the communicator?
TEST(Channels, NumberOfTheCommunicator) {
  EXPECT_EQ(a100(1).channels, 24U);
  EXPECT_EQ(a100(2).channels, 16U);
  EXPECT_EQ(h100(1).channels, 24U);
  EXPECT_EQ(h100(4).channels, 16U);
  EXPECT_EQ(b200(1).channels, 32U);
  EXPECT_EQ(h100(1).nvls_channels, 16U);
  EXPECT_EQ(b200(1).nvls_channels, 24U);
  EXPECT_EQ(b200(2).nvls_channels, 32U);
  EXPECT_EQ(a100(1).nvls_channels, 0U);
  EXPECT_EQ(h100(1).p2p_channels, 32U);
  EXPECT_EQ(h100(4).p2p_channels_per_peer, 4U);
  EXPECT_EQ(h100(1, {.channels_most = 8}).channels, 8U);
  EXPECT_EQ(h100(1, {.channels_least = 32}).channels, 32U);
}

// Are the channels of fast rings between nodes duplicated once more from Hopper on? Six GPUs with
// NICs of 50 GB/s have six rings of 48, more than 45: 6 x 2 x 2, and 6 x 2 on a GPU before Hopper.
TEST(Channels, FastRingsBetweenNodesAreDuplicatedOnceMore) {
  for (const auto& [sm, channels] : {std::pair{89U, 12U}, {90U, 24U}}) {
    const Communicator comm = of_nodes(switched_node({.gpus = 6, .sm = sm, .nic = 50.0}), 2, {});
    EXPECT_EQ(comm.graphs.ring.intra, 48.0) << sm;
    EXPECT_EQ(comm.channels, channels) << sm;
  }
}

// Do channels bound the rate? 8 of the 24 channels leave a third of the ring's 360 GB/s and of the
// tree's 331.2, 8 of 16 half of NVLS's 476. More channels than NCCL's number find no free wires.
TEST(Channels, BoundTheRate) {
  const Options few{.channels_most = 8};
  const auto bus = [](const Communicator& comm, const Method& method) {
    return estimate(comm, CollectiveOp::AllReduce, method)->bus_rate;
  };
  EXPECT_DOUBLE_EQ(bus(h100(1, few), {Algorithm::Ring, Protocol::Simple}), 120.0);
  EXPECT_DOUBLE_EQ(bus(h100(1, few), {Algorithm::Tree, Protocol::Simple}), 331.2 / 3.0);
  EXPECT_DOUBLE_EQ(bus(h100(1, few), {Algorithm::Nvls, Protocol::Simple}), 238.0);
  const Options many{.channels_least = 48};
  EXPECT_DOUBLE_EQ(bus(h100(1, many), {Algorithm::Ring, Protocol::Simple}), 360.0);
  EXPECT_DOUBLE_EQ(bus(h100(1, {.channels_least = 16, .channels_most = 64}),
                       {Algorithm::Nvls, Protocol::Simple}),
                   476.0);
}

// What is the launch shape of a call? 8 bytes per thread and rank of LL, 64 of Simple; one channel
// for each 32 KiB sent.
TEST(Channels, NumberOfACall) {
  const Communicator comm = h100(1);
  const auto shape = [&](const Method& method, double bytes) {
    return launch_shape(comm, kAllReduce, method.algorithm, method.protocol, bytes);
  };
  EXPECT_EQ(shape(kRingSimple, 64 * kMib).channels, 24U);
  EXPECT_EQ(shape(kRingSimple, 64 * kMib).threads, 512U);
  EXPECT_EQ(shape(kRingSimple, 10 * 512 * 64.0).channels, 10U);
  EXPECT_EQ(shape(kRingLl, 64 * kKib).channels, 2U);
  EXPECT_EQ(shape(kRingLl, kKib).channels, 1U);
  EXPECT_EQ(shape(kRingLl, kKib).threads, 64U);
  EXPECT_EQ(shape(kNvls, kKib).channels, 16U);
}

// Does a ring of Simple at the rate of PCIe 3, 12 GB/s or less, have half of the threads?
TEST(Channels, ARingAtTheRateOfPcie3HasHalfOfTheThreads) {
  const auto threads = [](double pcie, const Method& method) {
    NodeView node = switched_node({.gpus = 4, .sm = 70, .nvlink = 0.0, .pcie = pcie});
    node.scale_up = NodeView::ScaleUp::None;
    node.socket = pcie;
    return launch_shape(of_nodes(node, 1, {}), kAllReduce, method.algorithm, method.protocol,
                        64 * kMib)
        .threads;
  };
  EXPECT_EQ(threads(12.0, kRingSimple), 256U);
  EXPECT_EQ(threads(24.0, kRingSimple), 512U);
  EXPECT_EQ(threads(12.0, kRingLl), 512U);
  EXPECT_EQ(threads(12.0, kTreeSimple), 512U);
}

// How many channels does a peer get? Two for each NVLink of the GPU: 8 for 4 links.
TEST(Channels, APeerHasTwoForEachNvlink) {
  const NodeView node = switched_node({.gpus = 4, .nvlink = 82.4, .nvlinks = 4});
  const Communicator comm = of_nodes(node, 1, {.channels_least = 32});
  EXPECT_EQ(comm.p2p_channels, 32U);
  EXPECT_EQ(comm.p2p_channels_per_peer, 8U);
}

// How many channels does a peer on another node get? From 2.29 on one for each 14 GB/s of its NIC
// of 50, halved while those of every eighth rank are over all 16. Before, two, halved while those
// of all ranks are over 4 x 16.
TEST(Channels, APeerOnAnotherNodeHasFewerAmongManyRanks) {
  const auto channels = [](std::uint32_t nodes, const char* version) {
    const Communicator comm = h100(nodes, {.version = version});
    EXPECT_EQ(comm.p2p_channels, 16U);
    return comm.p2p_channels_per_peer;
  };
  EXPECT_EQ(channels(4, "2.29"), 4U);
  EXPECT_EQ(channels(5, "2.29"), 2U);
  EXPECT_EQ(channels(8, "2.29"), 2U);
  EXPECT_EQ(channels(10, "2.29"), 1U);
  EXPECT_EQ(channels(4, "2.28"), 2U);
  EXPECT_EQ(channels(5, "2.28"), 1U);
  EXPECT_EQ(channels(128, "2.18"), 1U);
}

}  // namespace
}  // namespace trainyard::nccl
