// A log that was written from a sampled run gives its rates, recovery, checkpoints and lemons back;
// its replay is the run again; and the chronicles of BLOOM and OPT give their published goodput.
#include "tools/studies/run_log/log_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <set>

#include "scenarios/reader/reliability.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/random.hpp"
#include "sim/report/result_json.hpp"
#include "tests/tools/studies/run_log/log_files.hpp"
#include "tools/studies/run_log/forecast.hpp"
#include "tools/studies/run_log/log_job.hpp"
#include "tools/studies/run_log/replay.hpp"

namespace trainyard {
namespace {

using test::SampledLog;
using testing::HasSubstr;

constexpr double kDays = 86400.0;

// A job with two causes of failures, one a day and one each four days, steps of 10 s and
// checkpoints of 20 s every 100 steps.
Job job_of_two_causes() {
  Job job;
  job.causes = {{.name = "GPU", .rate = 1.0 / kDays, .detect_s = 60, .diagnose_s = 120},
                {.name = "network", .rate = 0.25 / kDays, .detect_s = 60, .diagnose_s = 120}};
  job.step_s = 10.0;
  job.levels[0] = {.interval_steps = 100, .stall_s = 20, .load_s = 90};
  job.start_s = 300;
  return job;
}

LogFit fit_of(const std::string& text, RunLog& log) {
  log = test::log_of(text);
  return fit_log(log, {});
}

TEST(LogFit, GivesTheJobOfASampledRunBack) {
  const SampledLog sampled(job_of_two_causes(), {.wall_s = 60 * kDays}, 3, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  EXPECT_NEAR(log.wall_s(), 60 * kDays, 1e-3);
  for (std::size_t i = 0; i < kPhases; ++i)
    EXPECT_NEAR(fit.split.phases_s[i], sampled.run().phases_s[i], 60 * kDays * 1e-5)
        << kPhaseNames[i];
  EXPECT_NEAR(fit.split.not_explained_s, 0.0, 60 * kDays * 1e-5);
  EXPECT_NEAR(fit.split.steps_kept, sampled.run().steps, 1.0);
  EXPECT_EQ(fit.failures, sampled.run().interruptions[0] + sampled.run().interruptions[1]);
  ASSERT_EQ(fit.causes.size(), 2U);
  EXPECT_EQ(fit.causes[0].events, sampled.run().interruptions[0]);
  EXPECT_NEAR(*fit.step_s, 10.0, 0.01);
  EXPECT_NEAR(*fit.checkpoint_stall_s, 20.0, 0.1);
  EXPECT_DOUBLE_EQ(*fit.interval_steps, 100);
  EXPECT_NEAR(fit.recovery_s[static_cast<std::size_t>(RunPhase::Start)], 300, 0.1);
}

double two_sided_p(int count, int all) {
  const boost::math::binomial counts(all, kIntervalMass);
  return 2.0 * std::min(cdf(counts, count), cdf(complement(counts, count - 1)));
}

// Over 300 logs of 20 days, the 90 % intervals hold the true rates of all failures and of the
// frequent cause in as many logs as they should.
TEST(LogFit, HasIntervalsThatHoldTheTrueRates) {
  constexpr int kLogs = 300;
  const Job job = job_of_two_causes();
  int all_held = 0;
  int gpu_held = 0;
  int wrong_held = 0;
  for (std::uint64_t i = 0; i < kLogs; ++i) {
    const SampledLog sampled(job, {.wall_s = 20 * kDays}, i, 0);
    RunLog log;
    const LogFit fit = fit_of(sampled.text(), log);
    const auto holds = [](const GammaRate& rate, double truth) {
      return rate.low() <= truth && truth <= rate.high() ? 1 : 0;
    };
    all_held += holds(fit.failure_rate, 1.25 / kDays);
    wrong_held += holds(fit.failure_rate, 1.3 * 1.25 / kDays);
    for (const CauseFit& cause : fit.causes)
      if (cause.cause == "GPU") gpu_held += holds(cause.rate, 1.0 / kDays);
  }
  EXPECT_GT(two_sided_p(all_held, kLogs), 0.001) << all_held;
  EXPECT_GT(two_sided_p(gpu_held, kLogs), 0.001) << gpu_held;
  EXPECT_LT(two_sided_p(wrong_held, kLogs), 1e-6) << wrong_held;  // the test can fail
}

// The log's failures again under the fitted policy are the run again, and a variant that changes
// nothing saves nothing.
TEST(Replay, IsTheRunAgainWhereNothingChanges) {
  const Job truth = job_of_two_causes();
  const SampledLog sampled(truth, {.steps = 200'000}, 5, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  ASSERT_GT(fit.failures, 20);
  const Reliability fitted = fitted_reliability(log, fit);
  const Job job = with_trace(log, fit, job_of_log(log, fit, fitted));
  const Replay replay = replay_run(job, {{"the same", job}},
                                   {.steps = fit.split.steps_kept,
                                    .productive_s = fit.split.phase(RunPhase::Productive),
                                    .runs = 4});
  EXPECT_NEAR(replay.original.wall_s.mean / log.wall_s(), 1.0, 1e-3);
  EXPECT_DOUBLE_EQ(replay.original.interruptions.mean, static_cast<double>(fit.failures));
  EXPECT_NEAR(replay.original.goodput.mean, fit.goodput(log), 1e-3);
  EXPECT_EQ(replay.variants[0].saved_s.mean, 0.0);
  EXPECT_EQ(replay.variants[0].saved_s.half_width, 0.0);
}

// The true job with the trace of its own log is the very run, to the rounding of the log.
TEST(Replay, OfTheTrueJobHasTheSamePhases) {
  const Job truth = job_of_two_causes();
  const SampledLog sampled(truth, {.steps = 200'000}, 5, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  const SampledRun again = sampled_run(with_trace(log, fit, truth), {.steps = 200'000}, 99, 7);
  EXPECT_NEAR(again.wall_s, sampled.run().wall_s, 1e-3);
  EXPECT_EQ(again.interruptions, sampled.run().interruptions);
  for (std::size_t i = 0; i < kPhases; ++i)
    EXPECT_NEAR(again.phases_s[i], sampled.run().phases_s[i], 1e-2) << kPhaseNames[i];
}

// Half the interval between checkpoints loses half the work with each failure, with the same
// failures; half the time to start saves half of it for each.
TEST(Replay, SaysWhatAnotherPolicyWouldHaveSaved) {
  const SampledLog sampled(job_of_two_causes(), {.steps = 200'000}, 5, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  const Reliability fitted = fitted_reliability(log, fit);
  const auto traced = [&](const std::vector<Override>& changes) {
    return with_trace(log, fit, job_of_log(log, fit, with_changes(log, fitted, changes)));
  };
  const Replay replay =
      replay_run(traced({}), {{"quick start", traced({{"reliability.recovery.start", "150 s"}})}},
                 {.steps = fit.split.steps_kept, .productive_s = 1.0, .runs = 2});
  const double failures = replay.original.interruptions.mean;
  // Work that is redone differs too, since the failures fall at other places of the intervals.
  EXPECT_NEAR(replay.variants[0].saved_s.mean, 150.0 * failures, 500.0 * std::sqrt(failures));
  EXPECT_GT(replay.variants[0].saved_s.mean, 0.0);
}

// Five of 100 nodes fail 30 times as often as the others; the log names the node of each failure.
TEST(LogFit, FindsTheLemonsOfALog) {
  const SampledLog sampled(job_of_two_causes(), {.wall_s = 120 * kDays}, 11, 0);
  Random random = Random(1).split("nodes");
  const auto node = [&] {
    const double place = random.uniform() * (5 * 30.0 + 95.0);
    return place < 150.0 ? fmt::format("lemon{}", static_cast<int>(place / 30.0))
                         : fmt::format("n{}", static_cast<int>(place - 150.0));
  };
  std::string text;
  std::size_t failures = 0;
  for (std::size_t begin = 0; begin < sampled.text().size();) {
    const std::size_t end = sampled.text().find('\n', begin);
    std::string line = sampled.text().substr(begin, end - begin);
    begin = end + 1;
    if (line.find(",failure,") != std::string::npos) {
      line.insert(line.size() - 1, node());
      ++failures;
    }
    text += line + "\n";
  }
  ASSERT_GT(failures, 100U);
  RunLog log = test::log_of("# nodes: 100\n" + text);
  const LogFit fit = fit_log(log, {});
  ASSERT_EQ(fit.lemons.size(), 5U);
  for (const LemonNode& one : fit.lemons) EXPECT_THAT(one.node, testing::StartsWith("lemon"));
}

// The prior counts as 10 failures in the time in which 8 nodes of 8 GPUs have as many. With 3
// events in 60 days of a cause with a share p of the preset's rate L: Gamma(3 + 10 p, 60 days + 10
// / L).
TEST(LogFit, AddsThePriorOfAPreset) {
  const RunLog log = test::log_of(
      "# nodes: 8\n# gpus_per_node: 8\ntime,event,step,cause\n0,step,0,\n"
      "100000,failure,,faulty GPU\n200000,step,50,\n300000,failure,,Faulty GPU\n"
      "400000,step,60,\n500000,failure,,FAULTY GPU\n5184000,end,,\n");
  const LogFit fit = fit_log(log, {.preset = "llama3"});
  // Failures a GPU-day of Llama 3: 419 in 16 384 x 54, of which 148 are of faulty GPUs.
  const double all = 419.0 / (16384 * 54) * 64 / kDays;
  ASSERT_GT(fit.causes.size(), 10U);
  EXPECT_EQ(fit.causes[0].events, 3);
  EXPECT_NEAR(fit.causes[0].rate.shape, 3 + 10.0 * 148 / 419, 1e-9);
  EXPECT_NEAR(fit.causes[0].rate.exposure / (60 * kDays + 10 / all), 1.0, 1e-9);
  EXPECT_NEAR(fit.failure_rate.shape, 13.0, 1e-12);
  double sum = 0.0;
  for (const CauseFit& one : fit.causes) sum += one.rate.mean();
  EXPECT_NEAR(sum / fit.failure_rate.mean(), 1.0, 1e-12);
}

// Two waits of 600 s in the scheduler's queue. Does the fitted job wait as long?
TEST(LogFit, KeepsTheWaitInTheQueue) {
  RunLog log;
  const LogFit fit = fit_of(
      "time,event,step,cause,duration_s\n0,step,0,,\n1000,failure,,GPU,\n1000,queue,,,600\n"
      "1600,step,0,,\n3000,failure,,GPU,\n3000,queue,,,600\n3600,step,0,,\n9000,end,,,\n",
      log);
  const Reliability fitted = fitted_reliability(log, fit);
  ASSERT_TRUE(fitted.recovery.queue);
  EXPECT_DOUBLE_EQ(fitted.recovery.queue->value(), 600);
}

// A preset may hold a cause that never happened. It has no rate, and the log does not have it: is
// it left out?
TEST(LogFit, LeavesOutACauseThatNeverFails) {
  const std::string file = testing::TempDir() + "/prior.json";
  write_file(file, R"({"title": "prior", "source": "a test", "failures": [
    {"cause": "GPU", "component": "gpu", "events": 10, "component_days": 640},
    {"cause": "cable", "component": "gpu", "events": 0, "component_days": 640}]})");
  const RunLog log = test::log_of(
      "# nodes: 8\n# gpus_per_node: "
      "8\ntime,event,step,cause\n0,step,0,\n9,failure,,GPU\n99,end,,\n");
  const LogFit fit = fit_log(log, {.preset = file});
  ASSERT_EQ(fit.causes.size(), 1U);
  EXPECT_EQ(fit.causes[0].cause, "GPU");
}

TEST(LogFit, RefusesAPriorThatDoesNotFit) {
  const std::string rows = "time,event,step,cause\n0,step,0,\n9,failure,,gremlins\n99,end,,\n";
  const auto problem = [](const std::string& text, const FitPrior& prior) {
    try {
      const RunLog log = test::log_of(text);
      (void)fit_log(log, prior);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(problem(rows, {.preset = "llama3"}),
              HasSubstr("does not tell how many parts failed"));
  const std::string nodes = "# nodes: 8\n# gpus_per_node: 8\n";
  EXPECT_THAT(problem(nodes + rows, {.preset = "llama3"}),
              HasSubstr("has no cause of the preset llama3: gremlins"));
  EXPECT_THAT(problem(nodes + rows, {.preset = "lama3"}), HasSubstr("lama3"));
}

// Does a fit have the distribution of the log's repairs: equal, near their mean, or as far from it
// as an exponential?
TEST(LogFit, HasTheDistributionOfRepairs) {
  const auto fitted = [](const std::vector<int>& hours) {
    std::string rows = "# nodes: 8\ntime,event,step,cause,node,duration_s\n0,step,0,,,\n";
    int at_s = 0;
    for (const int hour : hours) {
      at_s += 1'000'000;
      rows += fmt::format(
          "{0},step,{0},,,\n{0},failure,,GPU,n1,\n{1},repaired,,,n1,\n{1},step,{0},,,\n", at_s,
          at_s + 3600 * hour);
    }
    RunLog log;
    const LogFit fit = fit_of(rows.substr(rows.find("time,")), log);
    log.nodes = 8;
    return fitted_reliability(log, fit).spares;
  };
  EXPECT_EQ(fitted({5, 5, 5, 5, 5}).repair_distribution, RepairDistribution::Fixed);
  EXPECT_EQ(fitted({4, 5, 6, 5, 5}).repair_distribution, RepairDistribution::Lognormal);
  EXPECT_NEAR(fitted({4, 5, 6, 5, 5}).repair_sigma, 0.1407, 0.001);
  EXPECT_EQ(fitted({1, 1, 1, 2, 20}).repair_distribution, RepairDistribution::Exponential);
  EXPECT_EQ(fitted({0, 0, 0, 0, 0}).repair_distribution, RepairDistribution::Exponential);
  EXPECT_EQ(fitted({5, 5}).repair_distribution, RepairDistribution::Exponential);
}

// Is a preset for `goodput --preset` read back as it was written?
TEST(LogFit, WritesABlockThatIsReadBack) {
  const SampledLog sampled(job_of_two_causes(), {.wall_s = 30 * kDays}, 3, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  const Reliability fitted = fitted_reliability(log, fit);
  const std::string file = testing::TempDir() + "/fitted.json";
  write_file(file, to_text(reliability_json(fitted)));
  EXPECT_EQ(reliability_json(load_reliability(file)), reliability_json(fitted));
  EXPECT_NO_THROW((void)with_changes(log, fitted, {}));
}

// The forecast of a job without failures or differences between its steps is certain: 1000 steps of
// 10 s with ten checkpoints of 20 s. With failures it is spread around what sampled runs take.
TEST(Forecast, IsThatOfTheJob) {
  Job job = job_of_two_causes();
  const SampledLog sampled(job, {.wall_s = 30 * kDays}, 3, 0);
  RunLog log;
  const LogFit fit = fit_of(sampled.text(), log);
  const Job fitted = job_of_log(log, fit, fitted_reliability(log, fit));
  const Forecast forecast = forecast_run(fit, fitted, {.steps = 200'000, .runs = 200});
  EXPECT_LT(forecast.p10_s, forecast.p50_s);
  EXPECT_LT(forecast.p50_s, forecast.p90_s);
  const double truth_s = sampled_run(job, {.steps = 200'000}, 1, 0).wall_s;
  EXPECT_NEAR(forecast.p50_s / truth_s, 1.0, 0.02);
  ASSERT_EQ(forecast.inputs.size(), 4U);
  // Which failures come, and how often, decide; steps and recovery take equal times.
  EXPECT_GT(forecast.inputs[1].swing_s(), 3600.0);
  EXPECT_LT(forecast.inputs[2].swing_s(), 1.0);
  EXPECT_THAT((std::set{forecast.inputs[0].name, forecast.inputs[1].name}),
              testing::UnorderedElementsAre("failure rates", "which failures come"));
  for (InterruptionCause& cause : job.causes) cause.rate = 0.0;
  Job certain = fitted;
  for (InterruptionCause& cause : certain.causes) cause.rate = 0.0;
  certain.step_s = 10.0;
  EXPECT_NEAR(sampled_run(certain, {.steps = 1000}, 0, 0).wall_s, 10200, 2.0);
}

// Steps take 10 s in one half of the segments and 30 s in the other. Does the forecast hang on the
// time of a step?
TEST(Forecast, HangsOnTheTimeOfAStepWhereItDiffers) {
  std::string text = "time,event,step,cause,duration_s\n0,step,0,,\n";
  double time_s = 0.0;
  for (int segment = 1; segment <= 8; ++segment) {
    time_s += 1000.0 * (segment % 2 == 0 ? 10.0 : 30.0);
    text += fmt::format("{0},checkpoint,{1},,0\n{0},failure,,GPU,\n{2},step,{1},,\n", time_s,
                        1000 * segment, time_s + 60.0);
    time_s += 60.0;
  }
  text += fmt::format("{},step,8100,,\n", time_s + 2000.0);
  RunLog log;
  const LogFit fit = fit_of(text, log);
  const Job fitted = job_of_log(log, fit, fitted_reliability(log, fit));
  const Forecast forecast = forecast_run(fit, fitted, {.steps = 20'000, .runs = 200});
  const auto step = std::ranges::find(forecast.inputs, "time of a step", &ForecastInput::name);
  ASSERT_NE(step, forecast.inputs.end());
  EXPECT_GT(step->swing_s(), 0.1 * forecast.p50_s);
  EXPECT_GT(forecast.p90_s, 1.1 * forecast.p10_s);
}

RunLog shipped(const char* name) {
  return read_run_log(
      fmt::format("{}/scenarios/run_logs/{}.csv", TRAINYARD_SOURCE_DIRECTORY, name));
}

// BLOOM: 82 072 steps of 105.5 s in 108 days. OPT: 33 ideal days in 56.
TEST(ShippedLogs, GiveThePublishedGoodputBack) {
  const RunLog bloom = shipped("bloom_176b");
  const LogFit of_bloom = fit_log(bloom, {});
  EXPECT_NEAR(of_bloom.goodput(bloom), 0.928, 0.0005);
  EXPECT_NEAR(of_bloom.split.sum_s() / bloom.wall_s(), 1.0, 1e-12);
  EXPECT_NEAR(of_bloom.split.steps_kept, 94767 - 12695, 1e-6);
  EXPECT_NEAR(of_bloom.split.step_times->median_s, 105.5, 0.01);
  EXPECT_DOUBLE_EQ(*of_bloom.interval_steps, 100);
  EXPECT_FALSE(bloom.reconstructed.empty());
  const RunLog opt = shipped("opt_175b");
  const LogFit of_opt = fit_log(opt, {});
  EXPECT_NEAR(of_opt.goodput(opt), 0.589, 0.0005);
  EXPECT_EQ(of_opt.failures, 90);
  EXPECT_NEAR(of_opt.split.sum_s() / opt.wall_s(), 1.0, 1e-12);
  EXPECT_FALSE(opt.reconstructed.empty());
}

}  // namespace
}  // namespace trainyard
