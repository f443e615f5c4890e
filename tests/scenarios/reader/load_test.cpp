// The meaning of a scenario file, and the rules between its fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Are the given fields read and the others filled in?
TEST(LoadScenario, ReadsWhatIsGivenAndFillsInTheRest) {
  const Scenario s = load(sample());
  EXPECT_EQ(s.description, "a sample");
  EXPECT_EQ(s.plan.architecture.layers, 96);
  EXPECT_EQ(s.cluster.nodes, 8U);
  EXPECT_EQ(s.cluster.fabric.kind, FabricKind(RailOptimized{}));
  EXPECT_EQ(s.plan.parallelism.tensor, 8);
  EXPECT_TRUE(s.plan.parallelism.sequence_parallel);
  EXPECT_EQ(s.plan.training.precision, DataType::Fp16);
  EXPECT_EQ(s.plan.world(), 64);
  EXPECT_EQ(s.plan.microbatches(), 32);
  EXPECT_EQ(s.plan.parallelism.schedule, "1f1b");
  EXPECT_EQ(s.plan.training.recompute, Recompute::None);
  EXPECT_EQ(s.engine, "simgrid");
  EXPECT_EQ(s.flops_convention, AttentionCount::Causal);
  EXPECT_FALSE(s.published.has_value());
  EXPECT_GT(s.plan.framework.context_bytes, 0);
}

// Are the settings of NCCL read?
TEST(LoadScenario, ReadsHowNcclChooses) {
  Json document = sample();
  EXPECT_EQ(load(document).plan.collectives.nccl.version, nccl::Options{}.version);
  document["collectives"] = {{"nccl",
                              {{"version", "2.27.3"},
                               {"algo", "^NVLS"},
                               {"proto", "allreduce:LL"},
                               {"min_channels", 2},
                               {"max_channels", 8}}}};
  const nccl::Options options = nccl::options_of(load(document).plan.collectives.nccl);
  EXPECT_EQ(options.version, "2.27.3");
  EXPECT_EQ(options.algorithms, nccl::parse_algorithms("^nvls"));
  EXPECT_EQ(options.protocols, nccl::parse_protocols("allreduce:ll"));
  EXPECT_EQ(options.channels_least, 2U);
  EXPECT_EQ(options.channels_most, 8U);
  EXPECT_EQ(load(document, {{.path = "collectives.nccl.version", .value = "v2.18"}})
                .plan.collectives.nccl.version,
            "v2.18");
}

// Does a recipe also decide the precision in which gradients are sent?
TEST(LoadScenario, ARecipeSaysInWhichPrecisionGradientsAreSent) {
  Json document = sample();
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Fp32);
  document["training"]["recipe"] = "fp16_gradient_copy";
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Fp16);
  document["training"]["precision"] = "bf16";
  document["training"]["recipe"] = "pure_16bit";
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Bf16);
  document["training"]["gradient_precision"] = "bf16";
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Bf16);
  document["training"]["gradient_precision"] = "fp32";
  EXPECT_THAT(complaints(document), HasSubstr("/training/gradient_precision: recipe"));
}

// Can algorithms have arguments or be files?
TEST(LoadScenario, AlgorithmsMayHaveArgumentsOrBeFiles) {
  Json document = sample();
  document["collectives"] = {{"data", {{"all_reduce", "parameter_server:2"}}}};
  EXPECT_EQ(load(document).plan.collectives.of(GroupKind::Data, CollectiveOp::AllReduce),
            "parameter_server:2");
  document["collectives"] = {{"data", {{"all_reduce", "parameter_server:many"}}}};
  EXPECT_THAT(complaints(document), testing::AllOf(HasSubstr("/collectives/data/all_reduce"),
                                                   HasSubstr("does not say how many servers")));
  document["collectives"] = {{"data", {{"all_reduce", "nowhere/mine.json"}}}};
  EXPECT_THAT(complaints(document), testing::AllOf(HasSubstr("/collectives/data/all_reduce"),
                                                   HasSubstr("nowhere/mine.json")));
}

