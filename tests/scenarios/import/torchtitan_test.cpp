// Scenarios from job configurations of torchtitan.
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::torchtitan_tests {
namespace {

using Json = nlohmann::ordered_json;
using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kSmall = "torchtitan/llama3_8b.toml";
constexpr const char* kLarge = "torchtitan/llama3_70b_pipeline.toml";

ImportedScenario titan(const ImportFile& file, const LaunchMachine& machine) {
  return import_torchtitan({.files = {file}, .machine = machine});
}

std::string refusal(const ImportFile& file,
                    const LaunchMachine& machine = {.node = "grand_teton_h100", .nodes = 1}) {
  return test::refusal(import_torchtitan, {.files = {file}, .machine = machine});
}

// Does the configuration of a run give the scenario that a person wrote of the same run?
TEST(Torchtitan, AnFsdpRunIsTheScenarioThatAPersonWrote) {
  const ImportedScenario made = titan(shipped(kSmall), {.node = "grand_teton_h100", .nodes = 1});
  const Scenario imported = scenario_of(made);
  const Scenario written =
      load_scenario(TRAINYARD_SOURCE_DIRECTORY "/scenarios/fsdp/llama3_8b_8xh100_fsdp.json", {});
  EXPECT_EQ(imported.plan.training, written.plan.training);
  EXPECT_EQ(imported.plan.architecture, written.plan.architecture);
  EXPECT_EQ(imported.plan.parallelism, written.plan.parallelism);
  EXPECT_EQ(imported.framework, "torchtitan");
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(imported);
}

// Are the degrees of every kind of parallelism, the schedule, recomputation and float8 read?
TEST(Torchtitan, EveryKindOfParallelismIsRead) {
  const ImportedScenario made = titan(shipped(kLarge), {.node = "grand_teton_h100"});
  const Scenario scenario = scenario_of(made);
  const Parallelism& p = scenario.plan.parallelism;
  EXPECT_EQ(scenario.plan.world(), 128);
  EXPECT_EQ(p.tensor, 8);
  EXPECT_TRUE(p.sequence_parallel);
  EXPECT_TRUE(p.chunked_tensor);
  EXPECT_EQ(p.pipeline, 4);
  EXPECT_EQ(p.interleave, 2);
  EXPECT_EQ(p.schedule, "interleaved_1f1b");
  EXPECT_EQ(p.data, 4);
  EXPECT_EQ(p.shard, 2);
  EXPECT_EQ(p.zero_stage, 3);
  // 80 layers, embedding and head as one each: 82 over 8 stages, the first two take one more.
  EXPECT_THAT(p.layers_per_stage, ElementsAre(10, 11, 10, 10, 10, 10, 10, 9));
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 1);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 32);
  EXPECT_EQ(made.scenario["training"]["recompute"], "full");
  EXPECT_EQ(made.scenario["training"]["recipe"], "fp8");
  EXPECT_EQ(parameter_count(scenario.plan.architecture), 70'553'706'496);
  EXPECT_TRUE(scenario.plan.training.compiled);
  EXPECT_THAT(made.not_looked_at, Contains("parallelism.some_new_switch"));
  EXPECT_EQ(made.not_looked_at.size(), 3U) << fmt::format("{}", fmt::join(made.not_looked_at, " "));
  expect_runs(scenario);
}

// Are the sections of 2024 read?
TEST(Torchtitan, SectionsOfEarlierReleasesAreRead) {
  const ImportFile old{.name = "old.toml",
                       .text =
                           "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                           "[training]\nbatch_size = 4\nseq_len = 4096\ncompile = false\n"
                           "data_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n"
                           "[experimental]\ncontext_parallel_degree = 2\n"
                           "enable_async_tensor_parallel = true\n"
                           "[activation_checkpoint]\nmode = \"selective\"\n"
                           "selective_ac_option = \"2\"\n"};
  const Scenario scenario = scenario_of(titan(old, {.node = "dgx_h100"}));
  EXPECT_EQ(scenario.plan.parallelism.context, 2);
  EXPECT_EQ(scenario.plan.parallelism.context_exchange, ContextExchange::AllGather);
  EXPECT_EQ(scenario.plan.parallelism.data, 4);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 16);
  EXPECT_EQ(scenario.plan.training.recompute_num_layers, 2);
  expect_runs(scenario);
}

