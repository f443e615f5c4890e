// Who gets how many layers and microbatches?
#include "scenarios/simulate/balance.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "runs.hpp"

namespace trainyard {
namespace {

using Shares = std::vector<std::int64_t>;

Shares shares(std::int64_t count, const std::vector<double>& seconds,
              const std::vector<double>& extra, const Shares& most) {
  return balanced_shares(count, seconds, extra, most);
}

// Speeds 2 : 1 share 12 items 8 : 4, so that both take 8 s. An extra of 3 s takes one from the
// second.
TEST(BalancedShares, TheLargestTimeIsTheSmallestPossible) {
  EXPECT_EQ(shares(12, {1.0, 2.0}, {0.0, 0.0}, {12, 12}), (Shares{8, 4}));
  EXPECT_EQ(shares(12, {1.0, 2.0}, {0.0, 3.0}, {12, 12}), (Shares{9, 3}));
  EXPECT_EQ(shares(12, {1.0, 2.0}, {0.0, 0.0}, {6, 12}), (Shares{6, 6})) << "memory";
  EXPECT_EQ(shares(7, {1.0, 1.0, 1.0}, {0.0, 0.0, 0.0}, {7, 7, 7}), (Shares{3, 2, 2}));
  EXPECT_TRUE(shares(12, {1.0, 2.0}, {0.0, 0.0}, {6, 5}).empty());
  EXPECT_TRUE(shares(1, {1.0, 2.0}, {0.0, 0.0}, {6, 5}).empty()) << "each gets one";
}

// Is the greedy division the best of all, for every division of small numbers?
TEST(BalancedShares, NoOtherDivisionIsBetter) {
  const std::vector<double> seconds = {1.0, 1.7, 3.1};
  const std::vector<double> extra = {0.4, 0.0, 1.5};
  const auto largest = [&](const Shares& given) {
    double most = 0.0;
    for (std::size_t i = 0; i < given.size(); ++i)
      most = std::max(most, static_cast<double>(given[i]) * seconds[i] + extra[i]);
    return most;
  };
  for (std::int64_t count = 3; count < 20; ++count) {
    const double found = largest(shares(count, seconds, extra, {count, count, count}));
    for (std::int64_t a = 1; a + 2 <= count; ++a)
      for (std::int64_t b = 1; a + b + 1 <= count; ++b)
        EXPECT_LE(found, largest({a, b, count - a - b}) + 1e-12) << count;
  }
}

nlohmann::ordered_json two_replicas() {
  auto document = small_document({.tensor = 8, .data = 2, .microbatches = 12});
  document["defaults"] = "ideal";
  document["interference"] = false;
  return document;
}

// Do equal numbers of microbatches, written down, give the run of a plan that does not name them?
TEST(ReplicaMicrobatches, EqualOnesChangeNothing) {
  auto document = two_replicas();
  document["parallelism"]["pipeline"] = 2;
  document["cluster"]["nodes"] = 4;
  const double plain_s = simulate(load(document)).timeline.makespan_s;
  document["parallelism"]["replica_microbatches"] = {12, 12};
  const ScenarioRun run = simulate(load(document));
  EXPECT_NEAR(run.timeline.makespan_s, plain_s, kAgreement * plain_s);
  expect_sound(run);
}

// Does each replica compute as many microbatches as it has, and does the step fold?
TEST(ReplicaMicrobatches, AReplicaComputesItsOwn) {
  auto document = two_replicas();
  document["parallelism"]["replica_microbatches"] = {18, 6};
  const Scenario scenario = load(document);
  const ScenarioRun run = simulate(scenario);
  expect_sound(run);
  for (const RankId rank : {RankId{0}, RankId{8}}) {
    std::int32_t last = -1;
    for (const Operation& op : run.workload->programs[run.workload->ranks[rank].program].operations)
      last = std::max(last, op.microbatch);
    EXPECT_EQ(last, rank == RankId{0} ? 17 : 5);
  }
  const double unfolded_s = simulate(scenario, {.fold = false}).timeline.makespan_s;
  EXPECT_NEAR(run.timeline.makespan_s, unfolded_s, kAgreement * unfolded_s);
  EXPECT_LT(run.partition->ranks.size(), run.workload->ranks.size());
}

TEST(ReplicaMicrobatches, WhatCannotBeIsRefused) {
  auto document = two_replicas();
  auto& p = document["parallelism"];
  p["replica_microbatches"] = {12};
  EXPECT_EQ(complaints(document),
            "/parallelism/replica_microbatches: has 1 entries for 2 replicas (give one for each "
            "replica, by its data rank)");
  p["replica_microbatches"] = {12, 13};
  EXPECT_EQ(complaints(document),
            "/parallelism/replica_microbatches: 25 microbatches of 1 sequences are not the global "
            "batch of 24 (let microbatches x micro_batch_size add up to global_batch_size)");
  p["replica_microbatches"] = {13, 11};
  p["zero_stage"] = 3;
  EXPECT_EQ(complaints(document),
            "/parallelism/replica_microbatches: cannot be combined with zero_stage 3, whose "
            "replicas meet in every microbatch (set zero_stage to 1 or 0)");
}

// One of two nodes has half the speed: its replicas get half the microbatches of the others, and
// the step takes two thirds of that with equal shares, but for what is done once a step.
TEST(Balance, MicrobatchesFollowTheSpeedOfReplicas) {
  auto document = small_document({.data = 16, .microbatches = 12});
  document["defaults"] = "ideal";
  document["interference"] = false;
  for (int gpu = 0; gpu < 8; ++gpu)
    document["cluster"]["faults"].push_back(
        {{"device", "node 1 gpu " + std::to_string(gpu)}, {"speed_factor", 0.5}});
  const double equal_s = simulate(load(document)).view().step_s();
  document["parallelism"]["balance"] = "auto";
  const ScenarioRun run = simulate(load(document));
  ASSERT_TRUE(run.facts.balance);
  Shares shares_found(16, 16);
  std::fill(shares_found.begin() + 8, shares_found.end(), 8);
  EXPECT_EQ(run.facts.balance->microbatches, shares_found);
  EXPECT_TRUE(run.facts.balance->layers.empty()) << "there is one stage";
  EXPECT_NEAR(run.facts.balance->equal_step_s, equal_s, kAgreement * equal_s);
  EXPECT_LT(run.view().step_s(), 0.75 * equal_s);
  EXPECT_GT(run.view().step_s(), 0.6 * equal_s);
  const auto result = result_json(run.view());
  EXPECT_EQ(result.at("balance").at("replica_microbatches"), nlohmann::ordered_json(shares_found));
  // The resolved scenario gives the same run without a search.
  const ScenarioRun again = simulate(load(result.at("scenario")));
  EXPECT_FALSE(again.facts.balance);
  EXPECT_NEAR(again.view().step_s(), run.view().step_s(), kAgreement * equal_s);
}

// A stage whose GPUs have a third of the speed gets about a third of the layers of the other, and
// seven layers need not divide evenly.
TEST(Balance, LayersFollowTheSpeedOfStages) {
  auto document = small_document({.tensor = 8, .pipeline = 2, .microbatches = 16});
  document["defaults"] = "ideal";
  document["model"]["layers"] = 7;
  document["cluster"]["nodes"] = 2;
  for (int gpu = 0; gpu < 8; ++gpu)
    document["cluster"]["faults"].push_back(
        {{"device", "node 0 gpu " + std::to_string(gpu)}, {"speed_factor", 0.3333}});
  document["parallelism"]["balance"] = "auto";
  const ScenarioRun run = simulate(load(document));
  const Shares layers = run.facts.balance->layers;
  EXPECT_EQ(layers[0] + layers[1], 7);
  EXPECT_LT(layers[0], layers[1]);
  EXPECT_LT(run.view().step_s(), 0.9 * run.facts.balance->equal_step_s);
  // No other split is faster.
  document["parallelism"]["balance"] = "equal";
  for (std::int64_t first = 1; first < 7; ++first) {
    document["parallelism"]["layers_per_stage"] = {first, 7 - first};
    EXPECT_GE(simulate(load(document)).view().step_s(), run.view().step_s() * (1.0 - kAgreement))
        << first;
  }
}

// Two workers of local steps have the same shares. Does it matter which of them has the slow GPU?
TEST(Balance, TheSlowestWorkerCounts) {
  std::vector<double> steps_s;
  for (const int node : {0, 2}) {
    auto document = small_document({.data = 16, .microbatches = 12});
    document["defaults"] = "ideal";
    document["cluster"]["nodes"] = 4;
    document["local_steps"] = {{"every", 10}, {"workers", 2}};
    document["cluster"]["faults"] = {
        {{"device", fmt::format("node {} gpu 2", node)}, {"speed_factor", 0.5}}};
    document["parallelism"]["balance"] = "auto";
    const ScenarioRun run = simulate(load(document));
    EXPECT_LT(run.view().step_s(), 0.9 * run.facts.balance->equal_step_s);
    steps_s.push_back(run.view().step_s());
  }
  EXPECT_NEAR(steps_s[0], steps_s[1], kAgreement * steps_s[0]);
}

// Equal GPUs keep equal shares.
TEST(Balance, EqualGpusKeepEqualShares) {
  auto document = two_replicas();
  const double equal_s = simulate(load(document)).view().step_s();
  document["parallelism"]["balance"] = "auto";
  const ScenarioRun run = simulate(load(document));
  EXPECT_EQ(run.facts.balance->microbatches, (Shares{12, 12}));
  EXPECT_NEAR(run.view().step_s(), equal_s, kAgreement * equal_s);
}

}  // namespace
}  // namespace trainyard
