// How much do jobs slow each other?
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "tests/agreement.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"
#include "tests/scenarios/shipped.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// The time of the all_reduce of a job that is alone: that of its longest flow.
double transfer_s(const JobsResult& result) {
  double longest_s = 0.0;
  for (const FlowSpan& flow : result.run.timeline.flows)
    longest_s = std::max(longest_s, flow.end_s - flow.start_s);
  return longest_s;
}

JobsResult alone(Json document) {
  document["jobs"].erase(1);
  return simulated(document);
}

// Does a job that is alone take as long as its scenario, on the GPUs that it has?
TEST(Jobs, AJobAloneTakesTheStepTimeOfItsScenario) {
  const JobsResult jobs = alone(shared_uplink());
  Json scenario = tiny_job();
  scenario["cluster"] = shared_uplink()["cluster"];
  scenario["cluster"]["nodes"] = 2;
  const Result run = simulate(load(scenario));
  EXPECT_NEAR(jobs.jobs[0].alone_s, run.timeline.makespan_s, kAgreement * run.timeline.makespan_s);
  EXPECT_NEAR(jobs.jobs[0].together_s, jobs.jobs[0].alone_s, kAgreement * jobs.jobs[0].alone_s);
  EXPECT_DOUBLE_EQ(jobs.jobs[0].tokens_per_step, 2048.0);
}

// May a job use a precision that only its own GPUs have? The A100s of the other job have no fp8.
TEST(Jobs, AJobInFp8MayRunBesideGpusWithoutIt) {
  Json document = shared_uplink();
  Json& cluster = document["cluster"];
  Json newer = cluster["node"];
  newer["gpu"] = "h100";
  cluster["others"] = Json::array({{{"nodes", {1, 3}}, {"node", newer}}});
  document["jobs"][1]["scenario"]["training"]["recipe"] = "fp8_cached";
  Json scenario = document["jobs"][1]["scenario"];
  scenario["cluster"] = shared_uplink()["cluster"];
  scenario["cluster"]["nodes"] = 2;
  scenario["cluster"]["node"] = newer;
  const Result run = simulate(load(scenario));
  document["jobs"].erase(0);
  const double alone_s = simulated(document).jobs[0].alone_s;
  EXPECT_NEAR(alone_s, run.timeline.makespan_s, kAgreement * run.timeline.makespan_s);
}

// Does a job whose shares are balanced have the shares of its own run, on the GPUs that it has?
TEST(Jobs, ABalancedJobHasTheSharesOfItsOwnRun) {
  const Scenario scenario = load_scenario(
      TRAINYARD_SOURCE_DIRECTORY "/scenarios/unequal/llama3_8b_replicas_h100_a100.json",
      {{"training.global_batch_size", "8"}, {"model.layers", "2"}});
  ASSERT_EQ(scenario.plan.parallelism.balance, Balance::Auto);
  const Json document{{"description", "one job"},
                      {"cluster", resolved(scenario)["cluster"]},
                      {"jobs", {{{"name", "a"}, {"scenario", resolved(scenario)}}}}};
  const Result run = simulate(scenario);
  const JobsResult jobs = simulated(document);
  EXPECT_NEAR(jobs.jobs[0].alone_s, run.view().step_s(), kAgreement * run.view().step_s());
  EXPECT_LT(jobs.jobs[0].alone_s, 0.9 * run.facts.balance->equal_step_s);
}

