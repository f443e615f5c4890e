#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine_run.hpp"
#include "sim/base/error.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

std::int64_t sent_bytes(const Workload& workload, const Program& program) {
  std::int64_t bytes = 0;
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::Send) {
      bytes += bytes_of(workload.calls.at(op.payload));
    }
  }
  return bytes;
}

// Does every rank send and receive its messages?
TEST(Expand, EveryRankSendsAndReceivesItsMessages) {
  const Cluster cluster = star(8);
  const Workload stepwise = expand_collectives(
      one_collective(gpus_of(8), CollectiveOp::AllReduce, 1 << 20, "ring"), cluster);
  EXPECT_NO_THROW(validate(stepwise, ""));
  ASSERT_EQ(stepwise.programs.size(), 1U);
  const Program& program = stepwise.programs.front();
  EXPECT_EQ(program.operations.size(), 2U + 2U + 2U * 14U);
  EXPECT_EQ(sent_bytes(stepwise, program), 14 * (1 << 20) / 8);
}

// Do ranks that share a program have their own partners? The slots of the one program lead each
// rank to its neighbours.
TEST(Expand, RanksThatShareAProgramHaveTheirOwnPartners) {
  const Workload stepwise = expand_collectives(
      one_collective(gpus_of(8), CollectiveOp::AllReduce, 1 << 20, "ring"), star(8));
  for (RankId id = 0; id < 8; ++id) {
    const Rank& rank = stepwise.ranks[id];
    std::size_t messages = 0;
    for (const Operation& op : stepwise.programs[rank.program].operations) {
      if (op.kind != OpKind::Send && op.kind != OpKind::Recv) continue;
      const auto [group, group_rank] = rank.slots.at(op.slot);
      const std::vector<RankId>& pair = stepwise.groups.at(group).members;
      EXPECT_EQ(group_rank, op.kind == OpKind::Send ? 0U : 1U);
      EXPECT_EQ(pair.at(group_rank), id);
      EXPECT_EQ(pair.at(1 - group_rank), (op.kind == OpKind::Send ? id + 1 : id + 7) % 8);
      ++messages;
    }
    EXPECT_GE(messages, 2U * 14U) << "one sent and one received in each step";
  }
}

// Do uneven pieces give every rank its own program? 1000 bytes in 8 parts are 125 each; parts of
// 1001 bytes differ, and so do the ranks.
TEST(Expand, UnevenPiecesGiveEveryRankItsOwnProgram) {
  const auto programs = [](std::int64_t bytes) {
    return expand_collectives(one_collective(gpus_of(8), CollectiveOp::AllReduce, bytes, "ring"),
                              star(8))
        .programs.size();
  };
  EXPECT_EQ(programs(1000), 1U);
  EXPECT_EQ(programs(1001), 8U);
}

// Are tags, dependencies and memory effects kept?
TEST(Expand, TagsDependenciesAndMemoryAreKept) {
  const Cluster cluster = star(2);
  const Workload stepwise = expand_collectives(
      one_collective(gpus_of(2), CollectiveOp::AllGather, 1 << 20, "ring"), cluster);
  const Program& program = stepwise.programs.front();
  // before, launch, send and receive in either order, join, after
  ASSERT_EQ(program.operations.size(), 6U);
  const Operation& launch = program.operations[1];
  const Operation& join = program.operations[4];
  EXPECT_EQ(launch.kind, OpKind::Delay);
  EXPECT_EQ(join.kind, OpKind::Delay);
  EXPECT_EQ(program.effects_of(1).front().bytes, 5);
  EXPECT_EQ(program.effects_of(4).front().bytes, -5);
  EXPECT_THAT(program.dependencies_of(1), ::testing::ElementsAre(0));
  EXPECT_THAT(program.dependencies_of(4), ::testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(program.dependencies_of(5), ::testing::ElementsAre(4));
  for (std::size_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(program.operations[i].microbatch, 3);
    EXPECT_EQ(program.operations[i].layer, 7);
    EXPECT_EQ(program.operations[i].part, StepPart::GradSync);
  }
}

// Do uneven pieces add up to the whole?
TEST(Expand, UnevenPiecesAddUpToTheWhole) {
  const Cluster cluster = star(3);
  const Workload stepwise = expand_collectives(
      one_collective(gpus_of(3), CollectiveOp::AllGather, 1000, "ring"), cluster);
  std::int64_t sent = 0;
  for (const Program& program : stepwise.programs) {
    sent += sent_bytes(stepwise, program);
  }
  EXPECT_EQ(sent, 2 * 1000);
}

// Is no byte lost or added? If every byte has one path (a gathered part to each other rank once, a
// sum towards its owner), (n-1) S bytes are sent, exactly even for a prime number of bytes, and all
// of them are received.
TEST(Expand, NoByteIsLostOrAdded) {
  constexpr std::int64_t kPrime = 1000003;
  constexpr std::uint32_t kRanks = 12;
  const Cluster cluster = make_cluster({.nodes = 3, .gpus = 4});
  const std::vector<std::uint32_t> gpus = gpus_of(kRanks);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  std::size_t algorithms = 0;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    const CollectiveOp op = algorithm->op();
    const bool one_way = op == CollectiveOp::AllGather || op == CollectiveOp::ReduceScatter ||
                         op == CollectiveOp::Broadcast || op == CollectiveOp::Reduce;
    if (!one_way || algorithm->refusal(placed) || !algorithm->switches(placed).empty()) continue;
    const std::string name(algorithm->name());
    const Workload stepwise =
        expand_collectives(one_collective(gpus, op, kPrime, name.c_str()), cluster);
    std::int64_t sent = 0;
    std::int64_t received = 0;
    for (const Program& program : stepwise.programs) {
      sent += sent_bytes(stepwise, program);
      for (const Operation& operation : program.operations)
        if (operation.kind == OpKind::Recv) received += bytes_of(stepwise.calls[operation.payload]);
    }
    EXPECT_EQ(sent, (kRanks - 1) * kPrime) << to_string(op) << " " << name;
    EXPECT_EQ(received, sent) << to_string(op) << " " << name;
    ++algorithms;
  }
  // Five each gather and scatter without a switch, two each broadcast and reduce.
  EXPECT_GE(algorithms, 2U * 5U + 2U * 2U);
}

// Does a group of one become an empty delay?
TEST(Expand, AGroupOfOneBecomesADelayOfNothing) {
  const Cluster cluster = star(2);
  const Workload stepwise = expand_collectives(
      one_collective(gpus_of(1), CollectiveOp::AllReduce, 1000, "ring"), cluster);
  ASSERT_EQ(stepwise.programs.front().operations.size(), 4U);
  std::size_t delays = 0;
  for (const Operation& op : stepwise.programs.front().operations) {
    if (op.kind == OpKind::Delay) {
      EXPECT_EQ(stepwise.delays.at(op.payload).value(), 0.0);
      ++delays;
    }
  }
  EXPECT_GE(delays, 1U);
}

// Are too many channels refused with a remedy?
TEST(Expand, TooManyChannelsAreRefusedWithARemedy) {
  const Cluster cluster = star(130);
  EXPECT_THROW(
      static_cast<void>(expand_collectives(
          one_collective(gpus_of(130), CollectiveOp::AllReduce, 1000, "one_shot"), cluster)),
      RunError);
}

}  // namespace
}  // namespace trainyard
