// Scenarios that are written as a launch of Megatron-LM and imported. The result must be the same
// scenario, on any number of GPUs with whole replicas, and every other number must be refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "scenarios/import/megatron.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::int64_t kWorldMost = 1024;
const fs::path kTree = TRAINYARD_SOURCE_DIRECTORY;
const std::string kShipped = (kTree / "tests/scenarios/import/pretrain_gpt.sh").string();

// The GPUs of a node, so that all nodes have the same number.
std::int64_t per_node(std::int64_t world) {
  std::int64_t gpus = 8;
  while (world % gpus != 0) --gpus;
  return gpus;
}

std::string model_flags(const Architecture& m) {
  return fmt::format(
      "--num-layers {} --hidden-size {} --num-attention-heads {} --ffn-hidden-size {} "
      "--vocab-size {} --max-position-embeddings {} {} ",
      m.layers, m.hidden, m.heads, m.ffn, m.vocab, m.max_positions,
      m.dropout ? "" : "--hidden-dropout 0 --attention-dropout 0");
}

std::string parallelism_flags(const Parallelism& p) {
  std::string flags = fmt::format(
      "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} ", p.tensor, p.pipeline);
  if (p.sequence_parallel) flags += "--sequence-parallel ";
  if (p.interleave > 1)
    flags += fmt::format("--num-virtual-stages-per-pipeline-rank {} ", p.interleave);
  if (!p.overlap_p2p) flags += "--no-overlap-p2p-communication ";
  if (p.overlap_grad_reduce) flags += "--overlap-grad-reduce ";
  if (p.bucket_parameters > 0) flags += fmt::format("--ddp-bucket-size {} ", p.bucket_parameters);
  return flags;
}

// `batch`: sequences of one replica.
std::string training_flags(const Training& t, std::int64_t batch) {
  std::string flags = fmt::format(
      "--seq-length {} --micro-batch-size {} --global-batch-size {} --fp16 "
      "--make-vocab-size-divisible-by {} ",
      t.sequence_length, t.micro_batch_size, batch, t.vocab_multiple);
  if (t.gradient_precision != DataType::Fp16) flags += "--accumulate-allreduce-grads-in-fp32 ";
  if (t.recompute == Recompute::Full)
    flags += "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ";
  if (t.recompute == Recompute::Selective) flags += "--recompute-activations ";
  if (t.attention == AttentionKind::Unfused) flags += "--transformer-impl local ";
  return flags;
}

std::string launch_line(const TrainingPlan& plan, std::int64_t world, std::int64_t batch) {
  return fmt::format("torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py {}{}{}",
                     per_node(world), world / per_node(world), model_flags(plan.architecture),
                     parallelism_flags(plan.parallelism), training_flags(plan.training, batch));
}

ImportedScenario imported(const std::string& text,
                          const std::map<std::string, std::string>& defined) {
  return scenario_of_megatron(read_launch_arguments(text, "run.sh", defined),
                              {.node = "dgx_a100_80gb"});
}

