// The device of each rank and the members of each group, in Megatron's order and in another one.
#include "models/rank_groups.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/pipeline_shape.hpp"

namespace trainyard {
namespace {

using Members = std::vector<RankId>;

Workload groups_of(const Parallelism& parallelism, bool tied = false) {
  Workload workload;
  Architecture architecture;
  add_groups({.parallelism = parallelism,
              .architecture = architecture,
              .placement = placement_of(parallelism),
              .context = context_shape(parallelism),
              .shares_embedding = tied && !embedding_and_head_on_one_rank(parallelism)},
             workload);
  return workload;
}

const Members& group_at(const Workload& workload, RankId rank, Slot slot) {
  return workload.groups.at(workload.ranks[rank].slots[static_cast<std::size_t>(slot)].group)
      .members;
}

bool bound(const Workload& workload, RankId rank, Slot slot) {
  return workload.ranks[rank].slots[static_cast<std::size_t>(slot)].group != kNone;
}

std::map<GroupKind, std::size_t> counts(const Workload& workload) {
  std::map<GroupKind, std::size_t> result;
  for (const Group& group : workload.groups) ++result[group.kind];
  return result;
}

// Are the groups of sixteen GPUs those of Megatron? rank = tp + t*(dp + d*pp): Megatron-LM's
// parallel_state.py prints these groups for 16 GPUs, t = 2, p = 4.
TEST(RankGroups, MegatronsSixteenGpus) {
  const Workload w = groups_of({.tensor = 2, .pipeline = 4, .data = 2});
  ASSERT_EQ(w.ranks.size(), 16U);
  EXPECT_EQ(group_at(w, 0, Slot::Tensor), (Members{0, 1}));
  EXPECT_EQ(group_at(w, 15, Slot::Tensor), (Members{14, 15}));
  EXPECT_EQ(group_at(w, 0, Slot::Data), (Members{0, 2}));
  EXPECT_EQ(group_at(w, 1, Slot::Data), (Members{1, 3}));
  EXPECT_EQ(group_at(w, 13, Slot::Data), (Members{13, 15}));
  EXPECT_EQ(group_at(w, 3, Slot::SendForward), (Members{3, 7}));
  EXPECT_EQ(group_at(w, 7, Slot::RecvForward), (Members{3, 7}));
  EXPECT_EQ(group_at(w, 7, Slot::SendBackward), (Members{7, 3}));
  EXPECT_EQ(group_at(w, 3, Slot::RecvBackward), (Members{7, 3}));
  EXPECT_EQ(group_at(w, 2, Slot::Model), (Members{2, 3, 6, 7, 10, 11, 14, 15}));
  EXPECT_EQ(w.ranks[6].label, "dp1 pp1 tp0");
  EXPECT_EQ(w.ranks[6].program, 1U);
}

// Does another rank order give the expected groups?
TEST(RankGroups, AnotherOrder) {
  const Workload w =
      groups_of({.tensor = 2, .pipeline = 4, .data = 2, .rank_order = "tp-cp-ep-pp-dp"});
  EXPECT_EQ(group_at(w, 0, Slot::Tensor), (Members{0, 1}));
  EXPECT_EQ(group_at(w, 0, Slot::Data), (Members{0, 8}));
  EXPECT_EQ(group_at(w, 3, Slot::SendForward), (Members{3, 5}));
  EXPECT_EQ(group_at(w, 2, Slot::Model), (Members{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(w.ranks[6].program, 3U);
  const Workload scattered =
      groups_of({.tensor = 2, .pipeline = 2, .data = 2, .rank_order = "pp-dp-cp-ep-tp"});
  EXPECT_EQ(group_at(scattered, 0, Slot::Tensor), (Members{0, 4}));
  EXPECT_EQ(group_at(scattered, 0, Slot::Data), (Members{0, 2}));
  EXPECT_EQ(group_at(scattered, 0, Slot::SendForward), (Members{0, 1}));
}

// Are position and rank inverse to each other?
TEST(RankGroups, PositionAndRankAreInverse) {
  for (const std::string order : {"tp-cp-ep-dp-pp", "pp-dp-ep-cp-tp", "dp-tp-ep-pp-cp"}) {
    const RankGrid grid(
        Parallelism{.tensor = 2, .pipeline = 3, .data = 5, .context = 2, .rank_order = order});
    ASSERT_EQ(grid.world(), 60);
    std::set<RankId> seen;
    for (RankId rank = 0; rank < 60; ++rank) {
      EXPECT_EQ(grid.rank(grid.position(rank)), rank);
      seen.insert(grid.rank(grid.position(rank)));
    }
    EXPECT_EQ(seen.size(), 60U);
  }
  const RankGrid grid(Parallelism{.tensor = 8, .pipeline = 4, .data = 2});
  const GridPosition twelve = grid.position(12);
  EXPECT_EQ(twelve.tensor, 4);
  EXPECT_EQ(twelve.data, 1);
  EXPECT_EQ(twelve.pipeline, 0);
}

// Where are the ranks of stages with 4 and 2 tensor ranks and two replicas? Stage 0 has ranks 0 to
// 7, stage 1 ranks 8 to 11. Two ranks of stage 0 send to one rank of stage 1, in two slots of it.
TEST(RankGroups, UnequalStagesFollowEachOther) {
  const Parallelism unequal{.tensor = 4, .tensor_per_stage = {4, 2}, .pipeline = 2, .data = 2};
  const RankGrid grid(unequal);
  ASSERT_EQ(grid.world(), 12);
  for (RankId rank = 0; rank < 12; ++rank) EXPECT_EQ(grid.rank(grid.position(rank)), rank);
  const GridPosition nine = grid.position(9);
  EXPECT_EQ(nine.tensor, 1);
  EXPECT_EQ(nine.data, 0);
  EXPECT_EQ(nine.pipeline, 1);
  const StagePeers before = grid.peers(nine, 0);
  EXPECT_EQ(grid.rank(before.first), RankId{2});
  EXPECT_EQ(before.count, 2);
  EXPECT_EQ(before.number, 0);
  const StagePeers after = grid.peers(grid.position(3), 1);
  EXPECT_EQ(grid.rank(after.first), RankId{9});
  EXPECT_EQ(after.count, 1);
  EXPECT_EQ(after.number, 1);

  const Workload w = groups_of(unequal);
  EXPECT_EQ(group_at(w, 5, Slot::Tensor), (Members{4, 5, 6, 7}));
  EXPECT_EQ(group_at(w, 9, Slot::Tensor), (Members{8, 9}));
  EXPECT_EQ(group_at(w, 1, Slot::Data), (Members{1, 5}));
  EXPECT_EQ(group_at(w, 9, Slot::Data), (Members{9, 11}));
  EXPECT_EQ(group_at(w, 10, Slot::Model), (Members{4, 5, 6, 7, 10, 11}));
  EXPECT_EQ(group_at(w, 3, Slot::SendForward), (Members{3, 9}));
  EXPECT_EQ(group_at(w, 9, Slot::RecvForward), (Members{2, 9}));
  EXPECT_EQ(group_at(w, 9, piece_slot(PeerUse::RecvForward, 1)), (Members{3, 9}));
  EXPECT_EQ(group_at(w, 9, piece_slot(PeerUse::SendBackward, 1)), (Members{9, 3}));
  EXPECT_EQ(group_at(w, 3, Slot::RecvBackward), (Members{9, 3}));
  EXPECT_EQ(w.slots.back(), "send_backward_piece_1");
  EXPECT_EQ(w.ranks[9].label, "dp0 pp1 tp1");
  EXPECT_EQ(w.ranks[9].program, 1U);
}

// Is the number of groups of each kind correct?
TEST(RankGroups, Counts) {
  const Parallelism plain{.tensor = 4, .pipeline = 3, .data = 5};
  auto count = counts(groups_of(plain));
  EXPECT_EQ(count[GroupKind::Tensor], 15U);
  EXPECT_EQ(count[GroupKind::Data], 12U);
  EXPECT_EQ(count[GroupKind::Pipeline], 2U * 2U * 20U) << "two directions, two borders";
  EXPECT_EQ(count[GroupKind::Other], 5U) << "one gradient norm for each replica";
  count = counts(groups_of(plain, true));
  EXPECT_EQ(count[GroupKind::Other], 5U + 20U) << "and first with last stage";

  Parallelism sharded = plain;
  sharded.zero_stage = 1;
  EXPECT_EQ(counts(groups_of(sharded))[GroupKind::Other], 1U) << "shares of one norm everywhere";

  Parallelism interleaved = plain;
  interleaved.interleave = 2;
  EXPECT_EQ(counts(groups_of(interleaved))[GroupKind::Pipeline], 2U * 3U * 20U);
}

// Does the pipeline wrap around only if it is interleaved? Chunk k of the last rank then feeds
// chunk k+1 of the first.
TEST(RankGroups, ThePipelineWrapsAroundOnlyWhenInterleaved) {
  const Workload ring = groups_of({.tensor = 2, .pipeline = 4, .interleave = 2});
  EXPECT_EQ(group_at(ring, 7, Slot::SendForward), (Members{7, 1}));
  EXPECT_EQ(group_at(ring, 1, Slot::RecvForward), (Members{7, 1}));
  EXPECT_EQ(group_at(ring, 1, Slot::SendBackward), (Members{1, 7}));
  const Workload two = groups_of({.pipeline = 2, .interleave = 3});
  EXPECT_EQ(group_at(two, 0, Slot::SendForward), (Members{0, 1}));
  EXPECT_EQ(group_at(two, 1, Slot::SendForward), (Members{1, 0}));
  EXPECT_NE(two.ranks[0].slots[static_cast<std::size_t>(Slot::SendForward)].group,
            two.ranks[0].slots[static_cast<std::size_t>(Slot::RecvBackward)].group);
  const Workload line = groups_of({.pipeline = 4});
  EXPECT_FALSE(bound(line, 3, Slot::SendForward));
  EXPECT_FALSE(bound(line, 0, Slot::RecvForward));
  EXPECT_FALSE(bound(line, 0, Slot::SendBackward));
}

// Is a group of one not created?
TEST(RankGroups, AGroupOfOneIsNotMade) {
  const Workload alone = groups_of({});
  EXPECT_TRUE(alone.groups.empty());
  const Workload replicas = groups_of({.data = 3}, true);
  ASSERT_EQ(replicas.groups.size(), 1U);
  EXPECT_FALSE(bound(replicas, 0, Slot::Tensor));
  EXPECT_FALSE(bound(replicas, 0, Slot::Embedding)) << "one stage holds both ends";
}

// Do the first and the last stage share the tied table?
TEST(RankGroups, TheTiedTableIsSharedByFirstAndLastStage) {
  const Workload w = groups_of({.tensor = 2, .pipeline = 3, .data = 2}, true);
  EXPECT_EQ(group_at(w, 3, Slot::Embedding), (Members{3, 11}));
  EXPECT_EQ(group_at(w, 11, Slot::Embedding), (Members{3, 11}));
  EXPECT_FALSE(bound(w, 5, Slot::Embedding));
}

// Are shards and their copies laid out correctly? 8 replicas are 2 copies of 4 shards, and the
// shards of a copy are adjacent.
TEST(RankGroups, ShardsAndTheirCopies) {
  const Workload w =
      groups_of({.tensor = 2, .data = 8, .zero_stage = 3, .shard = 4, .reshard_group = 2});
  EXPECT_EQ(group_at(w, 0, Slot::Shard), (Members{0, 2, 4, 6}));
  EXPECT_EQ(group_at(w, 15, Slot::Shard), (Members{9, 11, 13, 15}));
  EXPECT_EQ(group_at(w, 2, Slot::Replica), (Members{2, 10}));
  EXPECT_EQ(group_at(w, 6, Slot::Reshard), (Members{4, 6}));
  EXPECT_EQ(group_at(w, 3, Slot::Model), (Members{0, 1, 2, 3, 4, 5, 6, 7})) << "of one copy";
  EXPECT_EQ(group_at(w, 1, Slot::Data), (Members{1, 3, 5, 7, 9, 11, 13, 15}));
}

}  // namespace
}  // namespace trainyard
