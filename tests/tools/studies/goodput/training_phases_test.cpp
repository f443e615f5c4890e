// Phases of a run with another batch or sequence length: by hand where nothing is random, and each
// step as the engine says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"
#include "tests/tools/studies/goodput/fixtures.hpp"
#include "tests/tools/studies/goodput/refusal.hpp"
#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/report.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// 100 steps of 2 s, then 200 steps of 3 s, then steps of 5 s; with 10, 20 and 40 tokens each.
Job job_of_phases() {
  Job job;
  job.step_s = 5.0;
  job.tokens_per_step = 40.0;
  job.storage().interval_steps = 1'000'000;
  job.phases = {
      {.from_tokens = 0, .from_step = 0, .step_s = 2, .tokens_per_step = 10, .mfu = 0.1},
      {.from_tokens = 1000, .from_step = 100, .step_s = 3, .tokens_per_step = 20, .mfu = 0.2},
      {.from_tokens = 5000, .from_step = 300, .step_s = 5, .tokens_per_step = 40, .mfu = 0.4}};
  for (TrainingPhase& phase : job.phases) phase.interval_steps = 1'000'000;
  return job;
}

// Does each phase take its own steps? 350 steps are 100 x 2 + 200 x 3 + 50 x 5 = 1050 s, and 7000
// tokens, 1000 + 4000 + 2000.
TEST(TrainingPhases, TakeTheirOwnSteps) {
  const Job job = job_of_phases();
  const SampledRun run = sampled_run(job, {.steps = 350}, 0, 0);
  EXPECT_DOUBLE_EQ(run.wall_s, 1050);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Productive), 1050);
  EXPECT_DOUBLE_EQ(run.steps, 350);
  EXPECT_DOUBLE_EQ(job.tokens_of(350), 7000);
  EXPECT_DOUBLE_EQ(job.tokens_of(100), 1000);
  EXPECT_DOUBLE_EQ(job.tokens_of(150), 2000);
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 500}, 0, 0).steps, 200);  // 100 + 300/3
  EXPECT_DOUBLE_EQ(sampled_run(job, {.steps = 100}, 0, 0).wall_s, 200);
  EXPECT_DOUBLE_EQ(sampled_run(job, {.steps = 300}, 0, 0).wall_s, 800);
}

// How many steps train so many tokens? 7000 tokens take 350 steps, one token more takes one more.
TEST(TrainingPhases, SayHowManyStepsTrainSoManyTokens) {
  const Job job = job_of_phases();
  for (const double steps : {1.0, 50.0, 100.0, 101.0, 299.0, 300.0, 301.0, 900.0}) {
    EXPECT_DOUBLE_EQ(job.steps_for(job.tokens_of(steps)), steps);
    EXPECT_DOUBLE_EQ(job.steps_for(job.tokens_of(steps) + 1), steps + 1);
  }
  EXPECT_DOUBLE_EQ(job.steps_for(7000), 350);
}

// The same phases with checkpoints every 50 steps, 40 and 25.
Job job_of_phases_with_checkpoints() {
  Job job = job_of_phases();
  job.phases[0].interval_steps = 50;
  job.phases[1].interval_steps = 40;
  job.phases[2].interval_steps = 25;
  return job;
}

// Do checkpoints come at the intervals of the phase? After steps 50 and 100; 120, 160, 200, 240
// and 280; 325 and 350, the end of the run. Each stalls for 7 s.
TEST(TrainingPhases, HaveTheirOwnIntervalsBetweenCheckpoints) {
  Job job = job_of_phases_with_checkpoints();
  job.storage().stall_s = 7;
  const SampledRun run = sampled_run(job, {.steps = 350}, 0, 0);
  // Step 300 still belongs to the second phase, and 300 is no multiple of 40.
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Checkpoint), 9 * 7);
  EXPECT_DOUBLE_EQ(run.wall_s, 1050 + 9 * 7);
  job.set_interval(500'000);  // half of the 1 000 000 that it had
  EXPECT_EQ(job.phases[0].interval_steps, 25);
  EXPECT_EQ(job.phases[1].interval_steps, 20);
}

