#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::StartsWith;

std::string error_of(const Cluster& cluster, const Call& call,
                     const std::vector<std::uint32_t>& gpus) {
  try {
    static_cast<void>(AlgorithmModel(cluster).phases(call, gpus));
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

// Does each operation of a search have a plain algorithm? An operation has at most one, and a
// search needs it wherever it may choose.
TEST(Registry, OperationsOfASearchHaveAPlainAlgorithm) {
  std::map<CollectiveOp, int> plain;
  std::vector<std::string_view> parts, with_servers;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (algorithm->is_plain()) ++plain[algorithm->op()];
    if (algorithm->is_part()) parts.push_back(algorithm->name());
    if (algorithm->has_servers()) with_servers.push_back(algorithm->name());
  }
  EXPECT_EQ(plain, (std::map<CollectiveOp, int>{{CollectiveOp::AllReduce, 1},
                                                {CollectiveOp::AllGather, 1},
                                                {CollectiveOp::ReduceScatter, 1},
                                                {CollectiveOp::AllToAll, 1}}));
  EXPECT_EQ(parts, (std::vector<std::string_view>{"step"}));
  EXPECT_EQ(with_servers, (std::vector<std::string_view>{"parameter_server"}));
}

// Does a group of one do nothing (oracle 13)?
TEST(CommunicationModel, AGroupOfOneDoesNothing) {
  const Cluster cluster = star(2);
  const std::vector<std::uint32_t> alone{1};
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    const Call call =
        make_call(algorithm->op(), 1 << 20, DataType::Bf16, std::string(algorithm->name()));
    EXPECT_TRUE(AlgorithmModel(cluster).phases(call, alone).empty());
  }
}

// Does the model use the algorithm of the call?
TEST(CommunicationModel, UsesTheAlgorithmOfTheCall) {
  const Cluster cluster = star(8);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const AlgorithmModel communication(cluster);
  const CollectiveCall call{
      .op = CollectiveOp::AllReduce, .bytes = 1 << 30, .algorithm = "two_shot"};
  EXPECT_RELATIVE(1e6 * time_of(cluster, communication.phases(call, gpus)), 18800.481920);
}

// Is a message the same for every algorithm? Messages between pipeline stages carry the algorithm
// that their group names.
TEST(CommunicationModel, SendRecvDoesNotDependOnTheAlgorithm) {
  const Cluster cluster = make_cluster(
      {.nodes = 2, .gpus = 2, .nic = 5e10, .launch_us = 3.0, .intra_us = 5.0, .inter_us = 14.0});
  const AlgorithmModel communication(cluster);
  const std::vector<std::uint32_t> near{0, 1};
  const std::vector<std::uint32_t> far{0, 2};
  for (const char* name : {"ring", "direct", "hierarchical"}) {
    const TransferCall call{.bytes = 1000000, .algorithm = name};
    EXPECT_RELATIVE(1e6 * time_of(cluster, communication.phases(call, near)), 3.0 + 5.0 + 10.0);
    EXPECT_RELATIVE(1e6 * time_of(cluster, communication.phases(call, far)), 3.0 + 14.0 + 20.0);
  }
  const TransferCall step{.bytes = 1000000, .kind = MessageKind::Step};
  EXPECT_RELATIVE(1e6 * time_of(cluster, communication.phases(step, far)), 14.0 + 20.0);
}

// Does a message between rails leave on the receiver's rail?
TEST(CommunicationModel, AMessageBetweenRailsLeavesOnTheReceiversRail) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 2});
  const std::vector<std::uint32_t> gpus{0, 3};  // local members 0 and 1
  const TransferCall call{.bytes = 100};
  const auto bytes = bytes_on_links(cluster, AlgorithmModel(cluster).phases(call, gpus));
  std::size_t ports = 0;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::NicPort || bytes[link.id] == 0.0) continue;
    const Device& nic =
        cluster.device(cluster.device(link.from).kind == DeviceKind::Nic ? link.from : link.to);
    EXPECT_EQ(nic.index, 1);
    ++ports;
  }
  EXPECT_EQ(ports, 2U) << "out of one node and into the other";
}

// Do refusals name the group and a remedy?
TEST(CommunicationModel, RefusalsNameTheGroupAndTheRemedy) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const std::vector<std::uint32_t> uneven{0, 1, 2, 4};
  EXPECT_THAT(
      error_of(
          cluster,
          CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 8, .algorithm = "hierarchical"},
          uneven),
      StartsWith(
          "all_reduce of 4 ranks on GPUs 0, 1, 2, 4 cannot use \"hierarchical\": hierarchical "
          "needs "
          "the same number of ranks on every node, here 1 to 3 (choose one of: ring, "
          "bidirectional_ring, recursive_doubling, halving_doubling, one_shot, two_shot, tree"));
  EXPECT_THAT(
      error_of(cluster,
               CollectiveCall{.op = CollectiveOp::AllGather, .bytes = 8, .algorithm = "rign"},
               uneven),
      StartsWith("all_gather of 4 ranks on GPUs 0, 1, 2, 4: there is no algorithm \"rign\" (choose "
                 "one of: "
                 "ring, direct, pat"));
}

// Are the bus bandwidth factors those of nccl-tests (oracle 11: S = 2^30, t = 5 ms, n = 8)?
TEST(CommunicationModel, BusBandwidthFactors) {
  const double algbw = kGibibyte / 5e-3;
  EXPECT_RELATIVE(algbw * bus_bandwidth_factor(CollectiveOp::AllReduce, 8), 375.8096384e9);
  for (const CollectiveOp op :
       {CollectiveOp::AllGather, CollectiveOp::ReduceScatter, CollectiveOp::AllToAll})
    EXPECT_RELATIVE(algbw * bus_bandwidth_factor(op, 8), 187.9048192e9);
  for (const CollectiveOp op :
       {CollectiveOp::Broadcast, CollectiveOp::Reduce, CollectiveOp::SendRecv})
    EXPECT_EQ(bus_bandwidth_factor(op, 8), 1.0);
}

}  // namespace
}  // namespace trainyard
