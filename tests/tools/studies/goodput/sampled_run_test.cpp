// Sampled runs agree with the closed forms of reliability: within three standard errors each, and
// all together by a chi-square test that a rate off by a few percent fails.
#include <gtest/gtest.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "models/reliability/checkpoint_interval.hpp"
#include "models/reliability/redundancy.hpp"
#include "sim/base/error.hpp"
#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A job with a failure every `mtbf` seconds, steps of one second and no wait for nodes.
Job failing_job(double mtbf) {
  Job job;
  job.causes = {{.name = "any", .rate = 1.0 / mtbf}};
  job.step_s = 1.0;
  return job;
}

double phase_sum(const SampledRun& run) {
  return std::accumulate(run.phases_s.begin(), run.phases_s.end(), 0.0);
}

struct Mean {
  double mean = 0.0;
  double error = 0.0;  // standard error
};
template <class Value>
Mean mean_of(const Job& job, const RunLength& length, int runs, const Value& value) {
  double sum = 0.0;
  double squares = 0.0;
  const int pairs = runs / 2;  // antithetic partners depend on each other
  for (int i = 0; i < pairs; ++i) {
    const auto run = static_cast<std::uint64_t>(2 * i);
    const double one =
        (value(sampled_run(job, length, 7, run)) + value(sampled_run(job, length, 7, run + 1))) / 2;
    sum += one;
    squares += one * one;
  }
  const double mean = sum / pairs;
  return {mean, std::sqrt((squares / pairs - mean * mean) / (pairs - 1))};
}

// A segment of the closed form, as a job of `segments` of them.
struct SegmentCase {
  double interval, stall, write, restart, mtbf;
};
constexpr int kSegments = 50;

Job job_of(const SegmentCase& one, double rate_factor = 1.0) {
  Job job = failing_job(one.mtbf / rate_factor);
  job.storage().interval_steps = std::llround(one.interval);
  job.storage().stall_s = one.stall;
  job.storage().write_s = one.write;
  job.start_s = one.restart;
  return job;
}

double expected_wall(const SegmentCase& one) {
  const reliability::AsynchronousSegment segment{.interval = one.interval,
                                                 .stall = one.stall,
                                                 .write = one.write,
                                                 .restart = one.restart,
                                                 .mtbf = one.mtbf};
  return reliability::asynchronous_first_time(segment) +
         (kSegments - 1) * reliability::asynchronous_segment_time(segment);
}

std::vector<SegmentCase> grid() {
  std::vector<SegmentCase> cases;
  for (const double mtbf : {900.0, 3000.0, 11135.0})
    for (const double interval : {120.0, 600.0})
      for (const double stall : {0.0, 30.0})
        for (const double write : {0.0, 90.0})
          for (const double restart : {0.0, 300.0})
            cases.push_back({interval, stall, write, restart, mtbf});
  return cases;
}

// Deviation of the mean wall time from the closed form, in standard errors.
double deviation(const SegmentCase& one, double rate_factor) {
  const RunLength length{.steps = kSegments * one.interval};
  const Mean wall = mean_of(job_of(one, rate_factor), length, 400,
                            [](const SampledRun& run) { return run.wall_s; });
  return (wall.mean - expected_wall(one)) / wall.error;
}

// Probability of deviations as large as these if the closed forms hold.
double p_value(const std::vector<double>& deviations) {
  double squares = 0.0;
  for (const double z : deviations) squares += z * z;
  const boost::math::chi_squared chi(static_cast<double>(deviations.size()));
  return cdf(complement(chi, squares));
}

TEST(SampledRun, HasTheExpectedTimeOfTheRenewalEquation) {
  std::vector<double> deviations;
  for (const SegmentCase& one : grid()) {
    deviations.push_back(deviation(one, 1.0));
    EXPECT_LT(std::abs(deviations.back()), 3.0)
        << one.interval << " " << one.stall << " " << one.write << " " << one.restart << " "
        << one.mtbf;
  }
  EXPECT_EQ(deviations.size(), 48U);
  EXPECT_GT(p_value(deviations), 0.01);
}

// The test above can fail: a rate that is 5 % too high has a p-value below 1e-9.
TEST(SampledRun, WithAWrongRateFailsThatTest) {
  std::vector<double> deviations;
  for (const SegmentCase& one : grid()) deviations.push_back(deviation(one, 1.05));
  EXPECT_EQ(deviations.size(), 48U);
  EXPECT_LT(p_value(deviations), 1e-9);
}

