// Runs with contracted regions against runs of single operations. Every span of every class must
// agree to 1e-9, with contention and without, while interference from communication starts and ends
// at random times. The same must hold for all scenarios of the repository up to 512 GPUs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "random_workload.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "tests/agreement.hpp"
#include "tests/scenarios/shipped.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ScenarioRun = Result;

bool near(double a, double b) {
  return std::abs(a - b) <= kAgreement * std::max(std::abs(a), std::abs(b)) + 1e-15;
}

bool full() { return std::getenv("TRAINYARD_FULL") != nullptr; }

void expect_same_spans(const Timeline& a, const Timeline& b) {
  std::size_t differing = 0;
  ASSERT_EQ(a.classes.size(), b.classes.size());
  for (std::size_t rank_class = 0; rank_class < a.classes.size(); ++rank_class) {
    const OpTimes& x = a.classes[rank_class];
    const OpTimes& y = b.classes[rank_class];
    for (std::size_t op = 0; op < y.end_s.size(); ++op) {
      const bool same = near(x.ready_s[op], y.ready_s[op]) && near(x.start_s[op], y.start_s[op]) &&
                        near(x.end_s[op], y.end_s[op]);
      differing += same ? 0 : 1;
    }
  }
  EXPECT_EQ(differing, 0U);
  EXPECT_TRUE(near(a.makespan_s, b.makespan_s)) << a.makespan_s << " " << b.makespan_s;
}

void expect_same_links(const Timeline& a, const Timeline& b) {
  EXPECT_EQ(a.flows.size(), b.flows.size());
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t link = 0; link < b.links.size(); ++link) {
    EXPECT_TRUE(near(a.links[link].bytes, b.links[link].bytes)) << link;
    EXPECT_NEAR(a.links[link].busy_s, b.links[link].busy_s, kAgreement * b.makespan_s) << link;
    EXPECT_NEAR(a.links[link].peak_utilisation, b.links[link].peak_utilisation, 1e-6) << link;
  }
}

struct RandomCase {
  Workload workload;
  std::unique_ptr<Cluster> cluster;
  Partition partition;
  std::vector<double> seconds;
  std::vector<std::vector<double>> losses;

  [[nodiscard]] Timeline run(std::string_view engine, bool contract) const {
    return make_engine(engine)->run({.cluster = *cluster,
                                     .workload = workload,
                                     .partition = partition,
                                     .kernel_seconds = seconds,
                                     .progress = {},
                                     .compute_loss = losses,
                                     .contract = contract});
  }
};

// Losses of 0 to 0.4 per call, so that several concurrent calls reach the largest possible loss.
RandomCase random_case(std::uint32_t seed) {
  RandomCase result;
  result.workload = random_workload({.seed = seed, .ranks = 16, .events = 60});
  ClusterSpec spec;
  spec.node = load_node(seed % 2 == 0 ? "dgx_a100_80gb" : "dgx_h100");
  spec.nodes = 2;
  spec.fabric.kind = RailOptimized{};
  result.cluster = std::make_unique<Cluster>(build_cluster(spec));
  result.partition = fold(*result.cluster, result.workload, AlgorithmModel(*result.cluster),
                          {.enabled = seed % 3 != 0, .drop_uncontended = seed % 4 != 3});
  std::mt19937 random(seed);
  for (const Kernel& kernel : result.workload.kernels)
    result.seconds.push_back(1e-6 * static_cast<double>(std::get<Gemm>(kernel).m));
  for (const auto& calls : result.partition.phases) {
    result.losses.emplace_back();
    for (std::size_t call = 0; call < calls.size(); ++call)
      result.losses.back().push_back(0.1 * static_cast<double>(random() % 5));
  }
  return result;
}

class ContractAgreement : public testing::TestWithParam<std::uint32_t> {};

