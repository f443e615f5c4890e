// Is every mistake in a file of jobs reported at its place?
#include <gtest/gtest.h>

#include "tests/scenarios/jobs/shared_uplink.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

TEST(ReadJobs, AScenarioMayBeAFileBesideTheJobs) {
  const TemporaryFolder folder;
  Json scenario = tiny_job();
  scenario["cluster"] = shared_uplink()["cluster"];
  scenario["cluster"]["nodes"] = 2;
  (void)folder.write("tiny.json", scenario.dump());
  Json document = shared_uplink();
  for (auto& job : document["jobs"]) {
    job["scenario"] = "tiny.json";
    job.erase("gpus");
  }
  document["jobs"][1]["set"] = {{"training.global_batch_size", 4}};
  const Jobs jobs = load_jobs(folder.write("jobs.json", document.dump()), {});
  EXPECT_EQ(jobs.all[0].gpus, 2U);
  EXPECT_EQ(jobs.all[0].scenario->plan.training.global_batch_size, 2);
  EXPECT_EQ(jobs.all[1].scenario->plan.training.global_batch_size, 4);
}

TEST(ReadJobs, OverridesReachTheJobs) {
  const Jobs jobs =
      jobs_of(shared_uplink(), {{"jobs.1.start", "\"2 ms\""}, {"jobs.0.priority", "3"}});
  EXPECT_DOUBLE_EQ(jobs.all[1].start.value(), 2e-3);
  EXPECT_DOUBLE_EQ(jobs.all[0].priority, 3.0);
}

TEST(ReadJobs, AnOverrideChangesOneFigureOfANamedNode) {
  const std::string file =
      std::string(TRAINYARD_SOURCE_DIRECTORY) + "/scenarios/jobs/two_llama3_8b_32xh100.json";
  const Jobs jobs = load_jobs(file, {{"cluster.node.nic.usable", "\"10 GB/s\""}});
  EXPECT_DOUBLE_EQ(jobs.cluster.node.nic.value(), 10e9);
}

TEST(ReadJobs, FaultsAreReportedWhereTheyAre) {
  const auto changed = [](const auto& change) {
    Json document = shared_uplink();
    change(document["jobs"]);
    return complaints_of_jobs(document);
  };
  EXPECT_EQ(changed([](Json& jobs) { jobs = Json::array(); }),
            "/jobs: is empty (list at least one job)");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1]["name"] = "a"; }),
            "/jobs/1/name: \"a\" is the name of two jobs");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1].erase("scenario"); }),
            "/jobs/1: has nothing to do (give either \"scenario\" (what it trains) or "
            "\"traffic\")");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1]["placement"] = "pakced"; }),
            "/jobs/1/placement: \"pakced\" is no placement (write one of \"packed\", \"spread\", "
            "{\"fragmented\": SEED}, {\"leaves\": [0]}, {\"nodes\": [0, 1]}, {\"gpus\": [0, 1]} or "
            "{\"with\": JOB})");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1]["scenario"] = "nowhere.json";
              jobs[1]["set"] = {{"training.global_batch_size", 4}};
            }),
            "/jobs/1/scenario: nowhere.json: no such file");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1].erase("scenario");
              jobs[1]["set"] = {{"training.global_batch_size", 4}};
              jobs[1]["traffic"] = {{"pattern", "pairs"}, {"bytes", "1 MB"}, {"every", "1 s"}};
            }),
            "/jobs/1/set: changes a scenario, and traffic has none (leave it out)");
  EXPECT_TRUE(complaints_of_jobs(tiny_job())
                  .starts_with("is one scenario, not several jobs (simulate it alone: trainyard "
                               "run "));
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1]["placement"] = {{"nodes", {0, 3}}};
            }),
            "/jobs/1/placement: another job has GPU 0");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1]["placement"] = {{"with", "a"}};
            }),
            "/jobs/1/placement/with: two jobs cannot compute on one GPU (only traffic runs beside "
            "a job)");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1]["scenario"]["training"]["recompute"] = "some"; }),
            "/training/recompute: must be one of none, selective, full, not \"some\"");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1]["priority"] = 0; }),
            "/jobs/1/priority: must be more than 0, not 0");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1]["scenario"]["collectives"]["nccl"] = {{"version", "2.20"}};
            }),
            "/jobs/1/scenario: its NCCL settings differ from those of job \"a\" (give all jobs the "
            "same \"collectives.nccl\" and \"collectives.profile\")");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[0]["scenario"]["power"] = {{"pue", 1.1}};
              jobs[1]["scenario"]["power"] = Json::object();
            }),
            "/jobs/1/scenario: its power.pue, nodes_per_rack, price_per_kwh or kg_co2_per_kwh "
            "differs from that of job \"a\" (give all jobs the same building in their blocks "
            "\"power\")");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[0]["scenario"]["power"] = {{"price_per_kwh", 0.1}};
              jobs[1]["scenario"]["power"] = {{"price_per_kwh", 0.2}};
            }),
            "/jobs/1/scenario: its power.pue, nodes_per_rack, price_per_kwh or kg_co2_per_kwh "
            "differs from that of job \"a\" (give all jobs the same building in their blocks "
            "\"power\")");
  EXPECT_EQ(changed([](Json& jobs) { jobs[1]["scenario"]["engine"] = "ideal"; }),
            "/jobs/1/scenario: its engine is \"ideal\", and that of all jobs \"simgrid\" (set "
            "\"engine\": \"ideal\" beside \"jobs\")");
  EXPECT_EQ(
      changed([](Json& jobs) {
        jobs[0]["scenario"]["power"] = {{"clock_tolerance", 0.01}};
      }),
      "/jobs/0/scenario: has \"power.clock_tolerance\", which looks for the clocks of one job "
      "(set \"power.stage_clocks\" to those that `trainyard run` finds)");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1].erase("scenario");
              jobs[1]["traffic"] = {{"pattern", "pairs"}, {"bytes", "1 MB"}, {"every", "0 s"}};
            }),
            "/jobs/1/traffic/every: must be more than 0 s, not \"0 s\" (give the time between two "
            "messages)");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1].erase("scenario");
              jobs[1]["traffic"] = {{"pattern", "pairs"}, {"bytes", "0 B"}, {"every", "1 s"}};
            }),
            "/jobs/1/traffic/bytes: must be more than 0 B, not \"0 B\" (give the size of a "
            "message)");
  EXPECT_EQ(changed([](Json& jobs) {
              jobs[1].erase("scenario");
              jobs[1]["traffic"] = {
                  {"pattern", "pairs"}, {"bytes", "1 MB"}, {"every", "1 s"}, {"servers", 1}};
            }),
            "/jobs/1/traffic/servers: pairs has none (leave them out, or choose all_to_one or "
            "one_to_all)");
}