// 1000 s of work in intervals of 100 s, stalls of 10 s, a last write of 30 s:
// 1000 + 10 x 10 + 30 = 1130 s.
TEST(SampledRun, WithoutFailuresIsWorkAndCheckpoints) {
  Job job = failing_job(kNever);
  job.storage().interval_steps = 100;
  job.storage().stall_s = 10;
  job.storage().write_s = 30;
  const SampledRun run = sampled_run(job, {.steps = 1000}, 0, 0);
  EXPECT_DOUBLE_EQ(run.wall_s, 1130);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Productive), 1000);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Checkpoint), 130);
  // A last interval of 50 s has a checkpoint too: 1050 + 11 x 10 + 30.
  EXPECT_DOUBLE_EQ(sampled_run(job, {.steps = 1050}, 0, 0).wall_s, 1190);
  // 500 s of the calendar: 4 cycles of 110 s and 60 s of work.
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 500}, 0, 0).steps, 460);
}

// Jobs with every kind of interruption, with spares, repairs and fewer replicas.
std::vector<Job> jobs_of_all_kinds() {
  std::vector<Job> jobs;
  for (const FailurePolicy policy : {FailurePolicy::Restart, FailurePolicy::Elastic})
    for (const double shape : {0.7, 1.0, 1.5})
      for (const std::int64_t spares : {0, 2}) {
        Job job = failing_job(3000);
        job.causes[0].weibull_shape = shape;
        job.causes[0].nodes = 1;
        job.causes[0].detect_s = 20;
        job.causes[0].diagnose_s = 30;
        job.causes.push_back({.name = "flap",
                              .kind = FailureKind::Transient,
                              .rate = 1e-3,
                              .duration_s = 5,
                              .give_up_s = 20});
        job.causes.push_back({.name = "planned", .kind = FailureKind::Planned, .rate = 1e-4});
        job.storage().interval_steps = 100;
        job.storage().stall_s = 3;
        job.storage().write_s = 40;
        job.start_s = 60;
        job.communicator_init_s = 10;
        job.storage().load_s = 30;
        job.warm_up_s = 15;
        job.spares = {.nodes = spares, .replace_s = 25, .repair_s = 20000};
        job.policy = policy;
        job.replicas = 8;
        job.nodes_per_replica = 1;
        job.step_in = [](const JobState& state) {
          return 1.0 - 0.001 * static_cast<double>(state.replicas_lost);
        };
        jobs.push_back(job);
      }
  return jobs;
}

TEST(SampledRun, PhasesAddUpToTheWallTime) {
  int cases = 0;
  for (const Job& job : jobs_of_all_kinds())
    for (const RunLength& length : {RunLength{.steps = 50000}, RunLength{.wall_s = 70000}})
      for (std::uint64_t index = 0; index < 5; ++index) {
        const SampledRun run = sampled_run(job, length, 3, index);
        EXPECT_NEAR(phase_sum(run), run.wall_s, 1e-12 * run.wall_s);
        for (const double time : run.phases_s) EXPECT_GE(time, 0.0);
        if (length.steps < kNever) {
          EXPECT_NEAR(run.steps, length.steps, 1.0);
        }
        ++cases;
      }
  EXPECT_EQ(cases, 120);
}

// The calendar ends while the job waits for the only repair, so it never goes on with fewer
// replicas: the step with fewer is not asked for.
TEST(SampledRun, MayEndWhileItWaitsForANode) {
  Job job = failing_job(1000);
  job.causes[0].nodes = 1;
  job.spares.repair_s = 1e9;
  const SampledRun run = sampled_run(job, {.wall_s = 1e5}, 0, 0);
  EXPECT_GT(run.phase(RunPhase::Replace), 0.5e5);
  EXPECT_NEAR(phase_sum(run), run.wall_s, 1e-12 * run.wall_s);
}

