// Which losses a policy and a near checkpoint survive, over all sets of lost nodes, against the
// closed forms of GEMINI and Bamboo.
#include "tools/studies/goodput/run/policy.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "models/reliability/redundancy.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {
namespace {

using Slots = std::vector<std::int64_t>;

// The share of the sets of `lost` out of `nodes` slots for which `holds` is true.
double share_of_sets(std::int64_t nodes, std::size_t lost,
                     const std::function<bool(const Slots&)>& holds) {
  double sets = 0.0;
  double held = 0.0;
  Slots chosen;
  const std::function<void(std::int64_t)> choose = [&](std::int64_t from) {
    if (chosen.size() == lost) {
      ++sets;
      if (holds(chosen)) ++held;
      return;
    }
    for (std::int64_t slot = from; slot < nodes; ++slot) {
      chosen.push_back(slot);
      choose(slot + 1);
      chosen.pop_back();
    }
  };
  choose(0);
  return held / sets;
}

Job job_of(FailurePolicy policy, std::int64_t replicas, std::int64_t stages) {
  Job job;
  job.policy = policy;
  job.replicas = replicas;
  job.stages = stages;
  job.nodes_per_replica = static_cast<double>(stages);
  return job;
}

// Two or three of 16 machines with two copies of each part are lost: 0.9333 and 0.8 (GEMINI,
// corollary 1).
TEST(NearCheckpoint, SurvivesAsGeminiSays) {
  for (const std::int64_t lost : {2, 3}) {
    const double share = share_of_sets(16, static_cast<std::size_t>(lost), [](const Slots& slots) {
      return copies_survive(2, 16, slots);
    });
    EXPECT_NEAR(share, reliability::in_memory_survival(16, 2, lost), 1e-12) << lost;
  }
  EXPECT_FALSE(copies_survive(1, 16, {3}));
  EXPECT_TRUE(copies_survive(1, 16, {}));
  EXPECT_TRUE(copies_survive(0, 16, {1, 2, 3}));
}

// A leaf takes neighbours, which hold different parts.
TEST(NearCheckpoint, SurvivesNeighbours) {
  EXPECT_TRUE(copies_survive(2, 16, {0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_FALSE(copies_survive(2, 16, {0, 8}));
}

// A ring of 8 stages loses 2 or 3: 0.714 and 0.286; of 16 stages, 2: 0.867 (Bamboo).
TEST(Redundant, TrainsOnAsBambooSays) {
  int cases = 0;
  for (const auto& [stages, lost] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 2}, {8, 3}, {16, 2}}) {
    const Job job = job_of(FailurePolicy::Redundant, 1, stages);
    const double share =
        share_of_sets(stages, static_cast<std::size_t>(lost),
                      [&job](const Slots& slots) { return can_do_without(job, slots); });
    EXPECT_NEAR(share, reliability::ring_survival(stages, lost), 1e-12) << stages << " " << lost;
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

// 4 replicas of 2 stages: of the 28 pairs of nodes, every one leaves each stage a peer. 4 lost
// nodes stop the job only if they are all of one stage: 2 of 70 sets.
TEST(Reroute, NeedsOnePeerOfEachStage) {
  const Job job = job_of(FailurePolicy::Reroute, 4, 2);
  const auto holds = [&job](const Slots& slots) { return can_do_without(job, slots); };
  EXPECT_EQ(share_of_sets(8, 2, holds), 1.0);
  EXPECT_NEAR(share_of_sets(8, 4, holds), 68.0 / 70.0, 1e-12);
}

// 4 nodes and their twins: of 28 pairs, 4 are twins.
// Two replicas of two stages of two nodes. Node 0 of stage 0 is missing in one replica and node 1
// in the other: each has a peer, which does the work of two.
TEST(Reroute, CountsTheNodeThatMostReplicasLack) {
  Job job = job_of(FailurePolicy::Reroute, 2, 2);
  job.nodes_per_replica = 4.0;
  EXPECT_TRUE(can_do_without(job, {0, 5}));
  EXPECT_EQ(missing_stages(job, {0, 5}), Slots{0});
  EXPECT_EQ(missing_stages(job, {0, 2, 5}), (Slots{0, 1}));
  EXPECT_FALSE(can_do_without(job, {0, 4}));
  job.replicas = 3;
  EXPECT_EQ(missing_stages(job, {0, 4, 5}), (Slots{0, 0}));
  EXPECT_EQ(missing_stages(job, {}), Slots{});
}

TEST(Mirrored, NeedsOneOfEachTwins) {
  const Job job = job_of(FailurePolicy::Mirrored, 2, 2);
  EXPECT_EQ(job.nodes(), 8);
  const auto holds = [&job](const Slots& slots) { return can_do_without(job, slots); };
  EXPECT_EQ(share_of_sets(8, 1, holds), 1.0);
  EXPECT_NEAR(share_of_sets(8, 2, holds), 24.0 / 28.0, 1e-12);
}

// 4 replicas of 2 nodes, one of which a step does not need: of 28 pairs, 4 are of one replica.
TEST(Backup, LosesNoMoreReplicasThanItCan) {
  Job job = job_of(FailurePolicy::Backup, 4, 2);
  job.backup_replicas = 1;
  const auto holds = [&job](const Slots& slots) { return can_do_without(job, slots); };
  EXPECT_NEAR(share_of_sets(8, 2, holds), 4.0 / 28.0, 1e-12);
}

TEST(Restart, CannotDoWithoutANode) {
  EXPECT_FALSE(can_do_without(job_of(FailurePolicy::Restart, 4, 2), {0}));
  EXPECT_FALSE(can_do_without(job_of(FailurePolicy::Elastic, 4, 2), {0}));
  EXPECT_EQ(stage_of(job_of(FailurePolicy::Restart, 4, 2), 5), 1);
}

}  // namespace
}  // namespace trainyard