// Does a write beside training delay each phase by its own time? After steps 50 and 100 by 3 s;
// 120, 160, 200, 240 and 280 by 5 s; 325 by 7 s. The run ends with the write after step 350.
TEST(TrainingPhases, AreDelayedByWritesForTheirOwnTime) {
  Job job = job_of_phases_with_checkpoints();
  job.storage().write_s = 20;
  for (std::size_t phase = 0; phase < 3; ++phase)
    job.phases[phase].drags_s = {3.0 + 2.0 * static_cast<double>(phase)};
  const SampledRun run = sampled_run(job, {.steps = 350}, 0, 0);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Dragged), 2 * 3 + 5 * 5 + 7);
  EXPECT_DOUBLE_EQ(run.wall_s, 1050 + 2 * 3 + 5 * 5 + 7 + 20);
}

// Does a run that falls back into an earlier phase take the steps of that phase again? A checkpoint
// after step 90 (180 s), a failure at 260 s after step 120, a restart of 40 s: 10 steps of 2 s and
// 20 of 3 s are done again.
TEST(TrainingPhases, AreDoneAgainAfterAFailure) {
  Job job = job_of_phases();
  for (TrainingPhase& phase : job.phases) phase.interval_steps = 90;
  job.causes = {{.name = "traced", .rate = 1e-9, .trace_s = std::vector<double>{260.0}}};
  job.start_s = 40;
  const SampledRun run = sampled_run(job, {.steps = 150}, 0, 0);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Redone), 80);
  EXPECT_DOUBLE_EQ(run.wall_s, 100 * 2 + 50 * 3 + 80 + 40);
  EXPECT_DOUBLE_EQ(sum_of(run), run.wall_s);
}

// Does a state of the cluster hold in the phase in which it is? A slow part from 100 s to 500 s
// makes the steps of phases 0 and 1 twice as long: 50 steps, 50 of 4 s until 300 s, then steps of
// 6 s. The step under way ends before it changes.
TEST(TrainingPhases, HaveStepsOfTheirOwnInOtherStates) {
  Job job = job_of_phases();
  job.causes = {{.name = "slow",
                 .kind = FailureKind::Degrading,
                 .rate = 1e-9,
                 .nodes = 1,
                 .detect_s = 400,
                 .duration_s = kForEver,
                 .trace_s = std::vector<double>{100.0}}};
  job.spares.cold_replace_s = 0.0;
  std::vector<std::size_t> asked;
  job.step_in = [&](const JobState& state) {
    asked.push_back(state.phase);
    return 2 * job.phases[state.phase].step_s;
  };
  const SampledRun run = sampled_run(job, {.steps = 250}, 0, 0);
  EXPECT_THAT(asked, testing::ElementsAre(0, 1));
  EXPECT_NEAR(run.phase(RunPhase::Degraded), 50 * 2 + (500 - 302) / 2.0, 3.0);
  // The job saves within a step, and ends with a whole one after that.
  EXPECT_NEAR(run.wall_s - run.phase(RunPhase::Degraded), 100 * 2 + 150 * 3, 3.0);
}

// Do phases that are alike make no difference? Failures, checkpoints beside training, fewer
// replicas: the same run to rounding, with three phases and with none.
TEST(TrainingPhases, ThatAreAlikeChangeNothing) {
  int cases = 0;
  for (const FailurePolicy policy : {FailurePolicy::Restart, FailurePolicy::Elastic})
    for (std::uint64_t index = 0; index < 10; ++index) {
      Job job;
      job.step_s = 2.0;
      job.tokens_per_step = 10.0;
      job.causes = {{.name = "any", .rate = 1.0 / 3000, .nodes = 1, .detect_s = 20}};
      job.storage() = {.interval_steps = 100, .stall_s = 3, .write_s = 40, .load_s = 30};
      job.start_s = 60;
      job.spares = {.nodes = 1, .replace_s = 25, .repair_s = 20000};
      job.policy = policy;
      job.replicas = 8;
      job.step_in = [](const JobState&) { return 2.0; };
      const SampledRun whole = sampled_run(job, {.steps = 50000}, 3, index);
      const TrainingPhase phase{.step_s = 2, .tokens_per_step = 10, .interval_steps = 100};
      job.phases.assign(3, phase);
      job.phases[1].from_step = 12'345;
      job.phases[2].from_step = 30'000;
      const SampledRun parts = sampled_run(job, {.steps = 50000}, 3, index);
      EXPECT_NEAR(parts.wall_s, whole.wall_s, 1e-3 * whole.wall_s);
      EXPECT_EQ(parts.interruptions, whole.interruptions);
      ++cases;
    }
  EXPECT_EQ(cases, 20);
}

