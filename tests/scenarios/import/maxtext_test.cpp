// Scenarios from configurations of MaxText.
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard::maxtext_tests {
namespace {

using test::changed;
using test::expect_runs;
using test::scenario_of;
using test::shipped;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kDense = "maxtext/llama3_70b.yml";
constexpr const char* kExperts = "maxtext/experts.yml";

ImportedScenario maxtext(const ImportFile& file, const LaunchMachine& machine) {
  return import_maxtext({.files = {file}, .machine = machine});
}

std::string refusal(const ImportFile& file,
                    const LaunchMachine& machine = {.node = "dgx_h100", .nodes = 16}) {
  return test::refusal(import_maxtext, {.files = {file}, .machine = machine});
}

// Does the configuration of a run give the scenario that a person wrote of the same run?
TEST(MaxText, ARunIsTheScenarioThatAPersonWrote) {
  const ImportedScenario made = maxtext(shipped(kDense), {.node = "dgx_h100"});
  const Scenario imported = scenario_of(made);
  const Scenario written = load_scenario(
      TRAINYARD_SOURCE_DIRECTORY "/scenarios/fsdp/llama3_70b_128xh100_maxtext.json", {});
  EXPECT_EQ(imported.plan.training, written.plan.training);
  EXPECT_EQ(imported.plan.parallelism, written.plan.parallelism);
  EXPECT_EQ(imported.plan.architecture, written.plan.architecture);
  EXPECT_EQ(imported.cluster.nodes, 16U);
  EXPECT_THAT(made.not_looked_at, IsEmpty());
  expect_runs(imported);
}

// Are a model written out, experts and replicas over nodes read?
TEST(MaxText, ExpertsAndAxesAreRead) {
  const ImportedScenario made = maxtext(shipped(kExperts), {.node = "dgx_h100"});
  const Scenario scenario = scenario_of(made);
  const Parallelism& p = scenario.plan.parallelism;
  EXPECT_EQ(scenario.plan.world(), 16);
  EXPECT_EQ(p.tensor, 2);
  EXPECT_FALSE(p.sequence_parallel);
  EXPECT_EQ(p.data, 8);
  EXPECT_EQ(p.expert, 4);
  EXPECT_EQ(p.zero_stage, 3);
  EXPECT_EQ(p.shard, 4);
  EXPECT_EQ(parameter_count(scenario.plan.architecture),
            parameter_count(load_architecture("mixtral-8x7b")));
  // One sequence for each of 16 GPUs, shared by eight replicas, four times.
  EXPECT_EQ(scenario.plan.training.micro_batch_size, 2);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 64);
  EXPECT_EQ(made.scenario["training"]["recipe"], "fp8_cached");
  EXPECT_EQ(made.scenario["training"]["recompute"], "selective");
  EXPECT_EQ(made.scenario["experts"]["gemms"], "grouped");
  EXPECT_THAT(made.assumed,
              Contains("remat_policy minimal_with_context recomputes the norms alone"));
  expect_runs(scenario);
}

// Do later files override earlier ones?
TEST(MaxText, LaterFilesOverrideEarlierOnes) {
  const ImportFile later{
      .name = "mine.yml",
      .text = "remat_policy: full\nper_device_batch_size: 4\nremat_policy: none\n"};
  const ImportedScenario made =
      import_maxtext({.files = {shipped(kDense), later}, .machine = {.node = "dgx_h100"}});
  EXPECT_THAT(made.assumed,
              Contains(HasSubstr("remat_policy is there twice: line 3 replaces line 1")));
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.training.global_batch_size, 512);
  EXPECT_EQ(scenario.plan.training.recompute, Recompute::None);
}

// Do axes that the file leaves open take the rest, first within a node?
TEST(MaxText, OpenAxesTakeTheRest) {
  const ImportFile open{.name = "open.yml",
                        .text = "model_name: llama3-8b\nper_device_batch_size: 1\n"};
  const ImportedScenario made = maxtext(open, {.node = "dgx_h100", .nodes = 4});
  const Scenario scenario = scenario_of(made);
  EXPECT_EQ(scenario.plan.parallelism.data, 32);
  EXPECT_EQ(scenario.plan.parallelism.shard, 8);
  EXPECT_THAT(made.assumed, Contains("a slice is a node: the dcn axes make 4"));
  EXPECT_THAT(made.assumed, Contains(HasSubstr("max_target_length 2048, remat_policy full")));
}

