// Does the critical path add up, and do suppositions do what they say?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "scenarios/explain/sensitivity.hpp"
#include "sim/report/path_summary.hpp"

namespace trainyard {
namespace {

const std::string kFolder = TRAINYARD_SOURCE_DIRECTORY "/scenarios/";

Scenario loaded(const std::string& name, const std::vector<Override>& changes = {}) {
  return load_scenario(kFolder + name, changes);
}

double step_s(const Scenario& scenario, const Supposition& suppose) {
  return run_scenario(scenario, {.suppose = suppose}).timeline.makespan_s;
}

class Path : public testing::TestWithParam<const char*> {};

TEST_P(Path, CausesAndStagesAddUpToTheStep) {
  const auto run = run_scenario(loaded(GetParam()), {});
  const PathSummary path = path_summary(run.view());
  double causes = 0.0;
  double stages = 0.0;
  for (const PathCause& cause : path.causes) causes += cause.seconds;
  for (const PathStage& stage : path.stages) stages += stage.seconds;
  EXPECT_NEAR(causes, run.timeline.makespan_s, 1e-9 * run.timeline.makespan_s);
  EXPECT_NEAR(stages, run.timeline.makespan_s, 1e-9 * run.timeline.makespan_s);
  for (const OperationSlack& row : path.slack) {
    EXPECT_GE(row.least_slack_s, 0.0) << row.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, Path,
                         testing::Values("first/two_gpus.json", "llama3/llama3_8b_8xh100.json",
                                         "llama3/llama3_70b_64xh100.json",
                                         "megatron/gpt3_175b_64xa100_selective.json"));

// On one GPU nothing but kernels runs: each kind's time halves alone.
TEST(Supposition, FasterKernelsSaveHalfOfTheirTime) {
  const Scenario s = loaded("what_if/gpu.json",
                            {{"cluster.node", "dgx_h200"}, {"training.global_batch_size", "8"}});
  const double base = step_s(s, {.interference = false, .contention = false});
  const double gemm = step_s(s, {.gemm = 0.5, .interference = false, .contention = false});
  const double all = step_s(s, {.latency = 0.0,
                                .gemm = 0.5,
                                .attention = 0.5,
                                .memory_bound = 0.5,
                                .free = {GroupKind::Tensor, GroupKind::Data, GroupKind::Other},
                                .interference = false});
  const double free = step_s(s, {.latency = 0.0,
                                 .free = {GroupKind::Tensor, GroupKind::Data, GroupKind::Other},
                                 .interference = false});
  EXPECT_LT(gemm, base);
  EXPECT_NEAR(all, 0.5 * free, 1e-3 * free)
      << "only kernels are left, and the host that issues them";
}

TEST(Supposition, TwiceTheNetworkHalvesATransferOverIt) {
  const Scenario s = loaded("what_if/nic.json", {{"collectives.data.reduce_scatter", "ring"},
                                                 {"collectives.data.all_gather", "ring"}});
  const double base = step_s(s, {.latency = 0.0, .interference = false, .contention = false});
  const double fast =
      step_s(s, {.network = 2.0, .latency = 0.0, .interference = false, .contention = false});
  const double free = step_s(
      s, {.latency = 0.0, .free = {GroupKind::Data}, .interference = false, .contention = false});
  EXPECT_NEAR(base - fast, 0.5 * (base - free), 1e-6 * base);
}

// Whatever was asked before, the answer is that of a run of its own.
class Asked : public testing::TestWithParam<const char*> {};

TEST_P(Asked, WhatIfsInARowAreRunsOfTheirOwn) {
  for (const char* engine : {"simgrid", "ideal"}) {
    const Scenario s = loaded(GetParam(), {{"engine", engine}});
    WhatIf what_if(s, {});
    for (const Supposition& suppose :
         {Supposition{}, Supposition{.network = 2.0}, Supposition{.nvlink = 0.25},
          Supposition{.gemm = 0.5, .contention = false}, Supposition{.latency = 0.0},
          Supposition{.free = {GroupKind::Data}, .interference = false}, Supposition{}}) {
      const double alone = step_s(s, suppose);
      EXPECT_NEAR(what_if.run(suppose).timeline.makespan_s, alone, 1e-9 * alone) << engine;
    }
  }
}

// In every span and on every link, not in the length of the step alone.
void expect_same(const Run& run, const Run& alone) {
  const double step = alone.timeline.makespan_s;
  ASSERT_EQ(run.partition.class_of_rank, alone.partition.class_of_rank);
  ASSERT_EQ(run.timeline.classes.size(), alone.timeline.classes.size());
  for (std::size_t i = 0; i < alone.timeline.classes.size(); ++i) {
    const OpTimes& a = run.timeline.classes[i];
    const OpTimes& b = alone.timeline.classes[i];
    ASSERT_EQ(a.end_s.size(), b.end_s.size());
    double most = 0.0;
    for (std::size_t op = 0; op < b.end_s.size(); ++op)
      most =
          std::max({most, std::abs(a.ready_s[op] - b.ready_s[op]),
                    std::abs(a.start_s[op] - b.start_s[op]), std::abs(a.end_s[op] - b.end_s[op])});
    EXPECT_LE(most, 1e-9 * step) << "class " << i;
  }
  ASSERT_EQ(run.timeline.links.size(), alone.timeline.links.size());
  for (std::size_t link = 0; link < alone.timeline.links.size(); ++link) {
    EXPECT_DOUBLE_EQ(run.timeline.links[link].bytes, alone.timeline.links[link].bytes);
    EXPECT_NEAR(run.timeline.links[link].busy_s, alone.timeline.links[link].busy_s, 1e-9 * step);
  }
  EXPECT_EQ(run.timeline.counters.stretches, alone.timeline.counters.stretches);
}

// Speeds drawn at random change what meets what, who chooses which algorithm and what may be run as
// one stretch.
void expect_random_speeds_alike(const Scenario& s) {
  WhatIf what_if(s, {});
  std::mt19937_64 random(20261122);
  const auto factor = [&random] { return 0.125 * static_cast<double>(1 + random() % 32); };
  for (int i = 0; i < 6; ++i) {
    const Supposition suppose{.nvlink = i % 3 == 0 ? 1.0 : factor(),
                              .network = i % 3 == 1 ? 1.0 : factor(),
                              .latency = i % 2 == 0 ? 1.0 : factor()};
    SCOPED_TRACE(testing::Message()
                 << suppose.nvlink << ' ' << suppose.network << ' ' << suppose.latency);
    expect_same(what_if.run(suppose), run_scenario(s, {.suppose = suppose}));
  }
}

TEST_P(Asked, RandomSpeedsInARowAreRunsOfTheirOwn) {
  expect_random_speeds_alike(loaded(GetParam()));
}

// A slow link keeps its GPU apart from the others all along.
TEST(WhatIfs, OfAClusterWithASlowLinkAreRunsOfTheirOwn) {
  const std::vector<Override> slow = {
      {"cluster.faults", R"([{"rail": 3, "capacity_factor": 0.25}])"}};
  const Scenario s = loaded("what_if/dead_rail.json", slow);
  EXPECT_GT(run_scenario(s, {}).partition.ranks.size(),
            run_scenario(loaded("what_if/dead_rail.json"), {}).partition.ranks.size());
  expect_random_speeds_alike(s);
}

INSTANTIATE_TEST_SUITE_P(Shipped, Asked,
                         testing::Values("first/two_gpus.json", "what_if/nic.json",
                                         "fsdp/llama3_8b_8xh100_fsdp.json"));

TEST(Sensitivities, AreRankedAndNameWhatIsThere) {
  const Scenario s = loaded("what_if/tensor.json", {{"training.global_batch_size", "8"}});
  const auto run = run_scenario(s, {});
  const std::vector<Sensitivity> rows = sensitivities(s, run, {.processes = 2, .progress = {}});
  ASSERT_GT(rows.size(), 6U);
  for (std::size_t i = 1; i < rows.size(); ++i)
    EXPECT_LE(rows[i - 1].step_time_s, rows[i].step_time_s);
  const std::string text = sensitivities_text(rows);
  EXPECT_THAT(text, testing::HasSubstr("GEMMs twice as fast"));
  EXPECT_THAT(text, testing::HasSubstr("tensor communication free"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("faults")));
}

}  // namespace
}  // namespace trainyard
