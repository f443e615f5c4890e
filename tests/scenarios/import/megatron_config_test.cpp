// Scenarios from Megatron's settings as YAML: --yaml-cfg, Megatron-Bridge, NeMo 2 and NeMo 1.
#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/megatron.hpp"
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::megatron_config_tests {
namespace {

using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kYaml = "megatron_yaml/llama3_8b.yaml";
constexpr const char* kBridge = "nemo/bridge_llama3_70b.yaml";

ImportedScenario nemo(const ImportFile& file, const LaunchMachine& machine) {
  return import_nemo({.files = {file}, .machine = machine});
}

// Does a YAML file of Megatron-LM give the scenario that a script with the same arguments gives?
TEST(MegatronConfig, AYamlFileIsTheScriptWithTheSameArguments) {
  const LaunchMachine machine{.node = "dgx_h100", .nodes = 4};
  const ImportedScenario yaml =
      import_megatron_yaml({.files = {shipped(kYaml)}, .machine = machine});
  const std::string script =
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --ffn-hidden-size 14336 --hidden-dropout 0 --attention-dropout 0 "
      "--disable-bias-linear --swiglu --normalization RMSNorm --recompute-granularity selective "
      "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
      "--num-virtual-stages-per-pipeline-rank 4 --sequence-parallel --bf16 --micro-batch-size 1 "
      "--global-batch-size 128 --untie-embeddings-and-output-weights "
      "--position-embedding-type rope --max-position-embeddings 8192 --overlap-grad-reduce "
      "--overlap-param-gather --use-distributed-optimizer --vocab-size 128256 --seq-length 8192";
  const ImportedScenario launch =
      scenario_of_megatron(read_launch_arguments(script, "run.sh"), machine);
  for (const char* section : {"model", "cluster", "parallelism", "training"})
    EXPECT_EQ(yaml.scenario[section], launch.scenario[section]) << section;
  EXPECT_THAT(yaml.not_looked_at, ElementsAre("a_new_setting"));
  const Scenario scenario = scenario_of(yaml);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("llama3-8b")));
  expect_runs(scenario);
}

// Is the pattern that the error about another one recommends taken in YAML too?
TEST(MegatronConfig, AYamlFileMayHaveAPatternOfExpertsInParentheses) {
  ImportFile file = shipped(kYaml);
  const std::string none = "num_moe_experts: null";
  const std::size_t at = file.text.find(none);
  ASSERT_NE(at, std::string::npos);
  file.text.replace(at, none.size(),
                    "num_moe_experts: 8\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 4096\n"
                    "  moe_layer_freq: ([0]*3+[1]*29)");
  const ImportedScenario yaml =
      import_megatron_yaml({.files = {file}, .machine = {.node = "dgx_h100", .nodes = 4}});
  EXPECT_EQ(yaml.scenario["model"]["dense_layers"], 3);
}

// Is a printed configuration of Megatron-Bridge read?
TEST(MegatronConfig, AConfigurationOfMegatronBridgeGivesItsScenario) {
  const ImportedScenario made = nemo(shipped(kBridge), {.node = "dgx_h100", .nodes = 8});
  const Scenario scenario = scenario_of(made);
  const Parallelism& p = scenario.plan.parallelism;
  EXPECT_EQ(scenario.framework, "megatron_bridge");
  EXPECT_EQ(scenario.plan.world(), 64);
  EXPECT_EQ(p.tensor, 4);
  EXPECT_TRUE(p.sequence_parallel);
  EXPECT_TRUE(p.chunked_tensor);
  EXPECT_EQ(p.pipeline, 4);
  EXPECT_EQ(p.interleave, 5);
  EXPECT_EQ(p.context, 2);
  EXPECT_EQ(p.data, 2);
  EXPECT_EQ(p.zero_stage, 1);
  EXPECT_TRUE(p.overlap_grad_reduce);
  EXPECT_TRUE(p.overlap_param_gather);
  EXPECT_TRUE(p.overlap_p2p);
  const Training& t = scenario.plan.training;
  EXPECT_EQ(t.micro_batch_size, 1);
  EXPECT_EQ(t.global_batch_size, 128);
  EXPECT_EQ(t.precision, DataType::Bf16);
  EXPECT_EQ(t.gradient_precision, DataType::Bf16);
  EXPECT_EQ(t.recompute, Recompute::None);
  EXPECT_TRUE(t.fused_loss);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("llama3-70b")));
  EXPECT_THAT(made.not_looked_at, ElementsAre("model.cross_entropy_fusion_impl"));
  expect_runs(scenario);
}

