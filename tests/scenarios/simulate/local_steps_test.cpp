// Does a step of workers that train apart cost the step of one of them and its part of an exchange?
#include "models/lower/local_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs.hpp"
#include "sim/report/energy_figures.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {
namespace {

constexpr const char* kFile = "scenarios/what_if/local_steps.json";

// Two workers of a node each, on two sites with a line of 10 GB/s.
nlohmann::ordered_json two_sites(int every) {
  auto document = small_document({.tensor = 2, .pipeline = 2, .data = 2, .zero_stage = 1});
  document["defaults"] = "ideal";
  document["cluster"]["nodes"] = 2;
  document["cluster"]["sites"] = {{"count", 2}, {"rate", "10 GB/s"}, {"latency", "1 ms"}};
  document["local_steps"] = {{"every", every}, {"workers", 2}};
  document["power"] = nlohmann::ordered_json::object();
  return document;
}

nlohmann::ordered_json one_worker() {
  auto document = two_sites(1);
  document.erase("local_steps");
  document["cluster"].erase("sites");
  document["cluster"]["nodes"] = 1;
  return document;
}

ScenarioRun run_every(int steps) { return simulate(load(two_sites(steps))); }

TEST(LocalSteps, AStepIsThatOfOneWorkerAndAPartOfTheExchange) {
  const double alone_s = simulate(load(one_worker())).view().step_s();
  const double exchange_s = run_every(1).facts.local_steps->exchange_s;
  EXPECT_GT(exchange_s, 0.0);
  int cases = 0;
  for (const int every : {1, 7, 500}) {
    const ScenarioRun run = run_every(every);
    EXPECT_TRUE(agree(run.view().step_s(), alone_s + exchange_s / every)) << every;
    EXPECT_TRUE(agree(run.facts.local_steps->exchange_s, exchange_s)) << every;
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

TEST(LocalSteps, SeldomExchangesCostNothing) {
  const ScenarioRun alone = simulate(load(one_worker()));
  const ScenarioRun run = run_every(1'000'000);
  EXPECT_NEAR(run.view().step_s() / alone.view().step_s(), 1.0, 1e-3);
  const Figures one = figures(alone.view());
  const Figures two = figures(run.view());
  EXPECT_NEAR(*two.tokens_per_s / *one.tokens_per_s, 2.0, 2e-3) << "tokens of both workers";
  EXPECT_NEAR(*two.mfu / *one.mfu, 1.0, 1e-3);
}

// One replica on each site: the gradients of a step are as many bytes as the weights of an
// exchange, and replicas send them while they compute.
TEST(LocalSteps, AnExchangeInEveryStepCostsMoreThanGradients) {
  auto workers = two_sites(1);
  workers["parallelism"] = {{"tensor", 8}};
  workers["cluster"]["sites"]["latency"] = "1 us";
  auto replicas = workers;
  replicas.erase("local_steps");
  replicas["parallelism"]["data"] = 2;
  replicas["training"]["global_batch_size"] = 16;
  EXPECT_GT(simulate(load(workers)).view().step_s(), simulate(load(replicas)).view().step_s());
}

// Each worker holds the model once, in shards: the line carries all its parameters each way.
TEST(LocalSteps, TheLineCarriesTheParametersOnce) {
  const Scenario scenario = load(two_sites(1));
  double parameters = 0.0;
  for (const std::int64_t stage : exchanged_parameters(scenario.plan))
    parameters += static_cast<double>(stage) * 2 * 2;  // ranks of a stage: tensor x data
  const double bytes = 4.0 * parameters;
  const double exchange_s = run_every(1).facts.local_steps->exchange_s;
  EXPECT_GE(exchange_s, bytes / 10e9);
  EXPECT_LE(exchange_s, 1.3 * bytes / 10e9 + 10e-3) << "latencies of the line, and the outer step";
}

// Is the exchange the collective alone, and kernels that move a few bytes of each parameter?
TEST(LocalSteps, TheExchangeIsItsCollectiveAndItsKernels) {
  const Scenario scenario = load(two_sites(1));
  const ScenarioRun inner = run_every(1);
  Workload alone = exchange_step(scenario.plan, *inner.workload);
  const ScenarioRun all = simulate(WorkloadRun{
      .title = "exchange", .workload = alone, .cluster = scenario.cluster, .software = scenario});
  EXPECT_TRUE(agree(all.timeline.makespan_s, inner.facts.local_steps->exchange_s));
  for (Kernel& kernel : alone.kernels) std::get<MemoryBound>(kernel).bytes = 0;
  const ScenarioRun collective = simulate(WorkloadRun{.title = "exchange",
                                                      .workload = std::move(alone),
                                                      .cluster = scenario.cluster,
                                                      .software = scenario});
  const double kernels_s = all.timeline.makespan_s - collective.timeline.makespan_s;
  const auto most = static_cast<double>(std::ranges::max(exchanged_parameters(scenario.plan)));
  // 12 bytes of a parameter before the all_reduce, and 26 after it.
  EXPECT_GE(kernels_s, most * 38.0 / 2.039e12);
  EXPECT_LE(kernels_s, most * 38.0 / 1.0e12 + 50e-6);
}

TEST(LocalSteps, LowerPrecisionSendsFewerBytes) {
  auto document = two_sites(1);
  document["local_steps"]["precision"] = "bf16";
  const ScenarioRun half = simulate(load(document));
  const ScenarioRun whole = run_every(1);
  EXPECT_EQ(2 * half.facts.local_steps->exchange_bytes, whole.facts.local_steps->exchange_bytes);
  EXPECT_EQ(half.facts.local_steps->state_bytes, whole.facts.local_steps->state_bytes);
  EXPECT_LT(half.facts.local_steps->exchange_s, whole.facts.local_steps->exchange_s);
}

TEST(LocalSteps, TheOuterOptimizerTakesMemory) {
  const ScenarioRun alone = simulate(load(one_worker()));
  const ScenarioRun run = run_every(10);
  const auto peak = [](const ScenarioRun& of) {
    return std::ranges::max(of.memory_peaks, {}, &MemoryPeak::bytes).bytes;
  };
  EXPECT_NEAR(static_cast<double>(peak(run) - peak(alone)),
              static_cast<double>(run.facts.local_steps->state_bytes),
              0.01 * static_cast<double>(run.facts.local_steps->state_bytes));
}

TEST(LocalSteps, FoldedAndUnfoldedRunsAgree) {
  const ScenarioRun folded = run_every(10);
  const ScenarioRun unfolded = simulate(load(two_sites(10)), {.fold = false});
  EXPECT_LT(folded.partition->ranks.size(), unfolded.partition->ranks.size());
  EXPECT_TRUE(agree(folded.view().step_s(), unfolded.view().step_s()));
  EXPECT_NEAR(
      energy_figures(folded.view()).step.total() / energy_figures(unfolded.view()).step.total(),
      1.0, 1e-9);
}

TEST(LocalSteps, EnergyAndSharesOfTheStepContainTheExchange) {
  const ScenarioRun run = run_every(1);
  const double seldom_j = energy_figures(run_every(1'000'000).view()).step.total();
  const double exchange_j = run.facts.local_steps->exchange.total();
  EXPECT_GT(exchange_j, 0.0);
  EXPECT_NEAR(energy_figures(run.view()).step.total(), seldom_j + exchange_j, 1e-3 * seldom_j);
  const Breakdown times = run.view().breakdown_of(0);
  double sum_s = 0.0;
  for (const double seconds : times.seconds) sum_s += seconds;
  EXPECT_TRUE(agree(sum_s, run.view().step_s()));
}

TEST(LocalSteps, TheShippedScenarioReportsItsExchange) {
  const ScenarioRun run = simulate(load_scenario(kFile, {}));
  EXPECT_THAT(local_steps_section(run.view()), testing::HasSubstr("an exchange every 100 steps"));
  const auto json = result_json(run.view())["local_steps"];
  EXPECT_EQ(json["workers"], 2);
  // 70.6e9 parameters of 4 bytes on a line of 12.5 GB/s.
  EXPECT_NEAR(json["exchange_time_s"].get<double>(), 70.6e9 * 4 / 12.5e9, 0.2);
}

}  // namespace
}  // namespace trainyard