// Two equal periodic jobs on one max-min link, compute C, transfer D, offset x < D: the offset
// never changes, and the period is C + 2 D - x; C + D once x >= D.
TEST(Jobs, TwoEqualJobsOnOneUplinkFollowTheClosedForm) {
  const Json document = shared_uplink();
  const JobsResult one = alone(document);
  const double d = transfer_s(one);
  const double c = one.jobs[0].alone_s - d;
  ASSERT_GT(c, d);
  for (const double share : {0.0, 0.25, 0.4, 0.9, 1.0, 1.5}) {
    Jobs jobs = jobs_of(document);
    const double x = share * d;
    jobs.all[1].start = Seconds{x};
    const JobsResult result = simulate_jobs(jobs);
    const double period = c + 2.0 * d - std::min(x, d);
    ASSERT_TRUE(result.repetition) << share;
    EXPECT_NEAR(result.repetition->period_s, period, kAgreement * period) << share;
    for (const JobResult& job : result.jobs)
      EXPECT_NEAR(job.together_s, period, kAgreement * period) << share;
    // The leaf's uplink and the other leaf's downlink carry both jobs for 2 (D - x).
    ASSERT_FALSE(result.sharing.empty());
    EXPECT_EQ(result.sharing[0].jobs, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_TRUE(result.sharing[0].contended);
    EXPECT_NEAR(result.sharing[0].shared_s, 2.0 * std::max(0.0, d - x), 1e-9) << share;
  }
}

// Where no link is shared, does nobody slow anybody?
TEST(Jobs, JobsUnderDifferentLeavesDoNotSlowEachOther) {
  Json document = shared_uplink();
  document["jobs"][0]["placement"] = {{"leaves", {0}}};
  document["jobs"][1]["placement"] = {{"leaves", {1}}};
  const JobsResult result = simulated(document);
  EXPECT_TRUE(result.sharing.empty());
  for (const JobResult& job : result.jobs) EXPECT_NEAR(job.slowdown(), 1.0, kAgreement);
}

// Are the steps of a repetition those of a long run, step by step? Job a has the larger share of
// the uplink, which moves job b away from it step by step until they meet no more.
TEST(Jobs, ARepetitionSaysWhatManyMoreStepsTake) {
  Json document = shared_uplink();
  document["jobs"][0]["priority"] = 1.5;
  document["jobs"][1]["start"] = "0.1 ms";
  const JobsResult found = simulated(document);
  ASSERT_TRUE(found.repetition);
  const Repetition& repetition = *found.repetition;
  EXPECT_GT(repetition.first[0], 1U);
  document["jobs"][0]["steps"] = repetition.first[0] + 20 * repetition.steps[0];
  const JobsResult played = simulated(document);
  for (std::size_t job = 0; job < 2; ++job) {
    const std::vector<double>& ends = played.jobs[job].ends_s;
    const std::uint32_t period = repetition.steps[job];
    for (std::uint32_t step = repetition.first[job];
         step + period < ends.size() && ends[step + period] <= played.end_s; ++step)
      EXPECT_NEAR(ends[step + period] - ends[step], repetition.period_s,
                  kAgreement * repetition.period_s)
          << job << ", step " << step;
  }
}

// Where one job makes several steps in the time of another, is the whole of them the period? The
// messages last longer than job a computes, so that they meet some of its transfers.
TEST(Jobs, ARepetitionMayHaveSeveralStepsOfAJob) {
  Json document = shared_uplink();
  const double alone_s = alone(document).jobs[0].alone_s;
  document["jobs"][1] = {
      {"name", "messages"},
      {"gpus", 2},
      {"placement", {{"nodes", {1, 3}}}},
      {"start", fmt::format("{} s", 1.9 * alone_s)},
      {"traffic",
       {{"pattern", "pairs"}, {"bytes", "400 MB"}, {"every", fmt::format("{} s", 3.5 * alone_s)}}}};
  const JobsResult result = simulated(document);
  ASSERT_TRUE(result.repetition);
  EXPECT_NEAR(result.repetition->steps[0] * result.jobs[0].together_s,
              result.repetition->steps[1] * result.jobs[1].together_s, kAgreement);
  EXPECT_GT(result.repetition->steps[0], 2U);
  EXPECT_GT(result.jobs[0].longest_s, result.jobs[0].shortest_s * 1.01);
}

Json unequal_jobs() {
  Json document = shared_uplink("20 GB/s");
  document["jobs"][1]["scenario"]["training"]["global_batch_size"] = 8;
  document["jobs"][1]["start"] = "1 ms";
  return document;
}

// Does a job end after its steps, and the other go on alone?
TEST(Jobs, AJobWithStepsEndsAndLeavesTheLinksToTheOthers) {
  Json document = shared_uplink();
  document["jobs"][0]["steps"] = 2;
  document["jobs"][1]["steps"] = 5;
  const JobsResult result = simulated(document);
  EXPECT_FALSE(result.repetition);
  ASSERT_EQ(result.jobs[0].ends_s.size(), 2U);
  ASSERT_EQ(result.jobs[1].ends_s.size(), 5U);
  const double alone_s = result.jobs[1].alone_s;
  EXPECT_NEAR(result.jobs[1].longest_s, result.jobs[0].longest_s, 1e-12);
  EXPECT_NEAR(result.jobs[1].shortest_s, alone_s, kAgreement * alone_s);
  EXPECT_NEAR(result.jobs[1].together_s, (2.0 * result.jobs[0].longest_s + 3.0 * alone_s) / 5.0,
              kAgreement * alone_s);
}

Json jobs_of_all_kinds() {
  auto document = parse_unchecked_json(R"({
    "description": "three jobs and traffic",
    "cluster": { "node": "dgx_a100_80gb", "nodes": 8,
                 "fabric": { "kind": "fat_tree", "radix": 32, "oversubscription": 3 } },
    "jobs": [ { "name": "pipeline", "gpus": 32, "placement": "spread", "start": "3 ms" },
              { "name": "sharded", "gpus": 16, "placement": { "fragmented": 3 } },
              { "name": "reads", "gpus": 16, "priority": 2,
                "traffic": { "pattern": "one_to_all", "bytes": "20 MB", "every": "7 ms",
                             "servers": 2 } } ]
  })");
  auto scenario = parse_unchecked_json(R"({
    "model": { "name": "small", "layers": 8, "hidden": 256, "heads": 8, "ffn": 1024, "vocab": 8192,
               "max_positions": 512 },
    "host": "eager",
    "parallelism": { "tensor": 2, "pipeline": 4, "data": 4 },
    "training": { "sequence_length": 512, "global_batch_size": 32 }
  })");
  document["jobs"][0]["scenario"] = scenario;
  scenario["parallelism"] = {{"data", 16}, {"zero_stage", 3}};
  scenario.erase("host");
  document["jobs"][1]["scenario"] = scenario;
  for (auto& job : document["jobs"]) job["steps"] = 2;
  return document;
}