// A job fails every 10 s and saves every 1000 s. Does a run of so many steps end with a message?
TEST(SampledRun, ThatNeverGetsOnEnds) {
  Job job;
  job.step_s = 1.0;
  job.storage().interval_steps = 1000;
  job.causes = {{.name = "all", .rate = 0.1}};
  try {
    (void)sampled_run(job, {.steps = 1e6}, 1, 0);
    FAIL() << "it has trained a million steps";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("does not get beyond 0 of 1e+06 steps"),
              std::string::npos)
        << error.what();
  }
}

TEST(SampledRun, IsTheSameForTheSameSeed) {
  const Job job = jobs_of_all_kinds().back();
  const RunLength length{.wall_s = 70000};
  const SampledRun one = sampled_run(job, length, 3, 1);
  const SampledRun same = sampled_run(job, length, 3, 1);
  const SampledRun other = sampled_run(job, length, 4, 1);
  EXPECT_EQ(one.phases_s, same.phases_s);
  EXPECT_EQ(one.interruptions, same.interruptions);
  EXPECT_NE(one.phases_s, other.phases_s);
}

double interruptions(const SampledRun& run) { return static_cast<double>(run.interruptions[0]); }

// The variance over the mean of the number of failures in 1e6 s, one per 1000 s, of independent
// runs.
double dispersion(const Job& job, std::uint64_t runs) {
  double squares = 0.0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    const double off = interruptions(sampled_run(job, {.wall_s = 1e6}, 7, 2 * i)) - 1000;
    squares += off * off;
  }
  return squares / static_cast<double>(runs) / 1000;
}

// Failures in 1e6 s, one per 1000 s, are Poisson with mean 1000 whatever the job does meanwhile.
TEST(SampledRun, CountsInterruptionsAtTheirRate) {
  Job job = failing_job(1000);
  job.storage().interval_steps = 10;
  job.start_s = 500;
  const Mean count = mean_of(job, {.wall_s = 1e6}, 100, interruptions);
  EXPECT_LT(std::abs(count.mean - 1000) / count.error, 3);
  // Antithetic partners: their mean is known better than that of 100 independent Poisson numbers.
  EXPECT_LT(count.error, 0.7 * std::sqrt(1000.0 / 100));
  EXPECT_NEAR(dispersion(job, 400), 1.0, 0.21);  // three standard errors of a Poisson variance
}

// Weibull times of mean 1000 s: over a long time as many as exponential ones, but in clusters, so
// the variance of the count is larger. For a renewal process it is the squared coefficient of
// variation of the times: Gamma(1 + 2/k)/Gamma(1 + 1/k)^2 - 1 = 5 for k = 1/2.
TEST(SampledRun, HasClustersOfFailuresWithASmallWeibullShape) {
  Job job = failing_job(1000);
  job.causes[0].weibull_shape = 0.5;
  job.storage().interval_steps = 10;
  EXPECT_NEAR(dispersion(job, 400), 5, 1);
  EXPECT_NEAR(mean_of(job, {.wall_s = 1e6}, 400, interruptions).mean, 1000, 10);
}

// Link flaps of 5 s in the mean, every 200 s: each stalls for the mean of min(duration, give-up),
// 5 (1 - e^(-20/5)) = 4.908 s of training time lost per 200 s, and e^(-4) of them stop the job.
TEST(SampledRun, StallsForLinkFlapsAsTheClosedForm) {
  Job job;
  job.step_s = 1;
  job.storage().interval_steps = 1;
  job.causes = {{.name = "flap",
                 .kind = FailureKind::Transient,
                 .rate = 1.0 / 200,
                 .duration_s = 5,
                 .give_up_s = 20}};
  const Mean per_flap = mean_of(job, {.wall_s = 1e6}, 100, [](const SampledRun& run) {
    return run.phase(RunPhase::Stalled) / static_cast<double>(run.interruptions[0]);
  });
  // Flaps during a stall have no effect: of the flaps, the share that begins a stall is
  // 200/(200 + 4.908).
  const double stall = 5 * (1 - std::exp(-4.0));
  EXPECT_LT(std::abs(per_flap.mean - stall * 200 / (200 + stall)) / per_flap.error, 3);
  EXPECT_NEAR(job.mtbf_s(), 200 * std::exp(4.0), 1e-6);
}

