// Scenarios from configurations of Accelerate with scripts on the Trainer of transformers.
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::accelerate_tests {
namespace {

using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kScript = "accelerate/train.sh";
const std::string kFsdp = "accelerate/fsdp.yaml";

ImportedScenario accelerate(const ImportFile& config,
                            const LaunchMachine& machine = {.node = "dgx_h100"}) {
  return import_accelerate({.files = {config, shipped(kScript)}, .machine = machine});
}

std::string refusal(const ImportFile& config, const ImportFile& script) {
  return test::refusal(import_accelerate,
                       {.files = {config, script}, .machine = {.node = "dgx_h100"}});
}

// Does a hybrid strategy shard over a node?
TEST(Accelerate, AHybridStrategyShardsOverANode) {
  const ImportedScenario made = accelerate(shipped(kFsdp));
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.world(), 16);
  EXPECT_EQ(scenario.cluster.nodes, 2U);
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 3);
  EXPECT_EQ(scenario.plan.parallelism.shard, 8);
  EXPECT_TRUE(scenario.plan.parallelism.backward_prefetch);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::Full);
  EXPECT_EQ(scenario.plan.training.precision, DataType::Bf16);
  EXPECT_EQ(scenario.plan.training.gradient_precision, DataType::Bf16);
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 1);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 64);
  EXPECT_EQ(parameter_count(scenario.plan.architecture), 8'030'261'248);
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(scenario);
}

// Does each strategy shard what it says?
TEST(Accelerate, EachStrategyShardsWhatItSays) {
  const auto plan = [](const char* strategy) {
    return scenario_of(accelerate(changed(kFsdp, "HYBRID_SHARD", strategy))).plan.parallelism;
  };
  EXPECT_EQ(plan("FULL_SHARD").zero_stage, 3);
  EXPECT_EQ(plan("FULL_SHARD").reshard_after_forward, Reshard::Always);
  EXPECT_EQ(plan("FULL_SHARD").shard, 0);
  EXPECT_EQ(plan("SHARD_GRAD_OP").reshard_after_forward, Reshard::Never);
  EXPECT_EQ(plan("NO_SHARD").zero_stage, 0);
  EXPECT_EQ(plan("1").zero_stage, 3);
}

// Are the dimensions of FSDP2 read?
TEST(Accelerate, DimensionsOfFsdp2AreRead) {
  const Scenario scenario = scenario_of(accelerate(shipped("accelerate/fsdp2.yaml")));
  EXPECT_EQ(scenario.plan.parallelism.tensor, 2);
  EXPECT_EQ(scenario.plan.parallelism.data, 4);
  EXPECT_EQ(scenario.plan.parallelism.shard, 2);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::None);
  expect_runs(scenario);
}