// Does a random workload have the same spans with contracted regions as with single operations?
TEST_P(ContractAgreement, OfRandomWorkloads) {
  const RandomCase it = random_case(GetParam());
  for (const std::string_view engine : {"ideal", "simgrid"}) {
    const Timeline contracted = it.run(engine, true);
    const Timeline plain = it.run(engine, false);
    EXPECT_EQ(plain.counters.regions, 0U);
    expect_same_spans(contracted, plain);
    expect_same_links(contracted, plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ContractAgreement, testing::Range(0U, full() ? 500U : 60U));

// Are the random cases of the test above meaningful: do they contain regions, and does interference
// change the pace of active regions?
TEST(ContractAgreementSeeds, ContractAndAreDisturbed) {
  std::uint32_t contracted = 0;
  std::uint32_t slower = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    RandomCase it = random_case(seed);
    const Timeline timeline = it.run("ideal", true);
    if (timeline.counters.regions >= 4) ++contracted;
    for (std::vector<double>& calls : it.losses) calls.assign(calls.size(), 0.0);
    if (it.run("ideal", true).makespan_s < timeline.makespan_s * (1.0 - kAgreement)) ++slower;
  }
  EXPECT_GE(contracted, 20U);
  EXPECT_GE(slower, 20U);
}

// Every check runs these scenarios: tensor groups in sequence and overlapped, with contention and
// without, a single program, interleaving, experts, sharding, context rings, offload.
const std::set<std::string> kSample = {"two_gpus",
                                       "llama3_8b_8xh100",
                                       "gpt_22b_8xa100_selective",
                                       "gpt3_175b_64xa100_selective",
                                       "mixtral_8x7b_64xh100",
                                       "mixtral_8x7b_64xh100_zipf",
                                       "gpt_3p6b_64xa100",
                                       "llama3_8b_8xh100_fsdp",
                                       "ring_llama3_8b_128k_32xh100",
                                       "llama3_8b_8xh100_8xa100",
                                       "llama3_8b_8xa100_40gb_cpu_adam",
                                       "gpt2_124m_8xa100_ddp"};

// The scenarios of the repository with at most 512 GPUs.
std::vector<std::string> scenarios() {
  std::vector<std::string> files;
  for (const std::string& file : shipped_scenarios()) {
    if (!full() && !kSample.contains(fs::path(file).stem().string())) continue;
    if (load_scenario(file, {}).plan.world() <= 512) files.push_back(file);
  }
  return files;
}

class ContractedScenario : public testing::TestWithParam<std::string> {};

// Does a scenario of the repository have the same spans with contracted regions as with single
// operations, with no more events?
TEST_P(ContractedScenario, IsTheSameRun) {
  const Scenario scenario = load_scenario(GetParam(), {});
  const ScenarioRun contracted = simulate(scenario, {});
  const ScenarioRun plain = simulate(scenario, {.contract = false});
  expect_same_spans(contracted.timeline, plain.timeline);
  expect_same_links(contracted.timeline, plain.timeline);
  EXPECT_LE(contracted.timeline.counters.events, plain.timeline.counters.events);
  std::cout << "  " << contracted.timeline.counters.regions << " regions, "
            << contracted.timeline.counters.repeated << " repeated operations, "
            << contracted.timeline.counters.events << " events of "
            << plain.timeline.counters.events << "\n";
}

// Scenarios of many microbatches: 1F1B and interleaved, with links that stages share and without,
// sharded weights, a single stage, experts.
struct LongStep {
  std::string name;
  std::string file;
  std::vector<Override> changes;
};
const std::vector<LongStep> kLongSteps = {
    {"SharedLinks",
     "llama3/llama3_8b_8xh100.json",
     {{"cluster.nodes", "8"},
      {"parallelism.tensor", "4"},
      {"parallelism.pipeline", "8"},
      {"parallelism.data", "2"},
      {"parallelism.zero_stage", "1"},
      {"training.global_batch_size", "256"}}},
    {"Interleaved",
     "llama3/llama3_8b_8xh100.json",
     {{"cluster.nodes", "8"},
      {"parallelism.tensor", "4"},
      {"parallelism.pipeline", "8"},
      {"parallelism.data", "2"},
      {"parallelism.schedule", "interleaved_1f1b"},
      {"parallelism.interleave", "4"},
      {"training.global_batch_size", "512"}}},
    {"OneStage", "llama3/llama3_8b_8xh100.json", {{"training.global_batch_size", "1024"}}},
    {"ShardedWeights",
     "megatron/gpt3_175b_64xa100_selective.json",
     {{"parallelism.tensor", "4"},
      {"parallelism.data", "2"},
      {"parallelism.interleave", "1"},
      {"parallelism.schedule", "1f1b"},
      {"parallelism.zero_stage", "3"},
      {"training.global_batch_size", "192"}}},
    {"Experts", "moe/mixtral_8x7b_64xh100.json", {{"training.global_batch_size", "2048"}}}};

class LongSteps : public testing::TestWithParam<LongStep> {};

// Is a step whose engine repeats the steady state of the pipeline the same as one of which every
// operation is played?
TEST_P(LongSteps, RepeatTheSteadyState) {
  const fs::path file = fs::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios" / GetParam().file;
  const Scenario scenario = load_scenario(file.string(), GetParam().changes);
  const ScenarioRun repeated = simulate(scenario, {});
  const ScenarioRun plain = simulate(scenario, {.contract = false});
  EXPECT_GT(3 * repeated.timeline.counters.repeated, repeated.timeline.counters.operations);
  EXPECT_EQ(plain.timeline.counters.repeated, 0U);
  EXPECT_EQ(repeated.timeline.counters.operations, plain.timeline.counters.operations);
  expect_same_spans(repeated.timeline, plain.timeline);
  expect_same_links(repeated.timeline, plain.timeline);
  const ScenarioRun brief = simulate(scenario, {.figures = false});
  EXPECT_EQ(brief.timeline.counters.repeated, 0U);
  EXPECT_TRUE(near(brief.timeline.makespan_s, repeated.timeline.makespan_s));
}

INSTANTIATE_TEST_SUITE_P(Shipped, LongSteps, testing::ValuesIn(kLongSteps),
                         [](const auto& step) { return step.param.name; });

// A step of Llama 3 8B with fewer layers in a random layout: schedules, sharding, overlaps, slow
// networks, and 40 to 200 microbatches.
std::vector<Override> random_layout(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::vector<std::string> values) {
    return values[random() % values.size()];
  };
  const int stages = 1 << random() % 4;
  const int tensor = 1 << random() % 3;
  const int nodes = std::max(1, stages * tensor / 8) << random() % 2;
  const int replicas = 8 * nodes / (stages * tensor);
  const int microbatches = 4 * stages * static_cast<int>(1 + random() % 6) + 40;
  std::vector<Override> changes = {
      {"model.layers", "16"},
      {"training.sequence_length", one_of({"1024", "4096"})},
      {"training.recompute", one_of({"none", "selective", "full"})},
      {"cluster.nodes", std::to_string(nodes)},
      {"cluster.nic.usable", one_of({"48.5 GB/s", "1 GB/s", "100 MB/s"})},
      {"parallelism.tensor", std::to_string(tensor)},
      {"parallelism.pipeline", std::to_string(stages)},
      {"parallelism.data", std::to_string(replicas)},
      {"parallelism.zero_stage", one_of({"0", "1", "2", "3"})},
      {"parallelism.sequence_parallel", tensor > 1 ? "true" : "false"},
      {"training.global_batch_size", std::to_string(microbatches * replicas)}};
  if (stages > 1) {
    const std::string schedule = one_of({"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2",
                                         "zb_v", "v_half", "dualpipe", "dualpipe_v"});
    changes.push_back({"parallelism.schedule", schedule});
    if (schedule == "interleaved_1f1b") changes.push_back({"parallelism.interleave", "2"});
    changes.push_back({"parallelism.overlap_p2p", one_of({"true", "false"})});
  }
  if (replicas > 1)
    changes.push_back({"parallelism.overlap_grad_reduce", one_of({"true", "false"})});
  return changes;
}

