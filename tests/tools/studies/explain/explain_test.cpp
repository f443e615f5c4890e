// Does the critical path add up, and does each what-if have the effect that it names?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/report/path_summary.hpp"
#include "tools/studies/explain/sensitivity.hpp"

namespace trainyard {
namespace {

const std::string kFolder = TRAINYARD_SOURCE_DIRECTORY "/scenarios/";

Scenario loaded(const std::string& name, const std::vector<Override>& changes = {}) {
  return load_scenario(kFolder + name, changes);
}

double step_s(const Scenario& scenario, const WhatIf& what_if) {
  return simulate(scenario, {.what_if = what_if}).timeline.makespan_s;
}

class Path : public testing::TestWithParam<const char*> {};

// Do causes and stages add up to the step?
TEST_P(Path, CausesAndStagesAddUpToTheStep) {
  const auto run = simulate(loaded(GetParam()), {});
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

// Do faster kernels save half of their time? On one GPU only kernels run: the time of each kind
// halves separately.
TEST(WhatIf, FasterKernelsSaveHalfOfTheirTime) {
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

// Does twice the network rate halve a transfer over it?
TEST(WhatIf, TwiceTheNetworkHalvesATransferOverIt) {
  const Scenario s = loaded("what_if/nic.json", {{"collectives.data.reduce_scatter", "ring"},
                                                 {"collectives.data.all_gather", "ring"}});
  const double base = step_s(s, {.latency = 0.0, .interference = false, .contention = false});
  const double fast =
      step_s(s, {.network = 2.0, .latency = 0.0, .interference = false, .contention = false});
  const double free = step_s(
      s, {.latency = 0.0, .free = {GroupKind::Data}, .interference = false, .contention = false});
  EXPECT_NEAR(base - fast, 0.5 * (base - free), 1e-6 * base);
}

// Runs every what-if after others: the result must be that of a separate run.
class Asked : public testing::TestWithParam<const char*> {};

// Are what-ifs in sequence equal to separate runs?
TEST_P(Asked, WhatIfsInARowAreRunsOfTheirOwn) {
  for (const char* engine : {"simgrid", "ideal"}) {
    const Scenario s = loaded(GetParam(), {{"engine", engine}});
    Memo memo;
    for (const WhatIf& what_if :
         {WhatIf{}, WhatIf{.network = 2.0}, WhatIf{.nvlink = 0.25},
          WhatIf{.gemm = 0.5, .contention = false}, WhatIf{.latency = 0.0},
          WhatIf{.free = {GroupKind::Data}, .interference = false}, WhatIf{}}) {
      const double kept = simulate(s, {.what_if = what_if}, memo).timeline.makespan_s;
      const double alone = step_s(s, what_if);
      EXPECT_NEAR(kept, alone, 1e-9 * alone) << engine;
    }
  }
}

void expect_near(const std::vector<double>& dates, const std::vector<double>& others, double most) {
  ASSERT_EQ(dates.size(), others.size());
  for (std::size_t i = 0; i < dates.size(); ++i) ASSERT_NEAR(dates[i], others[i], most) << i;
}

// Expects equality in every span and on every link, not only in the length of the step. The clock
// of SimGrid continues from run to run of a process, so that dates differ in their last bits.
void expect_same(const Result& run, const Result& alone) {
  const double most = 1e-9 * alone.timeline.makespan_s;
  ASSERT_EQ(run.partition->class_of_rank, alone.partition->class_of_rank);
  ASSERT_EQ(run.timeline.classes.size(), alone.timeline.classes.size());
  for (std::size_t i = 0; i < alone.timeline.classes.size(); ++i) {
    const OpTimes& a = run.timeline.classes[i];
    const OpTimes& b = alone.timeline.classes[i];
    expect_near(a.ready_s, b.ready_s, most);
    expect_near(a.start_s, b.start_s, most);
    expect_near(a.end_s, b.end_s, most);
  }
  ASSERT_EQ(run.timeline.links.size(), alone.timeline.links.size());
  for (std::size_t link = 0; link < alone.timeline.links.size(); ++link) {
    EXPECT_EQ(run.timeline.links[link].bytes, alone.timeline.links[link].bytes);
    EXPECT_NEAR(run.timeline.links[link].busy_s, alone.timeline.links[link].busy_s, most);
  }
  EXPECT_EQ(run.timeline.counters.regions, alone.timeline.counters.regions);
}

// Expects equality under random speeds, which change the order of operations, the choice of
// algorithms and the extent of contracted regions.
void expect_random_speeds_alike(const Scenario& s) {
  Memo memo;
  std::mt19937_64 random(20261122);
  const auto factor = [&random] { return 0.125 * static_cast<double>(1 + random() % 32); };
  for (int i = 0; i < 6; ++i) {
    const WhatIf what_if{.nvlink = i % 3 == 0 ? 1.0 : factor(),
                         .network = i % 3 == 1 ? 1.0 : factor(),
                         .latency = i % 2 == 0 ? 1.0 : factor()};
    SCOPED_TRACE(testing::Message()
                 << what_if.nvlink << ' ' << what_if.network << ' ' << what_if.latency);
    expect_same(simulate(s, {.what_if = what_if}, memo), simulate(s, {.what_if = what_if}));
  }
}

// Are runs with random speeds in sequence equal to separate runs?
TEST_P(Asked, RandomSpeedsInARowAreRunsOfTheirOwn) {
  expect_random_speeds_alike(loaded(GetParam()));
}

// Are what-ifs of a cluster with a slow link equal to separate runs? A slow link keeps its GPU in a
// separate class throughout.
TEST(WhatIfs, OfAClusterWithASlowLinkAreRunsOfTheirOwn) {
  const std::vector<Override> slow = {
      {"cluster.faults", R"([{"rail": 3, "capacity_factor": 0.25}])"}};
  const Scenario s = loaded("what_if/dead_rail.json", slow);
  EXPECT_GT(simulate(s, {}).partition->ranks.size(),
            simulate(loaded("what_if/dead_rail.json"), {}).partition->ranks.size());
  expect_random_speeds_alike(s);
}

INSTANTIATE_TEST_SUITE_P(Shipped, Asked,
                         testing::Values("first/two_gpus.json", "what_if/nic.json",
                                         "fsdp/llama3_8b_8xh100_fsdp.json"));

// Are the sensitivities sorted, and do they name only what the cluster has?
TEST(Sensitivities, AreRankedAndNameWhatIsThere) {
  const Scenario s = loaded("what_if/tensor.json", {{"training.global_batch_size", "8"}});
  const auto run = simulate(s, {});
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