// Is every section read?
TEST(LoadScenario, ReadsEverySection) {
  Json document = sample();
  document["collectives"] = {{"data", {{"all_reduce", "hierarchical"}}}};
  document["published"] = {{"source", "x"},
                           {"step_time", "13.75 s"},
                           {"mfu", 0.5},
                           {"hardware_flops_per_gpu", "148 TFLOP/s"}};
  document["assumptions"] = {"one", "two"};
  document["engine"] = "ideal";
  document["flops_convention"] = "full";
  document["seed"] = 7;
  const Scenario s = load(document);
  EXPECT_EQ(s.plan.collectives.of(GroupKind::Data, CollectiveOp::AllReduce), "hierarchical");
  EXPECT_EQ(s.plan.collectives.of(GroupKind::Tensor, CollectiveOp::AllReduce), "nccl");
  EXPECT_EQ(s.plan.collectives.of(GroupKind::Other, CollectiveOp::AllReduce), "nccl");
  ASSERT_TRUE(s.published.has_value());
  EXPECT_EQ(s.published->step_time, Seconds{13.75});
  EXPECT_EQ(s.published->hardware_flops_per_gpu, FlopsPerSecond{148e12});
  EXPECT_EQ(s.published->mfu, 0.5);
  EXPECT_FALSE(s.published->model_flops_per_gpu.has_value());
  EXPECT_EQ(s.assumptions.size(), 2U);
  EXPECT_EQ(s.engine, "ideal");
  EXPECT_EQ(s.flops_convention, AttentionCount::Full);
  EXPECT_EQ(s.seed, 7U);
}

// Are more tensor ranks than key-value heads accepted? Megatron-LM accepts them: several ranks have
// the same head.
TEST(LoadScenario, MoreTensorRanksThanKeyValueHeadsAreTaken) {
  Json document = sample();
  document["model"] = "llama3-70b";
  document["parallelism"] = {{"tensor", 16}, {"pipeline", 4}};
  document["training"]["sequence_length"] = 4096;
  EXPECT_EQ(load(document).plan.parallelism.tensor, 16);
}

// Can the model be inline or in a file next to the scenario?
TEST(LoadScenario, TheModelMayBeInlineOrAFileBesideTheScenario) {
  const TemporaryFolder folder;
  const Json shape = {{"layers", 4}, {"hidden", 1024}, {"heads", 8},
                      {"ffn", 4096}, {"vocab", 8192},  {"max_positions", 4096}};
  Json document = sample();
  document["model"] = shape;
  EXPECT_EQ(load(document).plan.architecture.hidden, 1024);
  EXPECT_EQ(load(document).plan.architecture.name, "custom");

  (void)folder.write("small.json", shape.dump());
  document["model"] = "small.json";
  const Scenario s = load_scenario(folder.write("s.json", document.dump()), {});
  EXPECT_EQ(s.plan.architecture.hidden, 1024);
  EXPECT_EQ(s.plan.architecture.name, "small");
}

// Can a model be a config.json of Hugging Face?
TEST(LoadScenario, AModelMayBeAHuggingFaceConfig) {
  const TemporaryFolder folder;
  Json config{{"model_type", "llama"},           {"num_hidden_layers", 4},   {"hidden_size", 1024},
              {"intermediate_size", 4096},       {"num_attention_heads", 8}, {"vocab_size", 32000},
              {"max_position_embeddings", 2048}, {"rope_theta", 10000.0}};
  (void)folder.write("config.json", config.dump());
  Json document = sample();
  document["model"] = "config.json";
  const std::string file = folder.write("s.json", document.dump());
  EXPECT_EQ(load_scenario(file, {}).plan.architecture.ffn, 4096);

  config.erase("hidden_size");
  (void)folder.write("config.json", config.dump());
  try {
    (void)load_scenario(file, {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a \"llama\" needs hidden_size, which is not there"));
  }
}