// Do settings that are off stay off, whatever the framework's recipes do?
TEST(MegatronConfig, SettingsThatAreOffStayOff) {
  ImportFile file =
      changed(kBridge, "cross_entropy_loss_fusion: true", "cross_entropy_loss_fusion: false");
  file.text.replace(file.text.find("grad_reduce_in_fp32: false"), 26, "grad_reduce_in_fp32: true");
  file.text.replace(file.text.rfind("grad_reduce_in_fp32: false"), 26, "grad_reduce_in_fp32: true");
  file.text.replace(file.text.find("overlap_param_gather: true"), 26,
                    "overlap_param_gather: false");
  const Scenario scenario = scenario_of(nemo(file, {.node = "dgx_h100", .nodes = 8}));
  EXPECT_FALSE(scenario.plan.training.fused_loss);
  EXPECT_EQ(scenario.plan.training.gradient_precision, DataType::Fp32);
  EXPECT_FALSE(scenario.plan.parallelism.overlap_param_gather);
}

// Are a layout of the pipeline, fp8, 16-bit moments and MTP layers read?
TEST(MegatronConfig, LayoutsPrecisionsAndMomentsAreRead) {
  ImportFile file = changed(kBridge, "virtual_pipeline_model_parallel_size: 5",
                            "virtual_pipeline_model_parallel_size: 5\n"
                            "  pipeline_model_parallel_layout: Et*3|(tttt|)*18t*5L");
  const auto set = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(file.text.find(from), std::string::npos) << from;
    file.text.replace(file.text.find(from), from.size(), to);
  };
  set("  fp8: null", "  fp8: hybrid");
  set("  optimizer: adam\n",
      "  optimizer: adam\n  use_precision_aware_optimizer: true\n"
      "  exp_avg_dtype: {_call_: false, _target_: torch.bfloat16}\n"
      "  exp_avg_sq_dtype: {_call_: false, _target_: torch.bfloat16}\n");
  const ImportedScenario made = nemo(file, {.node = "dgx_h100", .nodes = 8});
  const auto& stages = made.scenario["parallelism"]["layers_per_stage"];
  ASSERT_EQ(stages.size(), 20U);
  EXPECT_EQ(stages[0], 3);
  EXPECT_EQ(stages[1], 4);
  EXPECT_EQ(stages[19], 5);
  EXPECT_EQ(made.scenario["training"]["recipe"], "fp8_cached");
  EXPECT_EQ(made.scenario["training"]["optimizer"], "adam_16bit_moments");
}

// Is the name of a recipe of Megatron-Bridge read in place of its settings?
TEST(MegatronConfig, ARecipeOfPrecisionMayBeNamed) {
  const auto named = [](const std::string& name) {
    ImportFile file = shipped(kBridge);
    const std::size_t begin = file.text.find("mixed_precision:\n");
    file.text.replace(begin, file.text.find("\nmodel:", begin) - begin, "mixed_precision: " + name);
    return file;
  };
  const auto imported = [&](const std::string& name) {
    return nemo(named(name), {.node = "dgx_h100", .nodes = 8});
  };
  const auto training = [&](const std::string& name) {
    return imported(name).scenario["training"];
  };
  EXPECT_FALSE(training("bf16_mixed").contains("recipe"));
  EXPECT_EQ(training("bf16_mixed")["precision"], "bf16");
  EXPECT_EQ(training("bf16_mixed")["gradient_precision"], "fp32");
  EXPECT_EQ(training("fp16-mixed")["precision"], "fp16");
  EXPECT_EQ(training("bf16_with_fp8_delayed_scaling_mixed")["recipe"], "fp8");
  EXPECT_EQ(training("bf16_with_fp8_subchannel_scaling_mixed")["recipe"], "fp8_cached");
  EXPECT_EQ(training("bf16_with_mxfp8_mixed")["recipe"], "fp8");
  EXPECT_EQ(training("bf16_with_nvfp4_mixed")["recipe"], "nvfp4");
  const ImportedScenario current = imported("bf16_with_fp8_current_scaling_mixed");
  EXPECT_EQ(current.scenario["training"]["recipe"], "fp8");
  EXPECT_EQ(current.scenario["training"]["fp8_scaling"], "current");
  EXPECT_THAT(current.assumed,
              testing::Contains("every layer computes in fp8, although "
                                "bf16_with_fp8_current_scaling_mixed keeps the first and the last "
                                "in bf16"));
  EXPECT_THAT(current.not_looked_at, ElementsAre("model.cross_entropy_fusion_impl"));
  EXPECT_THAT(test::refusal(import_nemo, {.files = {named("bf16_with_int8")},
                                          .machine = {.node = "dgx_h100", .nodes = 8}}),
              HasSubstr("mixed_precision is \"bf16_with_int8\" (it may be a section with bf16, fp8 "
                        "and the like, or one of bf16_mixed, fp16_mixed, "));
}

// Is a value in place of another section listed, which nothing reads?
TEST(MegatronConfig, AValueInPlaceOfASectionIsListed) {
  EXPECT_THAT(nemo(changed(kBridge, "mixed_precision:\n", "comm_overlap: some\nmixed_precision:\n"),
                   {.node = "dgx_h100", .nodes = 8})
                  .not_looked_at,
              testing::Contains("comm_overlap"));
}