// Is a pipeline read, with the microbatches that a replica shares?
TEST(MaxText, APipelineIsRead) {
  const std::string text =
      "model_name: llama3-70b\nper_device_batch_size: 1\nmax_target_length: 4096\n"
      "ici_pipeline_parallelism: 4\nici_tensor_sequence_parallelism: 2\nici_fsdp_parallelism: 1\n"
      "dcn_data_parallelism: 2\nnum_pipeline_microbatches: 8\nnum_layers_per_pipeline_stage: ";
  const auto plan = [&](const std::string& layers) {
    return scenario_of(maxtext({.name = "p.yml", .text = text + layers}, {.node = "dgx_h100"}))
        .plan;
  };
  const TrainingPlan plain = plan("20");
  EXPECT_EQ(plain.parallelism.schedule, "gpipe");
  EXPECT_EQ(plain.parallelism.pipeline, 4);
  EXPECT_TRUE(plain.parallelism.sequence_parallel);
  EXPECT_EQ(plain.parallelism.data, 2);
  EXPECT_EQ(plain.parallelism.zero_stage, 0);
  EXPECT_EQ(plain.training.micro_batch_size, 1);
  EXPECT_EQ(plain.training.global_batch_size, 16);
  const TrainingPlan circular = plan("10");
  EXPECT_EQ(circular.parallelism.schedule, "interleaved_1f1b");
  EXPECT_EQ(circular.parallelism.interleave, 2);
}

// Are latent attention, dense layers, shared experts and groups of experts read?
TEST(MaxText, LatentAttentionAndGroupsOfExpertsAreRead) {
  const ImportFile file{
      .name = "deepseek.yml",
      .text =
          "decoder_block: deepseek\nattention_type: mla\nq_lora_rank: 1536\n"
          "kv_lora_rank: 512\nqk_nope_head_dim: 128\nqk_rope_head_dim: 64\nv_head_dim: 128\n"
          "base_emb_dim: 7168\nbase_num_query_heads: 128\nbase_num_kv_heads: 128\n"
          "base_num_decoder_layers: 61\nbase_mlp_dim: 18432\nbase_moe_mlp_dim: 2048\n"
          "first_num_dense_layers: 3\nvocab_size: 129280\nnum_experts: 256\n"
          "num_experts_per_tok: 8\nshared_experts: 1\nrouted_bias: True\n"
          "n_routing_groups: 8\ntopk_routing_group: 4\nmax_target_length: 4096\n"
          "mlp_activations: [silu, linear]\nper_device_batch_size: 1\n"
          "ici_expert_parallelism: 8\n"};
  const Scenario scenario = scenario_of(maxtext(file, {.node = "dgx_h100", .nodes = 32}));
  Architecture imported = scenario.plan.architecture;
  const Architecture published = load_architecture("deepseek-v3");
  EXPECT_EQ(parameter_count(imported), parameter_count(published));
  imported.name = published.name;
  imported.source = published.source;
  EXPECT_EQ(imported, published);
}

// Is what contradicts itself or is not known refused, with its line?
TEST(MaxText, WhatIsWrongIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(changed(kDense, "\"llama3-70b\"\nmax", "\"llama9\"\nmax")),
              HasSubstr("line 6: model_name is \"llama9\", whose shape is not known"));
  EXPECT_THAT(refusal(changed(kDense, "remat_policy: \"full\"", "remat_policy: \"some\"")),
              HasSubstr("remat_policy is \"some\", which is not simulated"));
  EXPECT_THAT(refusal(changed(kDense, "dcn_fsdp_parallelism: 16", "dcn_fsdp_parallelism: 8"),
                      {.node = "dgx_h100", .gpus = 128}),
              HasSubstr("the launch runs 64 processes, and --gpus says 128"));
  EXPECT_THAT(refusal(changed(kDense, "ici_tensor_parallelism: 1", "ici_tensor_parallelism: 0")),
              HasSubstr("ici_tensor_parallelism is 0"));
  EXPECT_THAT(refusal(changed(kDense, "per_device_batch_size: 2", "per_device_batch_size: 0.3")),
              HasSubstr("per_device_batch_size is 0.3: 128 GPUs x 0.3"));
  EXPECT_THAT(refusal(changed(kDense, "quantization: \"\"", "quantization: \"int8\"")),
              HasSubstr("quantization is \"int8\""));
  EXPECT_THAT(refusal(changed(kDense, "steps: 30", "steps: [30")),
              HasSubstr("llama3_70b.yml: line"));
}

}  // namespace
}  // namespace trainyard::maxtext_tests
