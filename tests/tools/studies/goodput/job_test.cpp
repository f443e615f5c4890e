// A scenario with a reliability block as a job: rates of components, bytes of checkpoints, the step
// with fewer replicas.
#include "tools/studies/goodput/run/job.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/reliability/checkpoint_interval.hpp"
#include "scenarios/reader/reliability.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/stage_summary.hpp"
#include "tests/scenarios/sample.hpp"
#include "tests/tools/studies/goodput/refusal.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"
#include "tools/studies/goodput/scenario_job.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Two nodes of eight H100, one replica each.
Json two_nodes() {
  return parse_unchecked_json(R"({
    "model": { "name": "small", "layers": 4, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192,
               "max_positions": 512 },
    "cluster": { "node": "dgx_h100", "nodes": 2, "fabric": { "kind": "rail_optimized" } },
    "parallelism": { "tensor": 8, "data": 2 },
    "training": { "sequence_length": 512, "global_batch_size": 8 },
    "engine": "ideal",
    "reliability": {
      "failures": [
        { "cause": "GPU", "events": 1, "component_days": 1000 },
        { "cause": "node", "component": "node", "events": 1, "component_days": 1000 },
        { "cause": "NIC", "component": "nic", "events": 1, "component_days": 1000,
          "detect": "7 s" },
        { "cause": "software", "component": "job", "events": 1, "component_days": 1000 }
      ],
      "checkpoint": { "bytes": "1 TB", "write_rate": "100 GB/s", "read_rate": "50 GB/s",
                      "interval": "1 h" },
      "recovery": { "detect": "60 s", "start": "2 min" },
      "spares": { "nodes": 1, "replace": "30 s", "repair": "24 h" }
    }
  })");
}