std::string world_refusal(const std::string& text,
                          const std::map<std::string, std::string>& defined) {
  try {
    (void)imported(text, defined);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

// Whether this world size is also run. All of them are imported; the long check runs all of them.
bool is_run(std::int64_t world, std::int64_t replica) {
  if (std::getenv("TRAINYARD_FULL") != nullptr) return true;
  const std::int64_t replicas = world / replica;
  return replicas <= 3 || world + replica > kWorldMost;
}

// The resolved scenario without settings that no flag of Megatron-LM 0.12 expresses: it scatters no
// activations between stages, and the rest is the behaviour of releases of 2021 and 2022. The world
// size is compared separately.
Json without_what_no_flag_says(const Scenario& scenario) {
  Json all = resolved(scenario);
  Json kept{
      {"model", all["model"]}, {"parallelism", all["parallelism"]}, {"training", all["training"]}};
  for (const char* key : {"name", "source"}) kept["model"].erase(key);
  for (const char* key : {"scatter_gather", "overlap_tensor", "data"})
    kept["parallelism"].erase(key);
  // Settings without effect: no weights are gathered if the optimizer state is whole, and one stage
  // sends nothing.
  if (kept["parallelism"]["zero_stage"] == 0) kept["parallelism"].erase("overlap_param_gather");
  if (kept["parallelism"]["pipeline"] == 1) kept["parallelism"].erase("overlap_p2p");
  for (const char* key : {"gradient_average", "global_batch_size"}) kept["training"].erase(key);
  return kept;
}

// Does every Megatron scenario import and run at every world size of whole replicas?
TEST(RoundTrip, EveryScenarioOfMegatronImportsAndRunsAtEveryWorldOfWholeReplicas) {
  int scenarios = 0;
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(kTree / "scenarios/megatron")) {
    const Scenario scenario = load_scenario(entry.path().string(), {});
    const TrainingPlan& plan = scenario.plan;
    const std::string name = entry.path().stem().string();
    const std::int64_t replica = plan.world() / plan.parallelism.data;
    const std::int64_t batch = plan.training.global_batch_size / plan.parallelism.data;
    ++scenarios;
    for (std::int64_t world = 1; world <= kWorldMost; ++world) {
      const std::string line =
          launch_line(plan, world, batch * std::max<std::int64_t>(1, world / replica));
      if (world % replica != 0) {
        ASSERT_THAT(
            world_refusal(line, {}),
            HasSubstr(fmt::format("{} GPUs are not divisible by tensor {} x pipeline {}", world,
                                  plan.parallelism.tensor, plan.parallelism.pipeline)));
        continue;
      }
      const ImportedScenario launch = imported(line, {});
      ASSERT_EQ(launch.scenario["parallelism"]["data"], world / replica) << name << " " << world;
      ASSERT_TRUE(launch.not_looked_at.empty()) << fmt::format("{}", launch.not_looked_at.front());
      if (!is_run(world, replica)) continue;
      const Scenario made = read_scenario_document(name, launch.scenario);
      ASSERT_EQ(made.plan.world(), world);
      const Json differs =
          Json::diff(without_what_no_flag_says(scenario), without_what_no_flag_says(made));
      ASSERT_TRUE(differs.empty()) << name << " " << world << " " << differs;
      EXPECT_GT(simulate(made, {}).timeline.makespan_s, 0.0) << name << " " << world;
      ++runs;
    }
  }
  EXPECT_EQ(scenarios, 18);
  EXPECT_GT(runs, 50);
}

// Does the script of the repository run at every world size of whole replicas?
TEST(RoundTrip, TheShippedScriptRunsAtEveryWorldOfWholeReplicas) {
  const std::string script = read_file(kShipped);
  constexpr std::int64_t kReplica = 64;
  int runs = 0;
  for (std::int64_t nodes = 1; nodes <= kWorldMost / 8; ++nodes) {
    const std::map<std::string, std::string> defined{
        {"NNODES", std::to_string(nodes)},
        {"GLOBAL_BATCH", std::to_string(8 * std::max<std::int64_t>(nodes, 8))}};
    if (nodes * 8 % kReplica != 0) {
      ASSERT_THAT(world_refusal(script, defined),
                  HasSubstr("are not divisible by tensor 8 x pipeline 8"));
      continue;
    }
    const ImportedScenario launch = imported(script, defined);
    const Scenario made = read_scenario_document("run.sh", launch.scenario);
    ASSERT_EQ(made.plan.parallelism.data, nodes / 8);
    EXPECT_GT(simulate(made, {}).timeline.makespan_s, 0.0) << nodes;
    ++runs;
  }
  EXPECT_EQ(runs, kWorldMost / kReplica);
}

// Is a batch that the replicas cannot share refused with its field? At 24 nodes Megatron-LM itself
// refuses the script's batch of 64.
TEST(RoundTrip, ABatchThatReplicasCannotShareIsRefusedWithItsPlace) {
  const ImportedScenario launch = imported(read_file(kShipped), {{"NNODES", "24"}});
  try {
    (void)read_scenario_document("made.json", launch.scenario);
    FAIL() << "taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("made.json: /training/global_batch_size: 64 sequences do not divide into "
                          "microbatches of 1 on 3 replicas"));
  }
}

}  // namespace
}  // namespace trainyard
