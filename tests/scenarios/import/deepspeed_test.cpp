// Scenarios from configurations of DeepSpeed with scripts on the Trainer of transformers.
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::deepspeed_tests {
namespace {

using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kScript = "deepspeed/train.sh";
const std::string kZero3 = "deepspeed/zero3.json";
const std::string kZero2 = "deepspeed/zero2_offload.json";
const std::string kHalf = "deepspeed/train_fp16.sh";

std::string refusal(const ImportFile& config, const ImportFile& script,
                    const LaunchMachine& machine = {.node = "dgx_a100_80gb"}) {
  return test::refusal(import_deepspeed, {.files = {config, script}, .machine = machine});
}

// Are "auto" values taken from the script?
TEST(DeepSpeed, AutomaticValuesComeFromTheScript) {
  const ImportedScenario made = import_deepspeed(
      {.files = {shipped(kZero3), shipped(kScript)}, .machine = {.node = "dgx_a100_80gb"}});
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.world(), 16);
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 3);
  EXPECT_TRUE(scenario.plan.parallelism.overlap_grad_reduce);
  EXPECT_EQ(scenario.plan.parallelism.bucket_parameters, 4096 * 4096);
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 2);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 2 * 4 * 16);
  EXPECT_EQ(scenario.plan.training.sequence_length, 4096);
  EXPECT_EQ(scenario.plan.training.precision, DataType::Bf16);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::Full);
  EXPECT_TRUE(scenario.plan.training.gradient_clipping);
  EXPECT_EQ(parameter_count(scenario.plan.architecture), 8'030'261'248);
  EXPECT_THAT(made.not_looked_at, ElementsAre("--a-new-flag"));
  expect_runs(scenario);
}

// Is the accumulation worked out from the other two sizes, and the optimizer offloaded?
TEST(DeepSpeed, TheThirdBatchSizeFollowsFromTwo) {
  const ImportedScenario made =
      import_deepspeed({.files = {shipped(kZero2), shipped(kHalf)},
                        .machine = {.node = "dgx_a100_80gb", .nodes = 1}});
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 2);
  EXPECT_EQ(scenario.plan.parallelism.bucket_parameters, 200'000'000);
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 4);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 64);
  EXPECT_EQ(scenario.plan.training.precision, DataType::Fp16);
  EXPECT_EQ(scenario.plan.offload.optimizer, OffloadedOptimizer::Cpu);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("llama2-7b")));
  EXPECT_THAT(made.not_looked_at, Contains("a_new_section.level"));
  const ImportedScenario bare = import_deepspeed(
      {.files = {shipped(kZero3),
                 changed(kScript, "--per_device_train_batch_size 2 --gradient_accumulation_steps 4",
                         "")},
       .machine = {.node = "dgx_a100_80gb"}});
  EXPECT_EQ(bare.scenario["training"]["micro_batch_size"], 8);
  EXPECT_THAT(bare.assumed, Contains("--per-device-train-batch-size is the Trainer's default, 8"));
  expect_runs(scenario);
}

// Are offloaded weights, copies within a node and sequences shared by ranks read?
TEST(DeepSpeed, OffloadedWeightsAndSharedSequencesAreRead) {
  const auto imported = [](const std::string& from, const std::string& to) {
    return scenario_of(import_deepspeed({.files = {changed(kZero3, from, to), shipped(kScript)},
                                         .machine = {.node = "dgx_a100_80gb"}}))
        .plan;
  };
  const TrainingPlan offloaded = imported("\"stage\": 3,",
                                          "\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}, "
                                          "\"offload_optimizer\": {\"device\": \"nvme\"},");
  EXPECT_TRUE(offloaded.offload.weights);
  EXPECT_EQ(offloaded.offload.optimizer, OffloadedOptimizer::Cpu);
  EXPECT_EQ(imported("\"stage\": 3,", "\"stage\": 3, \"zero_hpz_partition_size\": 8,")
                .parallelism.reshard_group,
            8);
  const TrainingPlan shared = imported("\"steps_per_print\": 100,",
                                       "\"sequence_parallel_size\": 4, \"steps_per_print\": 100,");
  EXPECT_EQ(shared.parallelism.context, 4);
  EXPECT_EQ(shared.parallelism.data, 4);
  EXPECT_EQ(shared.parallelism.context_exchange, ContextExchange::AllToAll);
}