// Do symmetric ranks of several jobs fold, and regions contract, without a change to any time?
TEST(Jobs, FoldedAndContractedJobsTakeTheTimesOfAllRanks) {
  const Json document = jobs_of_all_kinds();
  const JobsResult folded = simulated(document);
  for (const JobsOptions& options : {JobsOptions{.fold = false}, JobsOptions{.contract = false}}) {
    const JobsResult plain = simulated(document, options);
    for (std::size_t job = 0; job < folded.jobs.size(); ++job)
      for (std::size_t step = 0; step < folded.jobs[job].ends_s.size(); ++step)
        EXPECT_NEAR(folded.jobs[job].ends_s[step], plain.jobs[job].ends_s[step],
                    kAgreement * plain.jobs[job].ends_s[step])
            << job << ", step " << step;
  }
  EXPECT_LT(folded.run.partition->ranks.size(), folded.run.workload->ranks.size());
}

// Does the CPU of a rank issue every step as it issues the first one?
TEST(Jobs, AHostIssuesEveryStepAlike) {
  Json document = jobs_of_all_kinds();
  document["jobs"].erase(2);
  document["jobs"].erase(1);
  document["jobs"][0]["steps"] = 4;
  const JobsResult result = simulated(document);
  Json without = document;
  without["jobs"][0]["scenario"]["host"] = "none";
  const JobResult& job = result.jobs[0];
  EXPECT_GT(job.alone_s, 1.01 * simulated(without).jobs[0].alone_s);
  for (std::size_t step = 0; step < job.ends_s.size(); ++step)
    EXPECT_NEAR(job.ends_s[step], 3e-3 + static_cast<double>(step + 1) * job.alone_s,
                kAgreement * job.ends_s[step]);
}

// Where steps drift against each other without end, is that said, with what was seen?
TEST(Jobs, WithoutARepetitionTheFiguresAreOfTheStepsThatWereSeen) {
  Json document = unequal_jobs();
  const JobsResult result = simulated(document, {.most_steps = 2});
  EXPECT_FALSE(result.repetition);
  for (const JobResult& job : result.jobs) {
    EXPECT_GE(job.steps, 1U);
    EXPECT_LE(job.shortest_s, job.together_s + 1e-12);
    EXPECT_GE(job.longest_s, job.together_s - 1e-12);
  }
}

// Do the shipped files of jobs load, name their source, and run?
TEST(Jobs, ShippedFilesRun) {
  ASSERT_GE(shipped_jobs().size(), 2U);
  for (const std::string& file : shipped_jobs()) {
    SCOPED_TRACE(file);
    const Jobs jobs = load_jobs(file, {});
    EXPECT_FALSE(jobs.description.empty());
    EXPECT_FALSE(jobs.source.empty());
    for (const JobResult& job : simulate_jobs(jobs, {.most_steps = 6}).jobs) {
      EXPECT_GT(job.slowdown(), 1.0 - kAgreement) << job.name;
      EXPECT_LT(job.slowdown(), 3.0) << job.name;
    }
  }
}

// Are all jobs in one trace, on one clock, with their names?
TEST(Jobs, TheTraceShowsAllJobs) {
  const JobsResult result = simulated(shared_uplink());
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").string();
  const TraceCounts counts =
      write_chrome_trace(result.run.view(), file, {.all_ranks = true, .link_counters = false});
  EXPECT_EQ(counts.processes, 4U);
  const std::string text = read_file(file);
  for (const char* name : {"a dp0", "a dp1", "b dp0", "b dp1"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace trainyard
