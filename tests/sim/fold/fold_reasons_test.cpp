// The reasons why ranks are in different classes.
#include "sim/fold/fold_reasons.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/workload_text.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<ClassReason> reasons_of(const Cluster& cluster, const Workload& workload,
                                    const CommunicationModel& communication,
                                    bool drop_uncontended) {
  const FoldOptions options{.enabled = true, .drop_uncontended = drop_uncontended};
  const Partition partition = fold(cluster, workload, communication, options);
  std::vector<ClassReason> found =
      fold_reasons(cluster, workload, communication, options, partition);
  EXPECT_EQ(found.size(), partition.ranks.size());
  EXPECT_EQ(found[0].unlike, kNone);
  for (const ClassReason& reason : found) {
    EXPECT_TRUE(reason.rank_class == 0 || reason.unlike < reason.rank_class);
  }
  return found;
}

std::vector<ClassReason> reasons(const HandCluster& shape, const Workload& workload,
                                 bool drop_uncontended) {
  const Cluster cluster = hand_cluster(shape);
  return reasons_of(cluster, workload, RingModel(cluster), drop_uncontended);
}

std::vector<std::string> kinds(const ClassReason& reason) {
  std::vector<std::string> result;
  for (const DifferenceStep& step : reason.path) result.push_back(step.kind);
  return result;
}

// Does a single class need no reason?
TEST(FoldReasons, OneClassNeedsNoReason) {
  const auto found = reasons({.nodes = 4}, training_step({.data = 16}), false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].difference.cause, DifferenceCause::First);
}

// Is the reason for stages their program?
TEST(FoldReasons, StagesDifferByTheirProgram) {
  const auto found = reasons({.nodes = 2}, training_step({.data = 4, .stages = 2}), false);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].difference.cause, DifferenceCause::Program);
  EXPECT_THAT(found[1].path, testing::IsEmpty());
}

// Does the reason follow the path to a slow link? The tensor group of node 1 crosses a slower
// NVLink: rank, group, flow, link.
TEST(FoldReasons, FollowThePathToASlowLink) {
  const HandCluster shape{.nodes = 2, .speed = {{{"node 1 gpu 2", "node 1 nvswitch"}, 0.5}}};
  const auto found = reasons(shape, training_step({.tensor = 4, .data = 2}), false);
  ASSERT_GE(found.size(), 2U);
  const ClassReason& reason = found[1];
  EXPECT_EQ(reason.unlike, 0U);
  EXPECT_EQ(reason.difference.cause, DifferenceCause::Link);
  EXPECT_THAT(kinds(reason), ElementsAre("tensor group", "flow", "link"));
  EXPECT_EQ(reason.path[0].here, "4-7");
  EXPECT_EQ(reason.path[0].there, "0-3");
  EXPECT_EQ(reason.path[2].here, "node 1 gpu 2 -> node 1 nvswitch");
  EXPECT_THAT(reason.difference.because, HasSubstr("150 GB/s, not 300 GB/s"));
}

// Is a link that only one flow uses named? It is then a cap on the rate of the flow, and is
// reported as such.
TEST(FoldReasons, NameTheLinkThatOnlyOneFlowHas) {
  const HandCluster shape{.nodes = 2, .speed = {{{"node 1 gpu 2", "node 1 nvswitch"}, 0.5}}};
  const auto found = reasons(shape, training_step({.tensor = 4, .data = 2}), true);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].difference.cause, DifferenceCause::MultiLinkFlow);
  EXPECT_THAT(found[1].difference.because, HasSubstr("150 GB/s over node 1 gpu 2 -> node 1 nvswi"));
  EXPECT_THAT(found[1].difference.because, HasSubstr("not 300 GB/s"));
}

// Rings whose calls take 1 us among the first two GPUs, and 2 us among others.
class SlowElsewhere final : public CommunicationModel {
 public:
  explicit SlowElsewhere(const Cluster& cluster) : rings_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    std::vector<Phase> phases = rings_.phases(call, gpus);
    for (Phase& phase : phases) phase.latency = Seconds{gpus.front() < 2 ? 1e-6 : 2e-6};
    return phases;
  }

 private:
  RingModel rings_;
};

// Pairs of ranks on the given GPUs, each with one all_reduce.
Workload pairs_on(const std::vector<std::uint32_t>& gpus) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  program.collective("sum", "pair", CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1000});
  for (RankId rank = 0; rank < gpus.size(); ++rank) {
    workload.ranks.push_back({.program = 0,
                              .gpu = gpus[rank],
                              .slots = {{.group = GroupId{rank / 2U}, .group_rank = rank % 2}}});
    if (rank % 2 == 1) workload.groups.push_back({.members = {RankId{rank - 1U}, rank}});
  }
  return workload;
}

// Is the latency named of a group's only call?
TEST(FoldReasons, NameALatency) {
  const Cluster cluster = hand_cluster({.nodes = 1});
  const Workload workload = pairs_on({0, 1, 2, 3});
  const auto found = reasons_of(cluster, workload, SlowElsewhere(cluster), false);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].difference.cause, DifferenceCause::Latency);
  EXPECT_THAT(found[1].difference.because, HasSubstr("has a latency of 2 us, not 1 us"));
}

// Is a class compared with the earlier one that it parts from last, not with the nearest? The third
// pair differs from the second in latency at once, and from the first only in a link of its flow.
TEST(FoldReasons, CompareWithTheMostSimilarClass) {
  const Cluster cluster = hand_cluster(
      {.nodes = 1, .gpus_per_node = 6, .speed = {{{"node 0 gpu 5", "node 0 nvswitch"}, 0.5}}});
  const Workload workload = pairs_on({0, 2, 3, 4, 1, 5});
  const auto found = reasons_of(cluster, workload, SlowElsewhere(cluster), false);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].difference.cause, DifferenceCause::Latency);
  EXPECT_EQ(found[2].unlike, 0U);
  EXPECT_EQ(found[2].difference.cause, DifferenceCause::Link);
  EXPECT_THAT(found[2].difference.because, HasSubstr("150 GB/s, not 300 GB/s"));
}

// Are many ranks written as a few blocks?
TEST(RankBlocks, WriteManyRanksAsFewBlocks) {
  EXPECT_EQ(to_text(rank_blocks({0, 1, 8, 9, 16, 17})), "0-1 and every 8 to 16-17");
  EXPECT_EQ(to_text(rank_blocks({3})), "3");
  EXPECT_EQ(to_text(rank_blocks({0, 1, 2, 3, 8, 9, 10, 11})), "0-3, 8-11");
  EXPECT_EQ(to_text(rank_blocks({0, 2, 4, 6, 9})), "0 and every 2 to 6, 9");
  const std::vector<RankBlocks> blocks = rank_blocks({5, 7, 9, 20, 21});
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0], (RankBlocks{.first = 5, .length = 1, .every = 2, .times = 3}));
  EXPECT_EQ(blocks[1], (RankBlocks{.first = 20, .length = 2}));
}

// Is the first different operation named?
TEST(ProgramDifference, NamesTheFirstOperation) {
  Workload workload = empty_workload();
  for (const std::int64_t m : {64, 128}) {
    ProgramWriter program(workload, "stage 0");
    program.compute("embed", 32);
    program.compute("mlp", m);
  }
  EXPECT_EQ(program_difference(workload, 0, 0), "nothing");
  EXPECT_THAT(program_difference(workload, 1, 0), HasSubstr("operation 1 (mlp): gemm m128"));
}

}  // namespace
}  // namespace trainyard