// Are steps in random layouts of many microbatches the same as if every operation is played, and
// does a good part of them have a steady state?
TEST(RandomLongSteps, InRandomLayoutsAreTheSame) {
  const std::string file = TRAINYARD_SOURCE_DIRECTORY "/scenarios/llama3/llama3_8b_8xh100.json";
  const std::uint32_t seeds = full() ? 400 : 40;
  std::uint32_t steps = 0;
  std::uint32_t steady = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    try {
      const Scenario scenario = load_scenario(file, random_layout(seed));
      const ScenarioRun repeated = simulate(scenario, {});
      const ScenarioRun plain = simulate(scenario, {.contract = false});
      expect_same_spans(repeated.timeline, plain.timeline);
      expect_same_links(repeated.timeline, plain.timeline);
      ++steps;
      if (repeated.timeline.counters.repeated > 0) ++steady;
    } catch (const InputError&) {
      continue;  // a schedule that needs other numbers of stages or microbatches
    }
  }
  std::cout << "  " << steady << " of " << steps << " steps have a steady state\n";
  EXPECT_GE(2 * steps, seeds);
  EXPECT_GE(4 * steady, steps);
}

std::string stem(const testing::TestParamInfo<std::string>& scenario) {
  return fs::path(scenario.param).stem().string();
}

INSTANTIATE_TEST_SUITE_P(Shipped, ContractedScenario, testing::ValuesIn(scenarios()), stem);

// Does the suite above run all scenarios that it names, or 55 in the full check?
TEST(ContractedScenarios, AreAllThere) {
  if (full()) {
    EXPECT_GE(scenarios().size(), 55U);
  } else {
    EXPECT_EQ(scenarios().size(), kSample.size());
  }
}

}  // namespace
}  // namespace trainyard