// Are adapters on a model in four bits read?
TEST(DeepSpeed, AdaptersAreRead) {
  const ImportFile script =
      changed(kScript, "--bf16 True", "--bf16 True --use_peft --lora_r 32 --load_in_4bit");
  const ImportedScenario made =
      import_deepspeed({.files = {changed(kZero3, "\"stage\": 3", "\"stage\": 1"), script},
                        .machine = {.node = "dgx_a100_80gb"}});
  EXPECT_EQ(made.scenario["training"]["lora_rank"], 32);
  EXPECT_EQ(made.scenario["training"]["frozen_weights"], "nf4");
}

// Does a switch decide about adapters where the script states one? Scripts keep the rank beside it.
TEST(DeepSpeed, ASwitchDecidesAboutAdapters) {
  const auto training = [](const std::string& flags) {
    return import_deepspeed(
               {.files = {shipped(kZero3), changed(kScript, "--bf16 True", "--bf16 True " + flags)},
                .machine = {.node = "dgx_a100_80gb"}})
        .scenario["training"];
  };
  for (const char* off : {"--finetuning_type full", "--use_peft False", "--use_lora no",
                          "--use_peft_lora false", "--use_peft False --use_lora 0"})
    EXPECT_FALSE(training(std::string(off) + " --lora_rank 8 --lora_r 16").contains("lora_rank"))
        << off;
  EXPECT_EQ(training("--lora_rank 16")["lora_rank"], 16);
  EXPECT_EQ(training("--finetuning_type lora")["lora_rank"], 8);
  EXPECT_EQ(training("--use_peft False --use_lora True --lora_r 4")["lora_rank"], 4);
}

// Are the words for no those of the Trainer? What follows a flag may also be the next command.
TEST(DeepSpeed, WordsForNoAreThoseOfTheTrainer) {
  const auto recompute = [](const std::string& word) {
    return import_deepspeed(
               {.files = {shipped(kZero3), changed(kScript, "--gradient_checkpointing True",
                                                   "--gradient_checkpointing " + word)},
                .machine = {.node = "dgx_a100_80gb"}})
        .scenario["training"]["recompute"];
  };
  for (const char* no : {"no", "No", "n", "f", "FALSE", "false", "0"})
    EXPECT_EQ(recompute(no), "none") << no;
  for (const char* yes : {"yes", "TRUE", "true", "t", "y", "1", "\necho done", "| tee log"})
    EXPECT_EQ(recompute(yes), "full") << yes;
}

// Does a config.json give a model whose name is not known?
TEST(DeepSpeed, AConfigJsonGivesTheModel) {
  const ImportFile script = changed(kScript, "meta-llama/Meta-Llama-3-8B", "me/my-model");
  EXPECT_THAT(refusal(shipped(kZero3), script),
              HasSubstr("train.sh: trains \"me/my-model\", whose shape is not known here (give the "
                        "path of its config.json with --model)"));
  const Scenario scenario =
      scenario_of(import_deepspeed({.files = {shipped(kZero3), script},
                                    .machine = {.node = "dgx_a100_80gb",
                                                .model = TRAINYARD_SOURCE_DIRECTORY
                                                "/tests/scenarios/import/hf/qwen2_5_7b.json"}}));
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("qwen2.5-7b")));
}