// Is an unknown host reported once?
TEST(LoadScenario, AHostThatIsNoneIsNamedOnce) {
  Json document = sample();
  document["host"] = "eagre";
  EXPECT_THAT(complaints(document),
              HasSubstr("/host: \"eagre\" is not one of models/hosts (did you mean \"eager\"?)"));
}

// Are all problems of a file reported together?
TEST(LoadScenario, AllProblemsOfAFileComeTogether) {
  Json document = sample();
  document["model"] = "gpt3-175";
  document["parallelism"]["tensr"] = 8;
  document["training"]["recompute"] = "selectiv";
  document["engine"] = "simgird";
  const std::string text = complaints(document);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_THAT(text, HasSubstr("did you mean \"gpt3-175b\"?"));
  EXPECT_THAT(text, HasSubstr("did you mean \"selective\"?"));
  EXPECT_THAT(text, HasSubstr("did you mean \"simgrid\"?"));
  EXPECT_THAT(text, HasSubstr("/parallelism/tensr: unknown key"));
}

// Are all broken rules reported together?
TEST(LoadScenario, BrokenRulesComeTogetherToo) {
  Json document = sample();
  document["parallelism"]["tensor"] = 7;
  document["training"]["global_batch_size"] = 63;
  const std::string text = complaints(document);
  EXPECT_THAT(text, HasSubstr("96 heads do not divide among 7 tensor ranks"));
  EXPECT_THAT(text, HasSubstr("needs 56 GPUs"));
  EXPECT_THAT(text, HasSubstr("63 sequences do not divide"));
  EXPECT_THAT(text, HasSubstr("2048 tokens do not divide among 7 tensor ranks"));
}

// Are rules skipped if a section has errors?
TEST(LoadScenario, RulesWaitForSoundSections) {
  // The tensor size is not known here, so nothing is reported about GPUs and heads.
  Json document = sample();
  document["parallelism"]["tensor"] = "eight";
  EXPECT_EQ(complaints(document),
            "/parallelism/tensor: must be a whole number, not \"eight\" (write it without quotes)");
}

// Must key-value heads divide among tensor ranks?
TEST(LoadScenario, KeyValueHeadsMustDivideToo) {
  Json document = sample();
  document["model"] = {{"layers", 8},  {"hidden", 3072}, {"heads", 24},          {"kv_heads", 8},
                       {"ffn", 12288}, {"vocab", 50257}, {"max_positions", 2048}};
  document["parallelism"] = {{"tensor", 6}, {"data", 4}};
  EXPECT_THAT(complaints(document),
              HasSubstr("/parallelism/tensor: 8 key-value heads do not divide among 6 tensor ranks "
                        "(divisors: 1, 2, 4, 8)"));
}

// Must the columns of shared experts divide among tensor ranks, and need key-value heads not, where
// latent attention expands keys and values to every query head?
TEST(LoadScenario, SharedExpertsDivideAndLatentsNeedNoKeyValueHeads) {
  Json document = sample();
  Json& model = document["model"] = {
      {"layers", 8},       {"hidden", 3072},     {"heads", 24},       {"kv_heads", 6},
      {"ffn", 12288},      {"vocab", 50257},     {"head_dim", 192},   {"value_dim", 128},
      {"rope_dim", 64},    {"kv_latent", 256},   {"experts", 8},      {"experts_per_token", 2},
      {"expert_ffn", 768}, {"shared_ffn", 1001}, {"dense_layers", 0}, {"max_positions", 2048}};
  document["parallelism"] = {{"tensor", 4}, {"data", 16}};
  EXPECT_EQ(
      complaints(document),
      "/parallelism/tensor: 1001 columns of shared experts do not divide among 4 tensor ranks "
      "(divisors: 1, 7, 11, 13)");
  model["shared_ffn"] = 1000;
  EXPECT_EQ(complaints(document), "");
}