// Are experts, plain replicas and accumulation read?
TEST(Torchtitan, ExpertsReplicasAndAccumulationAreRead) {
  const std::string batch = "[training]\nlocal_batch_size = 1\nglobal_batch_size = 32\n";
  const auto plan = [&](const std::string& model, const std::string& rest) {
    const ImportFile file{.name = "t.toml", .text = "[model]\n" + model + "\n" + batch + rest};
    return scenario_of(titan(file, {.node = "dgx_h100"})).plan;
  };
  const TrainingPlan experts =
      plan("name = \"qwen3\"\nflavor = \"30B-A3B\"",
           "[parallelism]\ndata_parallel_shard_degree = 16\nexpert_parallel_degree = 8\n");
  EXPECT_EQ(experts.parallelism.expert, 8);
  EXPECT_EQ(experts.parallelism.data, 16);
  EXPECT_TRUE(experts.parallelism.reduce_every_microbatch);
  EXPECT_EQ(experts.training.global_batch_size, 32);
  const ImportFile bare{.name = "t.toml", .text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"};
  EXPECT_THAT(titan(bare, {.node = "dgx_h100", .nodes = 1}).assumed,
              Contains("torchtitan's defaults say what the file leaves out: "
                       "training.local_batch_size 8, training.seq_len 2048, "
                       "activation_checkpoint.mode selective, every second layer"));
  const TrainingPlan replicas =
      plan("name = \"llama3\"\nflavor = \"8B\"",
           "[parallelism]\ndata_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8\n");
  EXPECT_EQ(replicas.parallelism.zero_stage, 0);
  EXPECT_EQ(replicas.parallelism.data, 8);
  EXPECT_EQ(replicas.training.micro_batch_size, 1);
}

// Does mixed precision need FSDP beside tensor or pipeline parallelism? Without FSDP, torchtitan
// has autocast for plain replicas only, so the weights' own type counts.
TEST(Torchtitan, MixedPrecisionBesideTensorRanksNeedsFsdp) {
  const auto imported = [](const std::string& training, const std::string& parallelism) {
    const ImportFile file{.name = "t.toml",
                          .text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n" +
                                  training + "[parallelism]\ndata_parallel_shard_degree = 1\n" +
                                  parallelism};
    return titan(file, {.node = "dgx_h100"});
  };
  const auto precision = [&](const std::string& training, const std::string& parallelism) {
    return scenario_of(imported(training, parallelism)).plan.training.precision;
  };
  const std::string tensor = "tensor_parallel_degree = 8\n";
  EXPECT_EQ(precision("", tensor), DataType::Fp32);
  EXPECT_EQ(precision("", "pipeline_parallel_degree = 8\n"), DataType::Fp32);
  EXPECT_EQ(precision("dtype = \"bfloat16\"\n", tensor), DataType::Bf16);
  EXPECT_EQ(precision("", tensor + "context_parallel_degree = 2\n"), DataType::Bf16);
  EXPECT_EQ(precision("", "data_parallel_replicate_degree = 8\n"), DataType::Bf16);
  const std::string sentence =
      "training.mixed_precision_param has no effect: torchtitan disables mixed precision where "
      "tensor or pipeline parallelism runs without FSDP";
  EXPECT_THAT(imported("", tensor).assumed, Contains(sentence));
  EXPECT_THAT(imported("mixed_precision_param = \"float32\"\n", tensor).assumed,
              Not(Contains(sentence)));
  EXPECT_THAT(imported("dtype = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n", tensor)
                  .not_looked_at,
              IsEmpty());
}

// Is the model compiled only where the components of the compilation hold it?
TEST(Torchtitan, CompilationOfTheLossAloneLeavesTheModel) {
  const auto imported = [](const std::string& components) {
    const ImportFile file{.name = "t.toml",
                          .text =
                              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[compile]\n"
                              "enable = true\n" +
                              components};
    return titan(file, {.node = "dgx_h100", .nodes = 1});
  };
  const std::string sentence =
      "compilation has no effect: compile.components does not name the model";
  for (const char* both : {"", "components = [\"model\", \"loss\"]\n"}) {
    EXPECT_EQ(imported(both).scenario["training"]["compiled"], true) << both;
    EXPECT_THAT(imported(both).assumed, Not(Contains(sentence))) << both;
  }
  const ImportedScenario loss = imported("components = [\"loss\"]\n");
  EXPECT_EQ(loss.scenario["training"]["compiled"], false);
  EXPECT_THAT(loss.assumed, Contains(sentence));
}

// May the name of a pipeline's schedule have any case, as for torch.distributed?
TEST(Torchtitan, NamesOfSchedulesHaveAnyCase) {
  for (const char* name : {"Interleaved1F1B", "interleaved1f1b"})
    EXPECT_EQ(titan({.name = "t.toml",
                     .text = fmt::format("[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                         "[parallelism]\npipeline_parallel_degree = 4\n"
                                         "pipeline_parallel_schedule = \"{}\"\n",
                                         name)},
                    {.node = "dgx_h100", .nodes = 1})
                  .scenario["parallelism"]["schedule"],
              "interleaved_1f1b");
}

// Do the tensor ranks divide the experts where there is no expert parallelism? The experts' own
// degree has an effect beside expert parallelism only.
TEST(Torchtitan, WithoutExpertParallelismTheTensorRanksDivideTheExperts) {
  const auto parallelism = [](const std::string& rest) {
    const ImportFile file{.name = "t.toml",
                          .text =
                              "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[parallelism]\n"
                              "data_parallel_shard_degree = 4\ntensor_parallel_degree = 4\n" +
                              rest};
    return scenario_of(titan(file, {.node = "dgx_h100"})).plan.parallelism;
  };
  const Parallelism plain = parallelism("");
  EXPECT_EQ(parallelism("expert_tensor_parallel_degree = 1\n"), plain);
  EXPECT_EQ(plain.expert_tensor, 0);
  EXPECT_EQ(parallelism("expert_parallel_degree = 8\n").expert_tensor, 1);
  EXPECT_EQ(
      parallelism("expert_parallel_degree = 4\nexpert_tensor_parallel_degree = 4\n").expert_tensor,
      4);
}

// Is what contradicts itself or is not known refused, with its line?
TEST(Torchtitan, WhatIsWrongIsRefusedWithItsLine) {
  EXPECT_THAT(
      refusal(changed(kSmall, "\"8B\"", "\"9B\"")),
      HasSubstr("llama3_8b.toml: line 17: model.flavor is \"9B\" of model \"llama3\", whose "
                "shape is not known (known are deepseek_v3 671B"));
  EXPECT_THAT(refusal(changed(kSmall, "flavor = \"8B\"", "")),
              HasSubstr("model.flavor is not there"));
  EXPECT_THAT(refusal(changed(kSmall, "local_batch_size = 2", "local_batch_size = \"two\"")),
              HasSubstr("line 29: training.local_batch_size is \"two\", which is no number"));
  EXPECT_THAT(refusal(changed(kSmall, "seq_len = 8192", "seq_len = 8192\nglobal_batch_size = 30")),
              HasSubstr("is 30, no multiple of a local batch of 2 x 8 replicas"));
  EXPECT_THAT(refusal(changed(kSmall, "mode = \"selective\"", "mode = \"memory_budget\"")),
              HasSubstr("activation_checkpoint.mode is \"memory_budget\""));
  EXPECT_THAT(refusal(changed(kLarge, "Interleaved1F1B", "LoopedBFS"), {.node = "dgx_h100"}),
              HasSubstr("is \"LoopedBFS\", which is not simulated (simulated are 1F1B,"));
  EXPECT_THAT(refusal(changed(kSmall, "tensor_parallel_degree = 1", "tensor_parallel_degree = 3")),
              HasSubstr("8 GPUs are not divisible by tensor 3"));
  EXPECT_THAT(refusal(changed(kSmall, "tensor_parallel_degree = 1", "tensor_parallel_degree = 0")),
              HasSubstr("tensor_parallel_degree is 0 (it must be at least 1)"));
  EXPECT_THAT(refusal(shipped(kSmall), {.node = "dgx_h100"}), HasSubstr("on how many nodes"));
  EXPECT_THAT(refusal(shipped(kSmall), {.node = "dgx_h100", .nodes = 1, .model = "llama9"}),
              HasSubstr("model llama9: \"llama9\" is not one of"));
}

}  // namespace
}  // namespace trainyard::torchtitan_tests