// Two nodes of eight H100 that ramp the batch and the sequence length.
Json ramp() {
  return parse_unchecked_json(R"({
    "model": { "name": "small", "layers": 4, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192,
               "max_positions": 512 },
    "cluster": { "node": "dgx_h100", "nodes": 2, "fabric": { "kind": "rail_optimized" } },
    "parallelism": { "tensor": 8, "data": 2 },
    "training": { "sequence_length": 512, "global_batch_size": 16 },
    "engine": "ideal",
    "reliability": {
      "failures": [{ "cause": "node", "component": "node", "events": 1, "component_days": 10 }],
      "checkpoint": { "stall": "1 s", "interval": "1 h" },
      "spares": { "repair": "24 h" },
      "policy": "elastic",
      "phases": [{ "from_tokens": 0, "global_batch_size": 4, "sequence_length": 256 },
                 { "from_tokens": 1e6, "global_batch_size": 8 },
                 { "from_tokens": 3e6, "global_batch_size": 16 }]
    }
  })");
}

// Is the step of each phase that of a scenario with its batch and sequence? The first phase has
// 1024 tokens a step, so 1e6 tokens take 977 steps; the next has 4096, and 1 999 552 more tokens
// take 489.
TEST(TrainingPhases, OfAScenarioAreSimulated) {
  Memo memo;
  const Job job = job_of(load(ramp()), memo);
  ASSERT_EQ(job.phases.size(), 3U);
  Json alone = ramp();
  alone["reliability"].erase("phases");
  for (const auto& [index, batch, sequence] :
       std::vector<std::tuple<std::size_t, int, int>>{{0, 4, 256}, {1, 8, 512}, {2, 16, 512}}) {
    alone["training"]["global_batch_size"] = batch;
    alone["training"]["sequence_length"] = sequence;
    const Job same = job_of(load(alone), memo);
    EXPECT_DOUBLE_EQ(job.phases[index].step_s, same.step_s);
    EXPECT_DOUBLE_EQ(job.phases[index].mfu, same.mfu);
    EXPECT_DOUBLE_EQ(job.phases[index].tokens_per_step, batch * sequence);
    EXPECT_EQ(job.phases[index].interval_steps, same.storage().interval_steps);
    EXPECT_DOUBLE_EQ(job.step_in({.replicas_lost = 1, .phase = index}),
                     same.step_in({.replicas_lost = 1}));
  }
  EXPECT_EQ(job.phases[1].from_step, 977);
  EXPECT_EQ(job.phases[2].from_step, 977 + 489);
  EXPECT_DOUBLE_EQ(job.phases[2].step_s, job.step_s);
}