// Are uneven splits understood?
TEST(LoadScenario, UnevenSplitsAreUnderstood) {
  Json document = sample();
  document["parallelism"]["first_stage_layers"] = 23;
  document["parallelism"]["last_stage_layers"] = 23;
  EXPECT_EQ(complaints(document), "") << "23 + 25 + 25 + 23";
  document["parallelism"]["loss_in_split"] = true;
  EXPECT_THAT(complaints(document), HasSubstr("cannot be given together"));
}

// Is a fabric that is too small refused?
TEST(LoadScenario, AFabricTooSmallIsRefused) {
  Json document = sample();
  document["cluster"]["fabric"] = {{"kind", "fat_tree"}, {"radix", 4}};
  document["cluster"]["nodes"] = 64;
  document["parallelism"]["data"] = 16;
  EXPECT_THAT(complaints(document), testing::StartsWith("/cluster/nodes: 64 nodes do not fit"));
}

// Are absurd numbers refused quickly?
TEST(LoadScenario, NumbersBeyondAllSenseAreRefusedQuickly) {
  Json document = sample();
  document["training"]["global_batch_size"] = 100000000;
  EXPECT_THAT(complaints(document), HasSubstr("makes 50000000 microbatches, more than 100000"));
  document["parallelism"]["data"] = std::int64_t{1} << 62;
  EXPECT_THAT(complaints(document), HasSubstr("must be between 1 and 1000000"));
}

// Is a file that is not an object reported only as that?
TEST(LoadScenario, AFileThatIsNoObjectSaysOnlyThat) {
  EXPECT_EQ(complaints(Json::array()), "must be an object, not []");
}

// Do ranks fill the kinds of nodes in the order that `node_order` says? Nodes 1 and 3 of four are
// A100s here. The order of the nodes themselves is no placement.
TEST(LoadScenario, RanksFillTheKindsOfNodesInOrder) {
  Json document = sample();
  document["cluster"]["nodes"] = 4;
  document["cluster"]["others"] =
      parse_unchecked_json(R"([{"nodes": [1, 3], "node": "dgx_h100"}])");
  document["parallelism"]["data"] = 1;
  document["parallelism"]["pipeline"] = 4;
  const std::string first = load(document).cluster.node.name;
  document["parallelism"]["node_order"] = {"dgx_h100", first};
  const Scenario scenario = load(document);
  const std::vector<std::int64_t>& placement = scenario.plan.parallelism.placement;
  ASSERT_EQ(placement.size(), 32U);
  for (std::size_t rank = 0; rank < placement.size(); ++rank) {
    const std::array<std::int64_t, 4> nodes{1, 3, 0, 2};
    EXPECT_EQ(placement[rank], nodes[rank / 8] * 8 + static_cast<std::int64_t>(rank % 8)) << rank;
  }
  EXPECT_EQ(load(resolved(scenario)).plan.parallelism.placement, placement);
  document["cluster"]["others"] =
      parse_unchecked_json(R"([{"nodes": [2, 3], "node": "dgx_h100"}])");
  document["parallelism"]["node_order"] = {first, "dgx_h100"};
  EXPECT_TRUE(load(document).plan.parallelism.placement.empty());
}

// Does an error suggest our name for the keys of other programs?
TEST(LoadScenario, ForeignWordsGetOurEquivalent) {
  for (const auto& [key, ours] :
       std::map<std::string, std::string>{{"tp", "tensor"},
                                          {"ep", "expert"},
                                          {"tensor_model_parallel_size", "tensor"},
                                          {"--pipeline-model-parallel-size", "pipeline"},
                                          {"use_distributed_optimizer", "zero_stage"},
                                          {"num_layers_per_virtual_pipeline_stage", "interleave"},
                                          {"recompute_granularity", "recompute"},
                                          {"micro_batch_size", "\"training\""}}) {
    Json document = sample();
    document["parallelism"][key] = 1;
    EXPECT_THAT(complaints(document), HasSubstr("unknown key (")) << key;
    EXPECT_THAT(complaints(document), HasSubstr(ours)) << key;
  }
}

}  // namespace
}  // namespace trainyard