// Is each fault of a field reported once, with its value, and all faults of a file together?
TEST(ReadJobs, AFaultOfAFieldIsReportedOnceWithItsValue) {
  const auto changed = [](const auto& change) {
    Json document = shared_uplink();
    change(document);
    return complaints_of_jobs(document);
  };
  EXPECT_EQ(changed([](Json& file) { file.erase("jobs"); }),
            "/jobs: is missing (list at least one job)");
  EXPECT_EQ(changed([](Json& file) { file["jobs"] = "a"; }),
            "/jobs: must be an array of objects, not \"a\"");
  EXPECT_EQ(changed([](Json& file) { file["jobs"][0]["gpus"] = 5; }),
            "/jobs/0/gpus: is 5, and the cluster has 4 GPUs (give at most as many)");
  // A faulty cluster has no number of GPUs to compare with.
  EXPECT_EQ(changed([](Json& file) {
              file["cluster"]["fabric"]["kind"] = "fat_tre";
              file["jobs"][0]["gpus"] = 500;
            }).find("/jobs"),
            std::string::npos);
  EXPECT_EQ(changed([](Json& file) {
              file["jobs"][0]["placement"] = {{"nodes", {0}}, {"gpus", {0}}};
            }),
            "/jobs/0/placement: says it twice: nodes, gpus (write one of \"packed\", \"spread\", "
            "{\"fragmented\": SEED}, {\"leaves\": [0]}, {\"nodes\": [0, 1]}, {\"gpus\": [0, 1]} or "
            "{\"with\": JOB})");
  EXPECT_EQ(changed([](Json& file) {
              file["jobs"][0]["placement"] = {{"nodes", {0, 0}}};
            }),
            "/jobs/0/placement/nodes: [0,0] is not a list of different numbers (count from 0, such "
            "as [0, 2])");
  EXPECT_EQ(changed([](Json& file) { file["jobs"][0]["priorty"] = 2; }),
            "/jobs/0/priorty: unknown key (did you mean \"priority\"?)");
  EXPECT_EQ(changed([](Json& file) {
              file["jobs"][1].erase("scenario");
              file["jobs"][1]["steps"] = 0;
              file["jobs"][1]["start"] = 3;
              file["jobs"][1]["traffic"] = {{"bytes", "1 MB"}, {"every", 2}};
            }),
            "/jobs/1/start: must be a time with its unit such as \"2 us\", not 3 (units: ns, us, "
            "ms, s, min, h)\n"
            "/jobs/1/steps: must be between 1 and 10000, not 0\n"
            "/jobs/1/traffic/pattern: is missing (it must be one of ring, pairs, all_to_all, "
            "all_to_one, one_to_all)\n"
            "/jobs/1/traffic/every: must be a time with its unit such as \"2 us\", not 2 (units: "
            "ns, us, ms, s, min, h)");
}

}  // namespace
}  // namespace trainyard