// Does a phase keep its own interval between checkpoints, and the others that of the run?
TEST(TrainingPhases, KeepTheIntervalsThatTheyName) {
  Memo memo;
  const Job whole = job_of(load(ramp()), memo);
  Json document = ramp();
  document["reliability"]["phases"][1]["interval_steps"] = 7;
  const Job job = job_of(load(document), memo);
  EXPECT_EQ(job.phases[0].interval_steps, whole.phases[0].interval_steps);
  EXPECT_EQ(job.phases[1].interval_steps, 7);
  EXPECT_EQ(job.phases[2].interval_steps, whole.phases[2].interval_steps);
  EXPECT_NE(whole.phases[1].interval_steps, 7);
  document["reliability"]["checkpoint"]["interval_steps"] = 50;
  document["reliability"]["checkpoint"].erase("interval");
  const Job counted = job_of(load(document), memo);
  EXPECT_EQ(counted.phases[0].interval_steps, 50);
  EXPECT_EQ(counted.phases[1].interval_steps, 7);
  // A phase may differ in nothing else.
  document["reliability"]["phases"] = Json::array({{{"from_tokens", 1e6}, {"interval_steps", 9}}});
  const Job alike = job_of(load(document), memo);
  EXPECT_EQ(alike.phases[0].interval_steps, 50);
  EXPECT_EQ(alike.phases[1].interval_steps, 9);
  EXPECT_DOUBLE_EQ(alike.phases[1].step_s, alike.phases[0].step_s);
}

// Does the scenario's own training come before the first phase that does not begin at once?
TEST(TrainingPhases, BeginWithTheTrainingOfTheScenario) {
  Memo memo;
  Json document = ramp();
  document["reliability"]["phases"] =
      Json::array({{{"from_tokens", 1e6}, {"global_batch_size", 32}}});
  const Job job = job_of(load(document), memo);
  ASSERT_EQ(job.phases.size(), 2U);
  EXPECT_EQ(job.phases[0].global_batch_size, 16);
  EXPECT_DOUBLE_EQ(job.phases[0].step_s, job.step_s);
  EXPECT_EQ(job.phases[1].from_step, std::ceil(1e6 / (16 * 512)));
}

// Does the report name the phases, and count tokens and MFU over them? Two phases of 10 and 40
// tokens a step without failures: 1100 s are 100 steps of 2 s and 300 of 3 s, 7000 tokens, and
// (0.1 x 200 + 0.2 x 900)/1100 of the peak.
TEST(TrainingPhases, AreInTheReport) {
  Job job = job_of_phases();
  job.phases.pop_back();
  job.set_interval(100);
  const Goodput all = goodput(job, {.length = {.wall_s = 1100}, .runs = 4});
  EXPECT_DOUBLE_EQ(all.tokens.mean, 7000);
  EXPECT_NEAR(all.mfu.mean, 200.0 / 1100, 1e-12);
  ASSERT_EQ(all.training_phases_s.size(), 2U);
  EXPECT_DOUBLE_EQ(all.training_phases_s[0], 200);
  EXPECT_DOUBLE_EQ(all.training_phases_s[1], 900);
  const GoodputReport report{.title = "ramp", .job = job, .result = all};
  EXPECT_THAT(goodput_text(report), HasSubstr("from tokens"));
  const Json json = goodput_json(report);
  EXPECT_EQ(json["training_phases"].size(), 2U);
  EXPECT_EQ(json["training_phases"][1]["from_step"], 100);
}

// Is a batch that the replicas cannot share refused at its phase? And a write that is longer than
// the steps of a phase?
TEST(TrainingPhases, RefuseWhatCannotBe) {
  Json document = ramp();
  document["reliability"]["phases"][1]["global_batch_size"] = 7;
  EXPECT_THAT(test::refusal_of_job(document),
              HasSubstr("/reliability/phases/1/global_batch_size: 7 sequences"));
  document = ramp();
  document["reliability"]["phases"][0]["sequence_length"] = 1'000'000'000;
  EXPECT_THAT(test::refusal_of_job(document),
              HasSubstr("/reliability/phases/0/sequence_length: must be between 0 and 100000000"));
  document = ramp();
  Memo memo;
  const Job job = job_of(load(document), memo);
  document["reliability"]["checkpoint"] = {
      {"stall", "1 s"},
      {"write", fmt::format("{} s", 1.2 * job.phases[0].step_s)},
      {"interval_steps", 1}};
  ASSERT_GT(job.step_s, 1.2 * job.phases[0].step_s);
  EXPECT_THAT(test::refusal_of_job(document),
              HasSubstr("/reliability/phases: from 0 tokens on, a write"));
}

}  // namespace
}  // namespace trainyard