// 8 failed nodes in repair in the mean, 10 spares, a node from elsewhere at once where none stands
// by, to which the next repaired node goes back: a failure finds no spare if 10 others or more are
// in repair, a Poisson number, for every distribution of the repairs.
TEST(SampledRun, FindsNoSpareWithThePoissonProbability) {
  int cases = 0;
  for (const RepairDistribution distribution :
       {RepairDistribution::Fixed, RepairDistribution::Exponential,
        RepairDistribution::Lognormal}) {
    Job job = failing_job(1000);
    job.causes[0].nodes = 1;
    job.spares = {.nodes = 10,
                  .cold_replace_s = 0.0,
                  .repair_s = 8000.0,
                  .repair_distribution = distribution};
    const Mean share = mean_of(job, {.wall_s = 5e6}, 60, [](const SampledRun& run) {
      return static_cast<double>(run.without_spare) / static_cast<double>(run.nodes_lost);
    });
    EXPECT_LT(std::abs(share.mean - reliability::poisson_shortage(8, 9)) / share.error, 3);
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

// Does a second repair of some nodes keep them away as long as its share says? 0.5 x 6000 s more
// than 5000 s are 8000 s in the mean, as in the test above.
TEST(SampledRun, RepairsAShareOfTheNodesTwice) {
  Job job = failing_job(1000);
  job.causes[0].nodes = 1;
  job.spares = {.nodes = 10,
                .cold_replace_s = 0.0,
                .repair_s = 5000.0,
                .manual_share = 0.5,
                .manual_repair_s = 6000.0};
  const Mean share = mean_of(job, {.wall_s = 5e6}, 60, [](const SampledRun& run) {
    return static_cast<double>(run.without_spare) / static_cast<double>(run.nodes_lost);
  });
  EXPECT_LT(std::abs(share.mean - reliability::poisson_shortage(8, 9)) / share.error, 3);
}

// Is a limited number of nodes elsewhere a second row of spares? 20 nodes fail at a rate that keeps
// 4 in repair; 2 stand by and 4 more are elsewhere. The job waits for a repair as long as more than
// 6 are in repair. Those in repair do not fail meanwhile, so this is the birth-death chain.
TEST(SampledRun, WaitsForARepairOnceNoNodeIsElsewhere) {
  constexpr double kRate = 1e-5;  // of one node
  Job job = failing_job(1.0 / (20 * kRate));
  job.causes[0].nodes = 1;
  job.replicas = 20;
  job.spares = {.nodes = 2, .cold_replace_s = 0.0, .cold_nodes = 4, .repair_s = 20'000.0};
  const Mean waiting = mean_of(job, {.wall_s = 3e7}, 40, [](const SampledRun& run) {
    return run.phase(RunPhase::Replace) / run.wall_s;
  });
  const double expected = reliability::spare_shortage(
      {.nodes = 20, .spares = 6, .failure_rate = kRate, .repair_rate = 1 / 20'000.0});
  EXPECT_LT(std::abs(waiting.mean - expected) / waiting.error, 3) << expected;
  job.spares.cold_nodes = 0;
  EXPECT_EQ(sampled_run(job, {.wall_s = 1e6}, 0, 0).phase(RunPhase::Replace), 0.0);
}

// Do nodes in repair fail? Two nodes that fail and are repaired once a day work together for 1/4 of
// the time, and for 9/17 with one spare. A single one, which leaves nothing that could fail, works
// for 1/2.
TEST(SampledRun, HasNoFailuresOfNodesInRepair) {
  constexpr double kDay = 86'400.0;
  int cases = 0;
  for (const auto& [nodes, spares, expected] :
       {std::tuple{2, 0, 1.0 / 4}, {2, 1, 9.0 / 17}, {1, 0, 1.0 / 2}}) {
    Job job = failing_job(kDay / nodes);
    job.causes[0].nodes = 1;
    job.replicas = nodes;
    job.spares = {.nodes = spares, .repair_s = kDay};
    const Mean waiting = mean_of(job, {.wall_s = 4000 * kDay}, 60, [](const SampledRun& run) {
      return run.phase(RunPhase::Replace) / run.wall_s;
    });
    EXPECT_LT(std::abs(waiting.mean - (1 - expected)) / waiting.error, 3) << nodes << spares;
    EXPECT_LT(waiting.error, 0.003);
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

// How much does a wrong diagnosis cost? A recovery is repeated with probability p, so it takes
// M (e^(R/M) - 1)/(1 - p) in the mean instead of M (e^(R/M) - 1), where failures can hit it too.
TEST(SampledRun, RepeatsARecoveryAfterAWrongDiagnosis) {
  int cases = 0;
  for (const double mtbf : {900.0, 3000.0})
    for (const double wrong : {0.2, 0.6}) {
      const SegmentCase one{.interval = 600, .stall = 30, .write = 0, .restart = 300, .mtbf = mtbf};
      Job job = job_of(one);
      job.causes[0].nodes = 1;
      job.spares.cold_replace_s = 0.0;
      job.misdiagnosis = wrong;
      const Mean wall = mean_of(job, {.steps = kSegments * one.interval}, 400,
                                [](const SampledRun& run) { return run.wall_s; });
      const double recovery = reliability::restart_time(one.restart, mtbf) / (1 - wrong);
      const double expected =
          kSegments * (mtbf + recovery) * std::expm1((one.interval + one.stall) / mtbf);
      EXPECT_LT(std::abs(wall.mean - expected) / wall.error, 3) << mtbf << " " << wrong;
      ++cases;
    }
  EXPECT_EQ(cases, 4);
}

// Does a wrong diagnosis take a sound node out? With p = 1/2 each failure takes two in the mean. A
// slow part that a check found is known, and takes one.
TEST(SampledRun, TakesASoundNodeOutWithAWrongDiagnosis) {
  Job job = failing_job(1000);
  job.causes[0].nodes = 1;
  job.spares.cold_replace_s = 0.0;
  job.misdiagnosis = 0.5;
  const auto lost = [](const SampledRun& run) {
    return static_cast<double>(run.nodes_lost) / static_cast<double>(run.interruptions[0]);
  };
  const Mean nodes = mean_of(job, {.wall_s = 1e6}, 60, lost);
  EXPECT_LT(std::abs(nodes.mean - 2.0) / nodes.error, 3);
  job.causes[0].kind = FailureKind::Degrading;
  job.causes[0].detect_s = 10;
  job.causes[0].duration_s = kNever;
  job.step_in = [](const JobState&) { return 1.5; };
  EXPECT_NEAR(mean_of(job, {.wall_s = 1e6}, 10, lost).mean, 1.0, 0.01);
}

// Do repairs cure bad nodes as fast as they should? L bad nodes fail at the rate l m each, a repair
// cures one with probability c, so L(t) = L0 e^(-l m c t). With N nodes, l (N + (m - 1) L) failures
// come in a second.
TEST(SampledRun, RepairsCureBadNodes) {
  constexpr double kNodes = 1000;
  constexpr double kRate = 1e-6;  // of a good node
  constexpr double kMultiple = 20;
  constexpr double kCured = 0.25;
  constexpr double kEnd = 5e5;
  Job job = failing_job(1.0 / (kNodes * kRate * (1 + 0.1 * (kMultiple - 1))));
  job.causes[0].nodes = 1;
  job.lemons = {.share = 0.1, .multiple = kMultiple, .evict_after = 0, .cured = kCured};
  job.spares.repair_s = 1e-3;
  job.replicas = static_cast<std::int64_t>(kNodes);
  const Mean count = mean_of(job, {.wall_s = kEnd}, 200, interruptions);
  const double decay = kRate * kMultiple * kCured;
  const double bad = 0.1 * kNodes * -std::expm1(-decay * kEnd) / decay;  // integral of L
  const double expected = kRate * (kNodes * kEnd + (kMultiple - 1) * bad);
  EXPECT_LT(std::abs(count.mean - expected) / count.error, 3) << count.mean << " " << expected;
}

// Each of 16 replicas is one node, which fails every 16 000 s while it works and is repaired in
// 4000 s: it works for 16/(16 + 4) of the time, independently of the others. Restarts take no time.
TEST(SampledRun, WithFewerReplicasHasTheRateOfTheReplicasAtWork) {
  Job job = failing_job(1000);
  job.causes[0].nodes = 1;
  job.spares = {.repair_s = 4000.0};
  job.policy = FailurePolicy::Elastic;
  job.replicas = 16;
  job.step_in = [](const JobState&) { return 1.0; };
  const Mean steps = mean_of(job, {.wall_s = 1e6}, 60, [](const SampledRun& run) {
    return run.steps + run.phase(RunPhase::Redone);  // steps of one second
  });
  // All replicas work at first, which adds at most one repair time: 16 000/20 000 x 4000 s x 0.2.
  const double expected = 1e6 * 0.8 + 4000 * 0.8 * 0.2;
  EXPECT_NEAR(steps.mean, expected, 3 * steps.error + 2000);
}

TEST(Goodput, StopsWhenItsMeanIsKnown) {
  Job job = failing_job(3000);
  job.storage().interval_steps = 300;
  job.storage().stall_s = 10;
  job.start_s = 100;
  const Goodput all = goodput(job, {.length = {.wall_s = 1e6}});
  EXPECT_LE(all.goodput.half_width, 0.002 * all.goodput.mean);
  EXPECT_EQ(all.runs.size() % 50, 0U);
  const double expected =
      reliability::efficiency({.interval = 300, .write = 10, .restart = 100, .mtbf = 3000});
  EXPECT_NEAR(all.goodput.mean, expected, 3 * all.goodput.half_width);
  EXPECT_EQ(goodput(job, {.length = {.wall_s = 1e6}, .runs = 7}).runs.size(), 7U);
}

TEST(Goodput, IsBestNearTheExactOptimum) {
  Job job = failing_job(3000);
  job.storage().interval_steps = 2000;
  job.storage().stall_s = 10;
  job.start_s = 100;
  const Goodput all = goodput(job, {.length = {.wall_s = 3e6}, .runs = 50});
  const auto best = std::max_element(
      all.intervals.begin(), all.intervals.end(),
      [](const IntervalPoint& a, const IntervalPoint& b) { return a.goodput < b.goodput; });
  // sqrt(2 x 10 x 3000) = 245 s; Daly's and the exact one are 238 s.
  EXPECT_NEAR(best->interval_s, 241, 5);
  EXPECT_EQ(all.intervals.size(), 8U);  // Daly's and the exact one are the same number of steps
}

// Halved failure rates gain most: they halve redone work and restarts. Of 100 s of start per 3000
// s, half gains about 50/3000 of the goodput. A detection of no time gains nothing and is left out.
TEST(Goodput, NamesWhatWouldHelp) {
  Job job = failing_job(3000);
  job.storage().interval_steps = 240;
  job.storage().stall_s = 10;
  job.start_s = 100;
  const Goodput all = goodput(job, {.length = {.wall_s = 3e6}, .runs = 50});
  ASSERT_EQ(all.halved.size(), 4U);
  EXPECT_EQ(all.halved[0].name, "failure rates");
  EXPECT_EQ(all.halved[1].name, "checkpoint stall");
  EXPECT_EQ(all.halved[2].name, "start of processes");
  EXPECT_NEAR(all.halved[2].gain, all.goodput.mean * 50.0 / 3000, 0.001);
  EXPECT_EQ(all.halved[3].name, "checkpoint interval");  // it is the optimum
  EXPECT_LT(all.halved[3].gain, 0.0);
}

// Does a cause have as many events as its rate says, whatever the shape of the times between them?
TEST(SampledRun, HasTheEventsOfItsRateForEveryShape) {
  for (const double shape : {0.4, 0.7, 1.0, 2.0, 5.0}) {
    Job job = failing_job(1e5);
    job.causes.front().weibull_shape = shape;
    const Mean events = mean_of(job, {.wall_s = 2e5}, 4000, [](const SampledRun& run) {
      return static_cast<double>(run.interruptions[0]);
    });
    EXPECT_LT(std::abs(events.mean - 2.0) / events.error, 4) << shape << " " << events.mean;
  }
}

// The numbers of one run, so that another compiler or another release of Boost shows if it differs.
TEST(SampledRun, IsTheSameOnEverySystem) {
  const SampledRun run = sampled_run(jobs_of_all_kinds()[1], {.wall_s = 70000}, 3, 1);
  EXPECT_EQ(run.interruptions, (std::vector<std::int64_t>{12, 61, 9}));
  EXPECT_NEAR(run.steps, 29924.449179224073, 1e-6);
}

TEST(Goodput, RefusesAnIntervalLongerThanTheRun) {
  Job job = failing_job(3000);
  job.storage().interval_steps = 2000;
  EXPECT_THROW((void)goodput(job, {.length = {.wall_s = 1000}}), InputError);
}

}  // namespace
}  // namespace trainyard