TEST(Job, HasTheRatesOfItsComponents) {
  Memo memo;
  const Job job = job_of(load(two_nodes()), memo);
  // 16 GPUs, 2 nodes, 16 NICs, one job; each fails once in 1000 days.
  const std::vector<double> counts{16, 2, 16, 1};
  ASSERT_EQ(job.causes.size(), counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_NEAR(job.causes[i].rate, counts[i] / (1000 * 86400.0), 1e-18);
  EXPECT_NEAR(job.mtbf_s(), 1000 * 86400.0 / 35, 1e-3);
  EXPECT_EQ(job.causes[0].detect_s, 60);
  EXPECT_EQ(job.causes[2].detect_s, 7);
  EXPECT_EQ(job.gpus, 24);  // with the spare node
}

// 1 TB at 100 GB/s stops training for 10 s, and is read in 20 s at 50 GB/s. With a stall of its own
// it is written in 10 s beside training.
TEST(Job, HasTheTimesOfItsCheckpoint) {
  Memo memo;
  Json document = two_nodes();
  const Job job = job_of(load(document), memo);
  EXPECT_DOUBLE_EQ(job.storage().stall_s, 10);
  EXPECT_DOUBLE_EQ(job.storage().write_s, 0);
  EXPECT_DOUBLE_EQ(job.storage().load_s, 20);
  EXPECT_NEAR(static_cast<double>(job.storage().interval_steps) * job.step_s, 3600, job.step_s);
  EXPECT_THAT(job.absent, testing::ElementsAre("diagnose", "communicator_init", "warm_up"));
  document["reliability"]["checkpoint"]["stall"] = "500 ms";
  const Job asynchronous = job_of(load(document), memo);
  EXPECT_DOUBLE_EQ(asynchronous.storage().stall_s, 0.5);
  EXPECT_DOUBLE_EQ(asynchronous.storage().write_s, 10);
}

// Are phases named as not given only where something takes their time?
TEST(Job, NamesOnlyPhasesThatSomethingNeeds) {
  Memo memo;
  Json document = two_nodes();
  Json& reliability = document["reliability"];
  reliability["recovery"] = {{"start", "1 s"}, {"communicator_init", "1 s"}, {"warm_up", "1 s"}};
  reliability["checkpoint"].erase("read_rate");
  const auto absent = [&] { return job_of(load(document), memo).absent; };
  EXPECT_THAT(absent(), testing::ElementsAre("detect", "diagnose", "load"));
  reliability["checkpoint"]["node_rate"] = "10 GB/s";
  for (Json& failure : reliability["failures"]) failure["detect"] = "7 s";
  EXPECT_THAT(absent(), testing::ElementsAre("diagnose"));
  for (Json& failure : reliability["failures"]) failure["diagnose"] = "8 s";
  reliability["failures"].push_back({{"cause", "upgrade"},
                                     {"kind", "planned"},
                                     {"component", "job"},
                                     {"events", 1},
                                     {"component_days", 1000}});
  EXPECT_TRUE(absent().empty());
}

// Has the job the price of the block `power`, as `run` has?
TEST(Job, HasThePriceOfTheScenario) {
  Memo memo;
  Json document = two_nodes();
  EXPECT_FALSE(job_of(load(document), memo).gpu_hour_price);
  document["power"] = {{"price_per_gpu_hour", 2.5}};
  EXPECT_EQ(job_of(load(document), memo).gpu_hour_price, 2.5);
  document["power"] = {{"price_preset", "aws_p5_on_demand"}};
  const Job preset = job_of(load(document), memo);
  EXPECT_EQ(preset.gpu_hour_price, 12.29);
  EXPECT_THAT(preset.price_source, testing::StartsWith("price preset: 12.29 USD"));
  document["power"] = {{"capital_per_gpu", 35'064.0}, {"capital_years", 4.0}};
  const Job bought = job_of(load(document), memo);
  EXPECT_DOUBLE_EQ(bought.gpu_hour_price.value(), 1.0);
  EXPECT_EQ(bought.price_source, "capital over its years, without electricity");
}

// Weights in 2 bytes, master weights and two moments in 4 bytes each: 14 bytes for each parameter.
// Llama 3 405B has 405 853 388 800 of them: 5.682 TB.
TEST(Job, WritesWeightsAndOptimizerState) {
  Json document = sample();
  document["model"] = "llama3-405b";
  document["training"]["precision"] = "bf16";
  document["parallelism"] = {{"tensor", 8}, {"pipeline", 2}, {"data", 4}};
  EXPECT_DOUBLE_EQ(checkpoint_bytes(load(document)), 14.0 * 405853388800.0);
}

TEST(Job, WithOneReplicaFewerIsSimulated) {
  Memo memo;
  Json document = two_nodes();
  document["reliability"]["policy"] = "elastic";
  const Job job = job_of(load(document), memo);
  EXPECT_EQ(job.replicas, 2);
  EXPECT_DOUBLE_EQ(job.nodes_per_replica, 1.0);
  EXPECT_EQ(job.replicas_lost(1), 1);
  EXPECT_EQ(job.replicas_lost(5), 2);
  // One replica alone has no gradients to reduce, so its step of half the batch is shorter.
  EXPECT_LT(job.step_in({.replicas_lost = 1}), job.step_s);
  EXPECT_GT(job.step_in({.replicas_lost = 1}), 0.5 * job.step_s);
}

// Replicas of 12 GPUs on nodes of 8: do two leave together, since one would leave half a node?
TEST(Job, ReplicasLeaveInWholeNodes) {
  Memo memo;
  Json document = two_nodes();
  document["model"]["layers"] = 6;
  document["cluster"]["nodes"] = 6;
  document["parallelism"] = {{"tensor", 4}, {"pipeline", 3}, {"data", 4}};
  document["reliability"]["policy"] = "elastic";
  const Job job = job_of(load(document), memo);
  EXPECT_EQ(job.replica_unit, 2);
  EXPECT_EQ(job.replicas_lost(1), 2);
  EXPECT_EQ(job.replicas_lost(4), 4);
  EXPECT_GT(job.step_in({.replicas_lost = 2}), 0.0);
}

// Twins do the same work. Is the MFU that of both?
TEST(Job, OfTwinsHasHalfTheMfu) {
  Memo memo;
  Json document = two_nodes();
  const Job alone = job_of(load(document), memo);
  document["reliability"]["policy"] = "mirrored";
  const Job twins = job_of(load(document), memo);
  EXPECT_EQ(twins.nodes(), 2 * alone.nodes());
  EXPECT_GT(alone.mfu, 0.0);
  EXPECT_DOUBLE_EQ(twins.mfu, alone.mfu / 2.0);
}

// GPUs that lose half of their speed for an hour.
Json slow_gpus() {
  return Json::array({{{"component", "gpu"},
                       {"cause", "heat"},
                       {"events", 1},
                       {"component_days", 1e4},
                       {"kind", "degrading"},
                       {"rate_left", 0.5},
                       {"duration", "1 h"}}});
}

// Is a slow GPU slow alone? All others wait for it, but communication takes the time that it took.
TEST(Job, WithASlowGpuIsSimulated) {
  Memo memo;
  Json document = two_nodes();
  document["reliability"]["failures"] = slow_gpus();
  const Job job = job_of(load(document), memo);
  const double slow_s = job.step_in({.slow = {{.cause = 0, .stage = 0}}});
  EXPECT_GT(slow_s, 1.2 * job.step_s);
  EXPECT_LT(slow_s, 2.0 * job.step_s);
}

// Where shares are balanced, does the replica with the slow GPU get less work, and the step lose
// less? Two replicas of speeds 1 and s share the work of two in 2/(1 + s), and not in 1/s.
TEST(Job, SharesTheWorkAgainWhereAGpuIsSlow) {
  Memo memo;
  Json document = two_nodes();
  document["training"]["global_batch_size"] = 64;
  document["reliability"]["failures"] = slow_gpus();
  const JobState state{.slow = {{.cause = 0, .stage = 0}}};
  const Job equal = job_of(load(document), memo);
  document["parallelism"]["balance"] = "auto";
  const Job balanced = job_of(load(document), memo);
  EXPECT_NEAR(balanced.step_s, equal.step_s, 1e-9 * equal.step_s);
  const double slow_s = equal.step_in(state);
  EXPECT_LT(balanced.step_in(state), 0.9 * slow_s);
  EXPECT_GT(balanced.step_in(state), equal.step_s);
}

// Two stages, of three layers and of one.
Json two_stages() {
  Json document = two_nodes();
  document["parallelism"] = {{"tensor", 8}, {"pipeline", 2}, {"layers_per_stage", {3, 1}}};
  document["reliability"]["failures"] = slow_gpus();
  return document;
}

// Is the slow GPU one of its stage wherever the ranks are placed?
TEST(Job, SlowsAGpuOfTheStageWhereverItIs) {
  Memo memo;
  Json document = two_stages();
  const Job in_order = job_of(load(document), memo);
  document["parallelism"]["placement"] = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7};
  const Job exchanged = job_of(load(document), memo);
  const JobState first{.slow = {{.cause = 0, .stage = 0}}};
  const JobState second{.slow = {{.cause = 0, .stage = 1}}};
  EXPECT_GT(in_order.step_in(first), 1.1 * in_order.step_in(second));
  EXPECT_NEAR(exchanged.step_in(first), in_order.step_in(first), 1e-12);
  EXPECT_NEAR(exchanged.step_in(second), in_order.step_in(second), 1e-12);
}

// Where layers are balanced, do they move to the other stage and back, and never otherwise?
TEST(Job, MovesLayersFromTheStageWithASlowGpu) {
  Memo memo;
  Json document = two_stages();
  const JobState slow{.slow = {{.cause = 0, .stage = 0}}};
  EXPECT_EQ(job_of(load(document), memo).move_s({}, slow), 0.0);
  document["parallelism"].erase("layers_per_stage");
  document["parallelism"]["balance"] = "auto";
  // Large enough for a slow GPU to cost more than the latencies of the collectives.
  document["model"]["layers"] = 16;
  document["model"]["hidden"] = 8192;
  document["model"]["ffn"] = 32768;
  document["model"]["heads"] = 64;
  document["training"] = {{"sequence_length", 512}, {"global_batch_size", 32}};
  const Job job = job_of(load(document), memo);
  EXPECT_GT(job.move_s({}, slow), 0.0);
  EXPECT_EQ(job.move_s({}, slow), job.move_s(slow, {}));
  EXPECT_EQ(job.move_s(slow, slow), 0.0);
}

// The same two nodes, device by device, as a user writes them.
Json two_custom_nodes() {
  Json document = two_nodes();
  const std::shared_ptr<const Cluster> drawn = shared_cluster(load(document).cluster);
  document["cluster"] = to_custom_json(*drawn);
  return document;
}

// Does a cluster that a user describes device by device have the parts, the step and the slow steps
// of the preset that it copies?
TEST(Job, OfACustomClusterIsThatOfTheSameNodes) {
  Memo memo;
  Json document = two_custom_nodes();
  Json preset = two_nodes();
  const Json slow = Json::array({{{"cause", "heat"},
                                  {"component", "gpu"},
                                  {"kind", "degrading"},
                                  {"events", 1},
                                  {"component_days", 1e4},
                                  {"rate_left", 0.5},
                                  {"duration", "1 h"}},
                                 {{"cause", "port"},
                                  {"component", "nic"},
                                  {"kind", "degrading"},
                                  {"events", 1},
                                  {"component_days", 1e4},
                                  {"rate_left", 0.5},
                                  {"duration", "1 h"}}});
  for (Json* one : {&document, &preset}) (*one)["reliability"]["failures"] = slow;
  const Job job = job_of(load(document), memo);
  const Job same = job_of(load(preset), memo);
  EXPECT_NEAR(job.step_s, same.step_s, 1e-9 * same.step_s);
  EXPECT_EQ(job.gpus, same.gpus);
  EXPECT_EQ(job.nodes(), same.nodes());
  for (const std::size_t cause : {0U, 1U}) {
    const JobState state{.slow = {{.cause = cause, .stage = 0}}};
    EXPECT_DOUBLE_EQ(job.causes[cause].rate, same.causes[cause].rate);
    EXPECT_NEAR(job.step_in(state), same.step_in(state), 1e-9 * same.step_s) << cause;
  }
  EXPECT_GT(job.step_in({.slow = {{.cause = 0, .stage = 0}}}), 1.2 * job.step_s);
}

// Does a custom cluster with a slow GPU train less in weeks? Steps are slow for an hour after each
// of 16 GPUs' events, one in 2000 s.
TEST(Job, OfACustomClusterWithASlowGpuTrainsLess) {
  Memo memo;
  Json document = two_custom_nodes();
  document["reliability"]["failures"] = Json::array({{{"cause", "heat"},
                                                      {"kind", "degrading"},
                                                      {"events", 16.0 / 17'000 * 86'400},
                                                      {"component_days", 16.0 * 16},
                                                      {"rate_left", 0.5},
                                                      {"duration", "1000 s"}}});
  const Job job = job_of(load(document), memo);
  EXPECT_NEAR(job.causes[0].rate, 1.0 / 17'000, 1e-9);
  const double slow_s = job.step_in({.slow = {{.cause = 0, .stage = 0}}});
  const SampledRun run = sampled_run(job, {.wall_s = 5e6}, 7, 0);
  // The number of slow GPUs is Poisson with mean 1/17, and all of them are as slow together.
  const double slow_share = -std::expm1(-1.0 / 17);
  EXPECT_NEAR(run.phase(RunPhase::Degraded) / run.wall_s, slow_share * (1 - job.step_s / slow_s),
              0.2 * slow_share);
}

// Does a write beside training share the NICs of the nodes with the step? Two nodes of eight NICs
// of 48.5 GB/s write 500 GB each: in 2.58 s half of the NICs' rate is left, in 1 s too, since flows
// share fairly, and in 1000 s nearly all of it. A given drag has precedence.
TEST(Job, AWriteBesideTrainingSharesTheNics) {
  Memo memo;
  const auto drag_of = [&memo](const char* write, const char* drag) {
    Json document = two_nodes();
    Json& checkpoint = document["reliability"]["checkpoint"];
    checkpoint["stall"] = "0.1 s";
    checkpoint["write"] = write;
    if (drag != nullptr) checkpoint["drag"] = drag;
    return job_of(load(document), memo).storage().drag_s;
  };
  Json halved = two_nodes();
  for (int nic = 0; nic < 8; ++nic)
    halved["cluster"]["faults"].push_back({{"rail", nic}, {"capacity_factor", 0.5}});
  const double whole_s = job_of(load(two_nodes()), memo).step_s;
  const double lost = 1.0 - whole_s / job_of(load(halved), memo).step_s;
  EXPECT_GT(lost, 0.0);
  EXPECT_NEAR(drag_of("1 s", nullptr), 1.0 * lost, 1e-9);
  EXPECT_NEAR(drag_of("2 s", nullptr), 2.0 * lost, 1e-9);
  EXPECT_LT(drag_of("1000 s", nullptr), 10.0 * lost);
  EXPECT_EQ(drag_of("2 s", "0.5 s"), 0.5);
}

// Does the write delay a phase by as much as it delays a job of that phase's batch? The phase that
// trains as the job does is delayed as the job is.
TEST(Job, AWriteDelaysEachPhaseByItsOwnTime) {
  Memo memo;
  Json document = two_nodes();
  Json& checkpoint = document["reliability"]["checkpoint"];
  checkpoint["stall"] = "0.1 s";
  checkpoint["write"] = "1 s";
  document["training"]["global_batch_size"] = 64;
  const double of_large = job_of(load(document), memo).storage().drag_s;
  document["training"]["global_batch_size"] = 8;
  const double of_small = job_of(load(document), memo).storage().drag_s;
  EXPECT_GT(of_small, 1.1 * of_large);  // its gradients are a larger part of its step
  document["reliability"]["phases"] = parse_unchecked_json(
      R"([{ "from_tokens": 0, "global_batch_size": 8 },
          { "from_tokens": 1e9, "global_batch_size": 64 }])");
  const Job job = job_of(load(document), memo);
  ASSERT_EQ(job.phases.size(), 2U);
  EXPECT_DOUBLE_EQ(job.drag_of(0, 0), of_small);
  EXPECT_DOUBLE_EQ(job.drag_of(1, 0), of_large);
  document["reliability"]["checkpoint"]["drag"] = "0.25 s";
  EXPECT_EQ(job_of(load(document), memo).drag_of(1, 0), 0.25);
}

TEST(Job, ReplicasOfANodeAreLostTogether) {
  Job job;
  job.replicas = 16;
  job.nodes_per_replica = 0.125;  // eight replicas on a node
  EXPECT_EQ(job.replicas_lost(1), 8);
  job.nodes_per_replica = 4;  // a replica on four nodes
  EXPECT_EQ(job.replicas_lost(1), 1);
  EXPECT_EQ(job.replicas_lost(4), 1);
  EXPECT_EQ(job.replicas_lost(5), 2);
}

// The optimum for stalls of 10 s and M = 1000 days/35 = 2 468 571 s is near sqrt(2 x 10 x M) =
// 7026 s.
TEST(Job, TakesTheOptimalInterval) {
  Memo memo;
  Json document = two_nodes();
  document["reliability"]["checkpoint"].erase("interval");
  const Job job = job_of(load(document), memo);
  EXPECT_TRUE(job.optimal_interval);
  EXPECT_NEAR(static_cast<double>(job.storage().interval_steps) * job.step_s, 7026, 10);
}

// The optimum counts what training loses to a checkpoint, the drag of its write too, and the
// failures that read storage: here 1 of 35 where a copy in memory survives the loss of a node.
TEST(Job, TakesTheOptimalIntervalOfWhatStorageIsReadFor) {
  Memo memo;
  Json document = two_nodes();
  Json& checkpoint = document["reliability"]["checkpoint"];
  checkpoint = {{"stall", "10 s"}, {"write", "50 s"}, {"drag", "30 s"}};
  const auto optimum = [&] {
    const Job job = job_of(load(document), memo);
    return static_cast<double>(job.storage().interval_steps) * job.step_s;
  };
  const double mtbf = 1000 * 86400.0 / 35;
  EXPECT_NEAR(optimum(), reliability::exact_interval(40, mtbf), 1);
  document["reliability"]["failures"].push_back({{"cause", "wrong"},
                                                 {"kind", "silent"},
                                                 {"component", "job"},
                                                 {"events", 1},
                                                 {"component_days", 1000},
                                                 {"detect", "1 min"}});
  checkpoint["near"] = {
      {{"name", "memory"}, {"copies", 2}, {"interval_steps", 10}, {"stall", "0 s"}}};
  EXPECT_NEAR(optimum(), reliability::exact_interval(40, 1000 * 86400.0), 1);
}

// With the forward of the next stage in every step, does a slow GPU slow the longer step?
TEST(Job, OfRedundantStagesWithASlowGpuIsSlowerThanWithout) {
  Memo memo;
  Json document = two_nodes();
  document["parallelism"] = {{"tensor", 8}, {"pipeline", 2}};
  document["reliability"]["failures"] = slow_gpus();
  document["reliability"]["policy"] = "redundant";
  const Job job = job_of(load(document), memo);
  EXPECT_GT(job.policy_step_s, 1.1 * job.step_s);
  EXPECT_GT(job.step_in({.slow = {{.cause = 0, .stage = 0}}}), 1.1 * job.policy_step_s);
}

// Weights and optimizer state that two replicas share do not fit into the memory of one. The job
// says of itself what does not fit.
TEST(Job, KnowsWhatDoesNotFit) {
  Memo memo;
  Json document = two_nodes();
  document["parallelism"]["zero_stage"] = 1;
  document["model"]["layers"] = 64;
  document["model"]["ffn"] = 16384;
  const auto job_with = [&](const char* memory) {
    Json node = parse_unchecked_json(read_file(data_file("topologies/data", "dgx_h100")));
    node["gpu_memory"] = {{"usable", memory}};
    document["cluster"]["node"] = node;
    return job_of(load(document), memo);
  };
  const Job roomy = job_with("80 GiB");
  EXPECT_EQ(roomy.memory_problem, "");
  EXPECT_TRUE(roomy.trains_without(1));
  const Result run = simulate(load(document), {}, memo);
  const std::int64_t peak = stage_memory(run.view()).front().peak.bytes;
  const Job tight = job_with(fmt::format("{} B", peak + 1'000'000).c_str());
  EXPECT_EQ(tight.memory_problem, "");
  EXPECT_FALSE(tight.trains_without(1));
  const Job larger = job_with("1 GiB");
  EXPECT_THAT(larger.memory_problem, HasSubstr("DOES NOT FIT"));
  EXPECT_TRUE(larger.trains_without(1)) << "the report has said it of the whole job";
}

// A fault of a node that a smaller job does not have leaves with it.
TEST(Job, WithFewerReplicasLacksTheFaultsOfTheOthers) {
  Memo memo;
  Json document = two_nodes();
  document["reliability"]["policy"] = "elastic";
  const double sound = job_of(load(document), memo).step_in({.replicas_lost = 1});
  for (const int node : {0, 1}) {
    document["cluster"]["faults"] = {
        {{"device", fmt::format("node {} gpu 0", node)}, {"speed_factor", 0.5}}};
    const double step_s = job_of(load(document), memo).step_in({.replicas_lost = 1});
    EXPECT_EQ(step_s > 1.2 * sound, node == 0);
  }
}

// A fault that names no node is one of the smaller job, too, even where nodes hold ranks of two
// replicas.
TEST(Job, WithFewerReplicasKeepsFaultsOfRails) {
  Memo memo;
  Json document = two_nodes();
  document["cluster"]["nodes"] = 4;
  document["parallelism"] = {{"tensor", 4}, {"pipeline", 2}, {"data", 4}};
  document["reliability"]["policy"] = "elastic";
  document["cluster"]["faults"] = {{{"rail", 0}, {"capacity_factor", 0.5}}};
  EXPECT_GT(job_of(load(document), memo).step_in({.replicas_lost = 1}), 0.0);
  document["cluster"]["faults"] = {{{"device", "node 0 gpu 0"}, {"speed_factor", 0.5}}};
  EXPECT_THAT([&] { (void)job_of(load(document), memo).step_in({.replicas_lost = 1}); },
              ThrowsMessage<InputError>(HasSubstr("nodes hold ranks of several replicas")));
}

// Does a smaller job on unequal nodes have the nodes of the replicas that stay? Node 1 is of
// another kind. Under Megatron's order it holds replica 1; placed first, it holds replica 0.
TEST(Job, WithFewerReplicasKeepsTheNodesOfTheOthers) {
  Memo memo;
  Json document = two_nodes();
  document["reliability"]["policy"] = "elastic";
  const double of_h100 = job_of(load(document), memo).step_in({.replicas_lost = 1});
  document["cluster"]["others"] = {{{"nodes", {1}}, {"node", "dgx_a100_80gb"}}};
  EXPECT_NEAR(job_of(load(document), memo).step_in({.replicas_lost = 1}), of_h100, 1e-12);
  document["parallelism"]["node_order"] = {"dgx_a100_80gb", "dgx_h100"};
  EXPECT_GT(job_of(load(document), memo).step_in({.replicas_lost = 1}), 1.2 * of_h100);
}

// Which stages do slow GPUs slow? Nodes 0 and 1 hold stages 0 and 1 of both replicas, as Megatron
// numbers ranks, so each is slow as often as the other.
TEST(Job, SlowGpusAreOfAllStages) {
  Memo memo;
  Json document = two_nodes();
  document["parallelism"] = {{"tensor", 4}, {"pipeline", 2}, {"data", 2}};
  document["reliability"]["failures"] = slow_gpus();
  Job job = job_of(load(document), memo);
  ASSERT_NE(job.stage_of_gpu, nullptr);
  EXPECT_EQ((*job.stage_of_gpu)[7], 0);
  EXPECT_EQ((*job.stage_of_gpu)[8], 1);
  job.causes.front().rate = 1e-4;
  job.causes.front().duration_s = 10;
  std::map<std::int64_t, int> asked;
  job.step_in = [&](const JobState& state) {
    for (const SlowPart& one : state.slow) ++asked[one.stage];
    return job.step_s;
  };
  (void)sampled_run(job, {.wall_s = 1e7}, 3, 0);
  EXPECT_NEAR(asked[0], asked[1], 150);
  EXPECT_GT(asked[0], 350);
}

TEST(Job, RefusesWhatCannotBe) {
  Json document = two_nodes();
  document["cluster"]["faults"] = {
      {{"device", "node 0 gpu 0"}, {"speed_factor", 0.5}, {"from", "1 s"}}};
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("/cluster/faults/0: has dates"));
  document = two_nodes();
  document["reliability"]["recovery"]["start_per_doubling"] = "1 s";
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("/reliability/recovery/gpus: is missing"));
  document = two_nodes();
  document["reliability"]["checkpoint"]["near"] = {
      {{"name", "memory"}, {"copies", 3}, {"interval_steps", 10}, {"stall", "0 s"}}};
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("3 copies need as many nodes"));
  document = two_nodes();
  document["reliability"]["checkpoint"] = {
      {"stall", "1 s"}, {"write", "50 s"}, {"interval_steps", 1}};
  EXPECT_THAT(test::refusal_of_job(document),
              HasSubstr("a write of 50 s is longer than the interval of 1 steps"));
  document["reliability"]["failures"] = Json::array();
  document["reliability"]["checkpoint"] = {{"stall", "1 s"}};
  EXPECT_THAT(test::refusal_of_job(document),
              HasSubstr("without failures no interval is the best"));
  document = two_nodes();
  document["reliability"]["pauses"] = {{{"cause", "limit"}, {"limit", "0 s"}}};
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("is no time in which the job could train"));
  document = two_nodes();
  document["reliability"]["spares"] = Json::object();
  document["reliability"]["failures"] = slow_gpus();
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("failed nodes are never replaced"));
  document["reliability"]["failures"][0]["replaces_node"] = false;
  EXPECT_EQ(test::refusal_of_job(document), "");
  document.erase("reliability");
  EXPECT_THAT(test::refusal_of_job(document), HasSubstr("the scenario does not say what fails"));
}