// Are replicas, Megatron-LM and DeepSpeed read?
TEST(Accelerate, OtherKindsOfRunsAreRead) {
  const Scenario replicas = scenario_of(accelerate(shipped("accelerate/ddp.yaml")));
  EXPECT_EQ(replicas.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(replicas.plan.parallelism.gradient_buckets, BucketRule::Pytorch);
  const Scenario megatron = scenario_of(accelerate(shipped("accelerate/megatron.yaml")));
  EXPECT_EQ(megatron.framework, "megatron");
  EXPECT_EQ(megatron.plan.parallelism.tensor, 4);
  EXPECT_EQ(megatron.plan.parallelism.pipeline, 2);
  EXPECT_EQ(megatron.plan.parallelism.data, 2);
  EXPECT_EQ(megatron.plan.training.recompute, Recompute::Selective);
  EXPECT_EQ(megatron.plan.training.global_batch_size, 2 * 4 * 4);
  const ImportedScenario zero = accelerate(shipped("accelerate/deepspeed.yaml"));
  EXPECT_EQ(scenario_of(zero).framework, "deepspeed");
  EXPECT_EQ(scenario_of(zero).plan.parallelism.zero_stage, 3);
  EXPECT_EQ(scenario_of(zero).plan.training.global_batch_size, 64);
  EXPECT_THAT(zero.not_looked_at, IsEmpty());
  expect_runs(replicas);
  expect_runs(megatron);
  expect_runs(scenario_of(zero));
}

// Is the precision of a run on DeepSpeed that of the file, or else of the script?
TEST(Accelerate, ThePrecisionOfDeepSpeedComesFromTheFileOrTheScript) {
  const auto with = [](const std::string& line) {
    return changed("accelerate/deepspeed.yaml", "mixed_precision: bf16\n", line);
  };
  const auto imported = [&](const std::string& line) {
    return import_accelerate(
        {.files = {with(line), shipped(kScript)}, .machine = {.node = "dgx_h100"}});
  };
  for (const char* open : {"", "mixed_precision: no\n", "mixed_precision: 'no'\n"})
    EXPECT_EQ(imported(open).scenario["training"]["precision"], "bf16") << open;
  const ImportedScenario fp8 = imported("mixed_precision: fp8\n");
  EXPECT_EQ(fp8.scenario["training"]["precision"], "bf16");
  EXPECT_EQ(fp8.scenario["training"]["recipe"], "fp8_cached");
  EXPECT_THAT(fp8.assumed, testing::Contains("fp8 products have the bytes of Transformer Engine"));
  expect_runs(scenario_of(fp8));
  EXPECT_THAT(refusal(with("mixed_precision: fp16\n"), shipped(kScript)),
              HasSubstr("mixed_precision is fp16, but accelerate/train.sh says --bf16"));
  EXPECT_THAT(refusal(with("mixed_precision: int8\n"), shipped(kScript)),
              HasSubstr("mixed_precision is \"int8\" (it may be no, fp16, bf16 or fp8)"));
}

// Is a configuration of DeepSpeed in a file of its own read?
TEST(Accelerate, AFileOfDeepSpeedIsRead) {
  const ImportFile names = changed("accelerate/deepspeed.yaml", "  zero_stage: 3",
                                   "  deepspeed_config_file: zero3.json");
  EXPECT_THAT(
      refusal(names, shipped(kScript)),
      HasSubstr("names \"zero3.json\", which is not among the files (give that file, too)"));
  const Scenario scenario = scenario_of(
      import_accelerate({.files = {names, shipped(kScript), shipped("deepspeed/zero3.json")},
                         .machine = {.node = "dgx_h100"}}));
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 3);
}

// Do options of `accelerate launch` have precedence over the file?
TEST(Accelerate, OptionsOfTheLauncherHavePrecedence) {
  const Scenario scenario = scenario_of(import_accelerate(
      {.files = {shipped(kFsdp), changed(kScript, "--config_file fsdp.yaml",
                                         "--config_file fsdp.yaml --num_machines 4 "
                                         "--num_processes 32")},
       .machine = {.node = "dgx_h100"}}));
  EXPECT_EQ(scenario.cluster.nodes, 4U);
  EXPECT_EQ(scenario.plan.parallelism.data, 32);
}

// Is what contradicts itself or is missing refused?
TEST(Accelerate, WhatIsWrongIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(changed(kFsdp, "num_processes: 16", "num_processes: 15"), shipped(kScript)),
              HasSubstr("line 21: num_processes is 15, no multiple of 2 machines"));
  EXPECT_THAT(refusal(changed(kFsdp, "HYBRID_SHARD", "SOME"), shipped(kScript)),
              HasSubstr("fsdp_config.fsdp_sharding_strategy is \"SOME\" (it may be FULL_SHARD"));
  EXPECT_THAT(
      refusal(changed(kFsdp, "mixed_precision: bf16", "mixed_precision: fp16"), shipped(kScript)),
      HasSubstr("mixed_precision is fp16, but accelerate/train.sh says --bf16"));
  EXPECT_THAT(
      refusal(changed(kFsdp, "distributed_type: FSDP", "distributed_type: TPU"), shipped(kScript)),
      HasSubstr("distributed_type is \"TPU\""));
  EXPECT_THAT(refusal(changed("accelerate/fsdp2.yaml", "dp_shard_size: 2", "dp_shard_size: 4"),
                      shipped(kScript)),
              HasSubstr("is 4: 2 replicas of 4 shards are not the 4 replicas of 8 GPUs"));
  EXPECT_THAT(
      test::refusal(import_accelerate,
                    {.files = {shipped(kFsdp)},
                     .machine = {.node = "dgx_h100", .sequence = 4096, .model = "llama3-8b"}}),
      HasSubstr("does not say how large a batch is (give the training script"));
}

}  // namespace
}  // namespace trainyard::accelerate_tests