// Does Apex's optimizer overlap the reductions alone where a file does not say?
TEST(MegatronConfig, TheOverlapsOfNemo1HaveTheDefaultsOfApex) {
  ImportFile file = changed("nemo/nemo1_gpt.yaml", "${multiply:4, ${.hidden_size}}", "16384");
  const auto overlaps = [&] {
    const Parallelism p = scenario_of(nemo(file, {.node = "dgx_a100_80gb"})).plan.parallelism;
    return std::pair(p.overlap_grad_reduce, p.overlap_param_gather);
  };
  EXPECT_EQ(overlaps(), std::pair(true, true));
  for (const std::string line : {"    overlap_grad_sync: True\n", "    overlap_param_sync: True\n"})
    file.text.erase(file.text.find(line), line.size());
  EXPECT_EQ(overlaps(), std::pair(true, false));
}

// Is an optimizer of NeMo 1 that is no Adam read, or named as an assumption?
TEST(MegatronConfig, AnOptimizerOfNemo1IsNotTakenForAdamInSilence) {
  const auto imported = [](const std::string& name) {
    ImportFile file = changed("nemo/nemo1_gpt.yaml", "${multiply:4, ${.hidden_size}}", "16384");
    const std::string shipped_name = "distributed_fused_adam";
    file.text.replace(file.text.find(shipped_name), shipped_name.size(), name);
    return nemo(file, {.node = "dgx_a100_80gb"});
  };
  EXPECT_FALSE(imported("fused_adam").scenario["training"].contains("optimizer"));
  EXPECT_EQ(imported("sgd").scenario["training"]["optimizer"], "sgd");
  EXPECT_THAT(imported("lion").assumed,
              testing::Contains("the optimizer costs as much as Adam, although it is lion"));
}

// Is a recipe of NeMo 2 read, with its experts?
TEST(MegatronConfig, ARecipeOfNemo2GivesItsScenario) {
  const ImportedScenario made = nemo(shipped("nemo/nemo2_mixtral.yaml"), {.node = "dgx_h100"});
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.framework, "nemo");
  EXPECT_EQ(scenario.plan.world(), 16);
  EXPECT_EQ(scenario.plan.parallelism.expert, 8);
  EXPECT_EQ(scenario.plan.parallelism.data, 8);
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 64);
  EXPECT_EQ(scenario.plan.training.gradient_precision, DataType::Bf16);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("mixtral-8x7b")));
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(scenario);
}

// Is a configuration of NeMo 1 read, with OmegaConf's references?
TEST(MegatronConfig, AConfigurationOfNemo1GivesItsScenario) {
  const ImportFile file = changed("nemo/nemo1_gpt.yaml", "${multiply:4, ${.hidden_size}}", "16384");
  const ImportedScenario made = nemo(file, {.node = "dgx_a100_80gb"});
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.world(), 16);
  EXPECT_EQ(scenario.plan.parallelism.data, 4);
  EXPECT_EQ(scenario.plan.parallelism.zero_stage, 1);
  EXPECT_TRUE(scenario.plan.parallelism.overlap_grad_reduce);
  EXPECT_EQ(scenario.plan.training.sequence_length, 2048);
  EXPECT_EQ(scenario.plan.architecture.max_positions, 2048);
  EXPECT_EQ(scenario.plan.architecture.vocab, 50257);
  EXPECT_TRUE(scenario.plan.architecture.biases);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::Full);
  EXPECT_EQ(scenario.plan.training.precision, DataType::Bf16);
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(scenario);
}

// Is what is missing or wrong refused, as the file spells it?
TEST(MegatronConfig, WhatIsWrongIsRefusedAsTheFileSpellsIt) {
  const auto problem = [](const ImportFile& file, std::int64_t nodes = 8) {
    return test::refusal(import_nemo,
                         {.files = {file}, .machine = {.node = "dgx_h100", .nodes = nodes}});
  };
  EXPECT_THAT(problem(shipped("nemo/nemo1_gpt.yaml"), 2),
              HasSubstr("model.ffn_hidden_size is \"${multiply:4, ${.hidden_size}}\""));
  EXPECT_THAT(problem(changed(kBridge, "  num_layers: 80\n", "")),
              HasSubstr("num_layers is not there"));
  EXPECT_THAT(problem(changed(kBridge, "num_layers: 80", "num_layers: many")),
              HasSubstr("line 80: model.num_layers is \"many\", which is no number"));
  EXPECT_THAT(problem(shipped(kBridge), 3), HasSubstr("24 GPUs are not divisible by tensor 4"));
  EXPECT_THAT(problem(changed(kBridge, "global_batch_size: 128", "global_batch_size: 127")),
              HasSubstr("global_batch_size"));
  EXPECT_THAT(problem(changed(kBridge, "cp_comm_type: null", "cp_comm_type: some")),
              HasSubstr("model.cp_comm_type is \"some\" (it may be p2p"));
}

}  // namespace
}  // namespace trainyard::megatron_config_tests