// Every preset is read, names its sources, and has as many interruptions a day as its publication.
TEST(ReliabilityPresets, HaveTheirPublishedRates) {
  const std::map<std::string, std::pair<double, double>> nodes_and_rates{
      {"llama3", {2048, 466.0 / 54}},  // interruptions a day, 47 planned ones included
      {"rsc1", {2048, 2048 * 6.5e-3}},
      {"rsc2", {1024, 1024 * 2.34e-3}},
      {"byterobust", {1200, 175.0 / 91}},
      {"bloom", {48, 1.0 / 7 + 4.0 / 108}},
      {"opt", {128, 2}},
      // 3000 GPUs below 375 leaves, a month of 30.44 days.
      {"hpn", {375, (3000 * 0.057e-2 + 375 * 0.051e-2) / 30.44}}};
  EXPECT_EQ(reliability_presets().size(), nodes_and_rates.size());
  for (const auto& [name, expected] : nodes_and_rates) {
    const Reliability preset = load_reliability(name);
    double a_day = 0.0;
    for (const FailureProcess& failure : preset.failures) {
      const double parts = failure.component == FailingComponent::Job ? 1
                           : failure.component == FailingComponent::Node ||
                                   failure.component == FailingComponent::Leaf
                               ? expected.first
                               : expected.first * 8;
      a_day += failure.rate_per_component_s() * 86400 * parts;
      EXPECT_FALSE(failure.source.empty()) << name << " " << failure.cause;
    }
    EXPECT_NEAR(a_day, expected.second, 1e-9 * expected.second) << name;
    EXPECT_FALSE(preset.checkpoint.source.empty()) << name;
  }
}

// A block replaces the fields of its preset, and is written out in full.
TEST(ReliabilityPresets, AreReplacedFieldByField) {
  Json document = two_nodes();
  document["reliability"] = {{"preset", "llama3"}, {"recovery", {{"start", "60 s"}}}};
  const Scenario scenario = load(document);
  ASSERT_TRUE(scenario.reliability.has_value());
  EXPECT_EQ(scenario.reliability->recovery.start, Seconds{60});
  EXPECT_EQ(scenario.reliability->recovery.detect, Seconds{10});
  EXPECT_EQ(scenario.reliability->failures.size(), 19U);
  EXPECT_EQ(load(resolved(scenario)).reliability, scenario.reliability);
}

}  // namespace
}  // namespace trainyard
