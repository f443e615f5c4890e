// Scenarios from configurations of Nanotron.
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::nanotron_tests {
namespace {

using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kFile = "nanotron/llama_8b.yaml";

ImportedScenario nanotron(const ImportFile& file,
                          const LaunchMachine& machine = {.node = "dgx_h100"}) {
  return import_nanotron({.files = {file}, .machine = machine});
}

std::string refusal(const ImportFile& file, const LaunchMachine& machine = {.node = "dgx_h100"}) {
  return test::refusal(import_nanotron, {.files = {file}, .machine = machine});
}

// Are model, parallelism, batch and ZeRO read?
TEST(Nanotron, AConfigurationGivesItsScenario) {
  const ImportedScenario made = nanotron(shipped(kFile));
  const Scenario scenario = scenario_of(made);
  const Parallelism& p = scenario.plan.parallelism;
  EXPECT_EQ(scenario.plan.world(), 32);
  EXPECT_EQ(p.tensor, 4);
  EXPECT_TRUE(p.sequence_parallel);
  EXPECT_TRUE(p.overlap_tensor);
  EXPECT_EQ(p.pipeline, 2);
  EXPECT_EQ(p.schedule, "1f1b");
  EXPECT_TRUE(p.embedding_in_split);
  EXPECT_EQ(p.data, 4);
  EXPECT_EQ(p.zero_stage, 1);
  EXPECT_EQ(p.bucket_parameters, 25 * 1024 * 1024 / 4);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("llama3-8b")));
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 2);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 2 * 8 * 4);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::None);
  EXPECT_EQ(scenario.plan.training.gradient_precision, DataType::Fp32);
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(scenario);
}

// Are experts, full recomputation, tensor parallelism by all_reduce and 16-bit gradients read?
TEST(Nanotron, ExpertsAndOtherModesAreRead) {
  ImportFile file = changed(kFile, "    num_attention_heads: 32",
                            "    moe_config:\n      num_experts: 8\n      top_k: 2\n"
                            "      moe_intermediate_size: 2048\n    num_attention_heads: 32");
  const auto set = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(file.text.find(from), std::string::npos) << from;
    file.text.replace(file.text.find(from), from.size(), to);
  };
  set("REDUCE_SCATTER", "ALL_REDUCE");
  set("recompute_layer: false", "recompute_layer: true");
  set("accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false");
  set("pp: 2", "pp: 1");
  set("expert_parallel_size: 1", "expert_parallel_size: 2");
  const Scenario scenario = scenario_of(nanotron(file));
  EXPECT_EQ(scenario.plan.architecture.experts, 8);
  EXPECT_EQ(scenario.plan.architecture.expert_ffn, 2048);
  EXPECT_FALSE(scenario.plan.parallelism.sequence_parallel);
  EXPECT_EQ(scenario.plan.parallelism.expert, 2);
  EXPECT_EQ(scenario.plan.parallelism.data, 8);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::Full);
  EXPECT_EQ(scenario.plan.training.recipe, "pure_16bit");
  expect_runs(scenario);
}

// Do all forwards run before the backwards where the file names no engine?
TEST(Nanotron, AllForwardsComeFirstWhereNothingNamesTheEngine) {
  const auto schedule = [](const std::string& engine) {
    return scenario_of(nanotron(changed(kFile, "  pp_engine: 1f1b\n", engine)))
        .plan.parallelism.schedule;
  };
  EXPECT_EQ(schedule(""), "gpipe");
  EXPECT_EQ(schedule("  pp_engine: afab\n"), "gpipe");
  EXPECT_EQ(schedule("  pp_engine: 1f1b\n"), "1f1b");
}

// May the mode of tensor parallelism have small letters?
TEST(Nanotron, TheModeOfTensorParallelismMayHaveSmallLetters) {
  const auto scatters = [](const std::string& mode) {
    return scenario_of(nanotron(changed(kFile, "REDUCE_SCATTER", mode)))
        .plan.parallelism.sequence_parallel;
  };
  EXPECT_TRUE(scatters("reduce_scatter"));
  EXPECT_FALSE(scatters("all_reduce"));
}

// Is what contradicts itself or is missing refused, with its line?
TEST(Nanotron, WhatIsWrongIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(changed(kFile, "tp_mode: REDUCE_SCATTER", "tp_mode: SOME")),
              HasSubstr("line 70: parallelism.tp_mode is \"SOME\" (it may be ALL_REDUCE"));
  EXPECT_THAT(refusal(changed(kFile, "  dp: 4\n", "")), HasSubstr("parallelism.dp is not there"));
  EXPECT_THAT(refusal(changed(kFile, "    hidden_size: 4096\n", "")), HasSubstr("hidden_size"));
  EXPECT_THAT(refusal(changed(kFile, "is_llama_config", "is_starcoder_config")),
              HasSubstr("is of a class that is not known"));
  EXPECT_THAT(refusal(changed(kFile, "zero_stage: 1", "zero_stage: 3")),
              HasSubstr("optimizer.zero_stage is 3 (Nanotron has 0 and 1)"));
  EXPECT_THAT(refusal(shipped(kFile), {.node = "dgx_h100", .gpus = 64}),
              HasSubstr("the launch runs 32 processes, and --gpus says 64"));
  EXPECT_THAT(refusal(changed(kFile, "micro_batch_size: 2", "micro_batch_size: two")),
              HasSubstr("tokens.micro_batch_size is \"two\", which is no number"));
}

}  // namespace
}  // namespace trainyard::nanotron_tests