// Are contradictions refused with both values?
TEST(DeepSpeed, ContradictionsAreRefusedWithBothValues) {
  EXPECT_THAT(refusal(changed(kZero3, "\"train_micro_batch_size_per_gpu\": \"auto\"",
                              "\"train_micro_batch_size_per_gpu\": 4"),
                      shipped(kScript)),
              HasSubstr("train_micro_batch_size_per_gpu is 4, but --per-device-train-batch-size of "
                        "deepspeed/train.sh is 2"));
  EXPECT_THAT(
      refusal(changed(kZero3, "\"train_batch_size\": \"auto\"", "\"train_batch_size\": 100"),
              shipped(kScript)),
      HasSubstr("train_batch_size is 100, but 2 of a microbatch x 4 of accumulation x 16 "
                "replicas are 128"));
  EXPECT_THAT(refusal(changed(kZero3, "\"bf16\": { \"enabled\": \"auto\" }",
                              "\"fp16\": { \"enabled\": true }"),
                      shipped(kScript)),
              HasSubstr("makes the run fp16, but deepspeed/train.sh says --bf16"));
  EXPECT_THAT(refusal(changed(kZero2, "\"train_batch_size\": 64", "\"train_batch_size\": 60"),
                      shipped(kHalf), {.node = "dgx_a100_80gb", .nodes = 1}),
              HasSubstr("train_batch_size is 60, no multiple of 4 x 8 replicas"));
}

// Are the hosts and GPUs read that the launcher's --include lists?
TEST(DeepSpeed, TheListedGpusAreTheCluster) {
  const auto imported = [](const std::string& sizes, const LaunchMachine& machine) {
    return import_deepspeed(
        {.files = {shipped(kZero3),
                   changed(kScript, "--num_nodes 2 --num_gpus 8 --hostfile hosts.txt", sizes)},
         .machine = machine});
  };
  const ImportedScenario local = imported("--include localhost:0,1,2,3", {.node = "dgx_a100_80gb"});
  EXPECT_EQ(scenario_of(local).plan.world(), 4);
  EXPECT_EQ(local.scenario["cluster"]["nodes"], 1);
  EXPECT_THAT(local.not_looked_at, ElementsAre("--a-new-flag"));
  EXPECT_EQ(scenario_of(imported("--include a:0,1@b:0,1", {.node = "dgx_a100_80gb"})).plan.world(),
            4);
  EXPECT_THAT(imported("--include a:0,1", {.node = "dgx_a100_80gb", .nodes = 2}).not_looked_at,
              ElementsAre("--a-new-flag", "--include"));
  EXPECT_THAT(
      refusal(shipped(kZero3), changed(kScript, "--num_nodes 2 --num_gpus 8 --hostfile hosts.txt",
                                       "--include $HOSTS")),
      HasSubstr("--include is \"$HOSTS\", which only the shell could work out"));
}

// Is what is missing or wrong refused?
TEST(DeepSpeed, WhatIsMissingIsRefused) {
  EXPECT_THAT(refusal(shipped(kZero3), changed(kScript, "--max_seq_length 4096", "")),
              HasSubstr("does not say how many tokens a sequence has (add --sequence 4096"));
  EXPECT_THAT(refusal(shipped(kZero3), changed(kScript, "--model_name_or_path $MODEL", "")),
              HasSubstr("says nothing of the model"));
  EXPECT_THAT(refusal(changed(kZero3, "\"stage\": 3", "\"stage\": 4"), shipped(kScript)),
              HasSubstr("zero_optimization.stage is 4 (it may be 0 to 3)"));
  EXPECT_THAT(refusal(changed(kZero3, "\"stage\": 3,", "\"stage\": 3,,"), shipped(kScript)),
              HasSubstr("zero3.json: line 4"));
  EXPECT_THAT(test::refusal(import_deepspeed, {.files = {shipped(kZero3)},
                                               .machine = {.node = "dgx_a100_80gb", .nodes = 1}}),
              HasSubstr("the script: says nothing of the model"));
  EXPECT_THAT(test::refusal(import_deepspeed,
                            {.files = {shipped(kScript)}, .machine = {.node = "dgx_a100_80gb"}}),
              HasSubstr("is no configuration of DeepSpeed"));
}

}  // namespace
}  // namespace trainyard::deepspeed_tests
