// Do rows of data sets become the scenarios that they describe, and do they report why where they
// cannot?
#include "tools/studies/validate/row_scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "models/host.hpp"
#include "models/layers/layer_block.hpp"
#include "models/recompute.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/validate/constants.hpp"
#include "tools/studies/validate/dataset.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// GPT-3 on 64 A100s, table 5 of Korthikanti et al. 2022.
Json gpt3() {
  return parse_unchecked_json(R"json({
    "id": "korthikanti-175b",
    "source": {"paper": "Korthikanti et al. 2022 arXiv:2205.05198 Table 5"},
    "model": {"name": "GPT3-175B", "arch": "dense", "layers": 96, "hidden": 12288, "heads": 96,
              "kv_heads": 96, "head_dim": 128, "ffn": 49152, "gated_mlp": false, "vocab": 51200},
    "hardware": {"gpu": "A100-SXM4-80GB", "nics": "8x200Gb/s HDR IB", "num_gpus": 64},
    "framework": "Megatron-LM", "precision": "FP16",
    "parallel": {"tp": 8, "pp": 8, "vp": 3, "dp": 1, "zero_stage": 0, "sequence_parallel": true},
    "batch": {"micro_batch": 1, "global_batch": 64, "seq_len": 2048},
    "recompute": "selective (attention core only)",
    "measured": {
  "iter_time_s" : 13.75}})json");
}

std::vector<MeasuredRow> read_text(const std::string& name, const std::string& text) {
  const fs::path file = fs::path(testing::TempDir()) / name;
  write_file(file, text);
  return read_dataset(file);
}

MeasuredRow row_of(const Json& json) {
  return read_text("rows.json", Json::array({json}).dump()).front();
}

Scenario scenario_of(const Json& json) {
  return read_scenario_document("row", row_scenario(load_row_tables(), row_of(json)));
}

std::string refusal_of(const Json& json) {
  try {
    (void)scenario_of(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Do the notes of a row switch asynchronous tensor parallelism on?
TEST(RowScenario, NotesOfAsynchronousTensorParallelismAreHeard) {
  Json row = gpt3();
  row["framework"] = "torchtitan (FSDP2) + torch.compile";
  row["precision"] = "BF16";
  const auto chunked = [&](const char* notes) {
    row["notes"] = notes;
    return row_scenario(load_row_tables(), row_of(row))
        .at("parallelism")
        .value("chunked_tensor", false);
  };
  EXPECT_TRUE(chunked("async TP"));
  EXPECT_FALSE(chunked("vanilla TP"));
  EXPECT_FALSE(chunked(""));
}

// Are the first years of Transformer Engine a separate framework? Runs of those years have their
// own software, and later runs do not.
TEST(RowScenario, FirstYearsOfTransformerEngineAreAFrameworkOfTheirOwn) {
  Json row = gpt3();
  row["hardware"]["gpu"] = "H100-SXM5-80GB";
  row["precision"] = "FP8";
  const auto framework = [&row](const char* name) {
    row["framework"] = name;
    return row_scenario(load_row_tables(), row_of(row)).value("framework", "megatron");
  };
  EXPECT_EQ(framework("NVIDIA MLPerf Training v3.0 (NeMo/Megatron-Core, TE)"), "megatron_2023");
  EXPECT_EQ(framework("NVIDIA MLPerf Training v4.0 (NeMo/Megatron-Core, TE)"), "megatron_2023");
  EXPECT_EQ(framework("NeMo 24.07 (Megatron-Core+TE)"), "megatron_2023");
  EXPECT_EQ(framework("NVIDIA MLPerf Training v4.1 (NeMo/Megatron-Core, TE)"), "nemo");
  EXPECT_EQ(framework("NeMo/Megatron-Core"), "nemo");
}

// Do runs of BigScience wait for every kernel? Other runs of Megatron-DeepSpeed did not wait.
TEST(RowScenario, RunsOfBigScienceWaitForEveryKernel) {
  Json row = gpt3();
  const auto blocking = [&row](const char* framework) {
    row["framework"] = framework;
    const Json scenario = row_scenario(load_row_tables(), row_of(row));
    return load_host_costs(scenario.value("host", "none")).blocking;
  };
  EXPECT_TRUE(blocking("Megatron-DeepSpeed (BigScience)"));
  EXPECT_FALSE(blocking("Megatron-DeepSpeed"));
}

// Does dispatch/combine of experts overlap where the recipe has it? Plain 1F1B on several stages
// cannot overlap it.
TEST(RowScenario, ExchangesOverlapWhereTheRecipeSaysSo) {
  Json row = gpt3();
  row["model"]["moe"] = {{"experts", 8}, {"topk", 2}, {"expert_ffn", 49152}};
  row["parallel"]["dp"] = 8;
  row["parallel"]["tp"] = 1;
  row["parallel"]["sequence_parallel"] = false;
  row["parallel"]["ep"] = 8;
  const auto document = [&row] { return row_scenario(load_row_tables(), row_of(row)); };
  EXPECT_FALSE(document().contains("experts"));
  row["recipe"] = {{"moe_a2a_overlap", true}};
  EXPECT_TRUE(document()["experts"]["overlap_dispatch"].get<bool>());
  row["parallel"]["vp"] = 1;
  EXPECT_FALSE(document().contains("experts"));
  EXPECT_NE(document()["assumptions"].dump().find("overlap of dispatch"), std::string::npos);
}

// Do tokens travel by the library that a recipe or the words of a run name?
TEST(RowScenario, TokensTravelByTheLibraryOfTheRun) {
  Json row = gpt3();
  row["model"]["moe"] = {{"experts", 8}, {"topk", 2}, {"expert_ffn", 49152}};
  const auto dispatcher = [&row] {
    const Json document = row_scenario(load_row_tables(), row_of(row));
    return document.value("/experts/dispatcher"_json_pointer, std::string("none"));
  };
  EXPECT_EQ(dispatcher(), "none");
  row["recipe"] = {{"moe_flex_dispatcher_backend", "deepep"}};
  EXPECT_EQ(dispatcher(), "node_limited");
  row["recipe"] = nullptr;
  row["moe_run"] = {{"dispatcher", "HybridEP, 32 SMs"}};
  EXPECT_EQ(dispatcher(), "hybrid_ep");
}

// Does GPT-OSS have its parts and its graphs? Megatron-Bridge runs it with its own windows, biases
// and clamped activations. Where one graph holds a step in MXFP8, attention has 8 bits and experts
// are one launch, fused with a SwiGLU.
TEST(RowScenario, GptOssHasItsPartsAndItsGraphs) {
  Json row = gpt3();
  row["framework"] = "Megatron-Bridge (Megatron-Core+TE)";
  row["hardware"] = {{"gpu", "GB200-NVL72"}, {"nics", "4x400Gb/s"}, {"num_gpus", 64}};
  row["model"] = {{"name", "GPT-OSS-120B"},
                  {"arch", "moe"},
                  {"layers", 36},
                  {"hidden", 2880},
                  {"heads", 64},
                  {"kv_heads", 8},
                  {"head_dim", 64},
                  {"ffn", 2880},
                  {"gated_mlp", true},
                  {"vocab", 201088},
                  {"attention", "alternating sliding-window(128)/full"},
                  {"moe", {{"experts", 128}, {"topk", 4}, {"expert_ffn", 2880}}}};
  row["parallel"] = {{"tp", 1}, {"pp", 1}, {"dp", 64}, {"ep", 64}, {"zero_stage", 1}};
  row["precision"] = "MXFP8";
  row["recompute"] = "none";
  row["recipe"] = {{"cuda_graph_impl", "transformer_engine"}};
  const TrainingPlan eager = scenario_of(row).plan;
  EXPECT_EQ(eager.architecture.window, 128);
  EXPECT_EQ(eager.architecture.full_attention_every, 2);
  EXPECT_TRUE(eager.architecture.biases);
  EXPECT_TRUE(eager.architecture.clamped_experts);
  EXPECT_EQ(eager.training.gradient_precision, DataType::Bf16);
  EXPECT_EQ(eager.experts.gemms, ExpertGemms::PerExpert);
  EXPECT_FALSE(eager.recipe.attention.has_value());
  EXPECT_EQ(scenario_of(row).host, "megatron_core") << "issues experts one by one";
  row["recipe"] = {{"cuda_graph_impl", "full_iteration"}};
  const TrainingPlan graph = scenario_of(row).plan;
  EXPECT_EQ(graph.experts.gemms, ExpertGemms::Grouped);
  EXPECT_EQ(graph.recipe.attention, DataType::Fp8);
  EXPECT_EQ(scenario_of(row).host, "none") << "the graph issues all";
  row["model"]["name"] = "Qwen3-30B-A3B";
  const TrainingPlan fused = scenario_of(row).plan;
  EXPECT_TRUE(fused.architecture.qk_norm);
  EXPECT_EQ(fused.experts.gemms, ExpertGemms::Fused);
}

// Does the row of the published run give the shipped scenario, which was written by hand?
TEST(RowScenario, IsTheShippedOneForThePublishedRun) {
  const Scenario made = scenario_of(gpt3());
  const Scenario hand = load_scenario(
      (data_directory() / "scenarios/megatron/gpt3_175b_64xa100_selective.json").string(), {});
  // The row gives the vocabulary as padded, the shipped file as trained.
  EXPECT_EQ(made.plan.vocab(), hand.plan.vocab());
  EXPECT_EQ(layer_parameter_count(made.plan.architecture, layer_kind(made.plan.architecture, 0)),
            layer_parameter_count(hand.plan.architecture, layer_kind(hand.plan.architecture, 0)));
  EXPECT_EQ(resolved(made)["training"].dump(), resolved(hand)["training"].dump());
  EXPECT_EQ(made.plan.parallelism.interleave, 3);
  EXPECT_EQ(made.plan.parallelism.schedule, hand.plan.parallelism.schedule);
  EXPECT_EQ(made.plan.parallelism.overlap_p2p, hand.plan.parallelism.overlap_p2p);
  EXPECT_EQ(made.cluster.node.name, hand.cluster.node.name);
  EXPECT_EQ(made.cluster.nodes, hand.cluster.nodes);
  EXPECT_EQ(made.published->step_time->value(), 13.75);
}

// Do embedding and loss count where layers do not divide?
TEST(RowScenario, CountsEmbeddingAndLossWhereLayersDoNotDivide) {
  Json row = gpt3();
  row["model"]["layers"] = 94;
  row["parallel"]["vp"] = 1;
  const Scenario both = scenario_of(row);
  EXPECT_TRUE(both.plan.parallelism.embedding_in_split);
  EXPECT_TRUE(both.plan.parallelism.loss_in_split);
  row["model"]["layers"] = 95;
  EXPECT_FALSE(scenario_of(row).plan.parallelism.loss_in_split);
}

// Does the scenario assume a split by hand where nothing else divides?
TEST(RowScenario, SupposesASplitByHandWhereNothingElseDivides) {
  using Split = std::vector<std::int64_t>;
  Json row = gpt3();
  row["parallel"]["vp"] = 1;
  row["model"]["layers"] = 61;  // 8 parts: 7 * 8 + 5
  const Scenario deep = scenario_of(row);
  EXPECT_EQ(deep.plan.parallelism.layers_per_stage, (Split{8, 8, 8, 8, 8, 8, 8, 5}));
  ASSERT_FALSE(deep.assumptions.empty());
  EXPECT_EQ(deep.assumptions.back(), "61 layers in 8 parts: 8 in the first, 5 in the last");
  row["model"]["layers"] = 9;  // 2 each would leave none for the last
  EXPECT_EQ(scenario_of(row).plan.parallelism.layers_per_stage, (Split{2, 1, 1, 1, 1, 1, 1, 1}));
  row["model"]["layers"] = 5;
  EXPECT_NE(refusal_of(row).find("5 layers are fewer than 8 parts"), std::string::npos);
}

// Does the scenario take parts of nodes and of domains?
TEST(RowScenario, TakesPartsOfNodesAndOfDomains) {
  Json row = gpt3();
  row["hardware"] = {{"gpu", "GB200-NVL72"}, {"nics", "4x400Gb/s"}, {"num_gpus", 2496}};
  row["parallel"] = {{"tp", 4}, {"pp", 8}, {"dp", 78}, {"zero_stage", 1}};
  row["batch"]["global_batch"] = 78;
  const Scenario rack = scenario_of(row);
  EXPECT_EQ(rack.cluster.node.gpus, 64U);
  EXPECT_EQ(rack.cluster.node.nics, 64U);
  EXPECT_EQ(rack.cluster.nodes, 39U);
  row["hardware"] = {{"gpu", "A100-SXM4-80GB"}, {"nics", "4xHDR"}, {"num_gpus", 2}};
  row["parallel"] = {{"tp", 2}};
  const Scenario two = scenario_of(row);
  EXPECT_EQ(two.cluster.node.gpus, 2U);
  EXPECT_EQ(two.cluster.node.nics, 1U) << "four NICs for eight GPUs";
}

// Are precisions of eight and four bits recipes?
TEST(RowScenario, PrecisionsOfEightAndFourBitsAreRecipes) {
  Json row = gpt3();
  row["hardware"] = {{"gpu", "GB200-NVL72"}, {"nics", "4x400Gb/s"}, {"num_gpus", 64}};
  row["parallel"] = {{"tp", 4}, {"pp", 8}, {"dp", 2}, {"zero_stage", 1}};
  for (const auto& [said, recipe] :
       {std::pair{"MXFP8", "fp8_cached"}, std::pair{"NVFP4", "nvfp4"}}) {
    row["precision"] = said;
    EXPECT_EQ(scenario_of(row).plan.training.recipe, recipe);
  }
}

// Does the scenario accept every method of full recomputation? The method determines which layers
// are recomputed.
TEST(RowScenario, TakesEveryMethodOfFullRecomputation) {
  for (const char* method : {"uniform", "block", "every"}) {
    Json row = gpt3();
    row["recompute"] = std::string("full (") + method + ", 2 layers)";
    const Training training = scenario_of(row).plan.training;
    EXPECT_EQ(training.recompute, Recompute::Full) << method;
    EXPECT_EQ(word_for(kRecomputeMethods, training.recompute_method), method);
    EXPECT_EQ(training.recompute_num_layers, 2) << method;
  }
}

// Does the scenario accept a fraction or a list of recomputed layers?
TEST(RowScenario, TakesAFractionOrAListOfRecomputedLayers) {
  Json row = gpt3();
  row["recompute"] = "full (fraction, 0.5)";
  Training training = scenario_of(row).plan.training;
  EXPECT_EQ(training.recompute, Recompute::Full);
  EXPECT_EQ(training.recompute_method, RecomputeMethod::Fraction);
  EXPECT_EQ(training.recompute_fraction, 0.5);
  row["recompute"] = "full (layers, 0, 3 and 95)";
  training = scenario_of(row).plan.training;
  EXPECT_EQ(training.recompute_method, RecomputeMethod::Layers);
  EXPECT_EQ(training.recompute_layers, (std::vector<std::int64_t>{0, 3, 95}));
  for (const char* said : {"full (block, many layers)", "full (layers, 1.5)",
                           "full (layers, 1e300)", "full (fraction, 1e999)",
                           "full (every, -2 layers)", "full (every, 2 3)", "full (fraction, )"}) {
    row["recompute"] = said;
    EXPECT_NE(refusal_of(row).find("cannot be expressed"), std::string::npos) << said;
  }
}

bool assumes(const Scenario& scenario, const std::string& words) {
  return std::ranges::any_of(scenario.assumptions, [&](const std::string& sentence) {
    return sentence.find(words) != std::string::npos;
  });
}

// Does the scenario report the meaning it assumes for "selective"? "selective" alone means the
// parts that the framework recomputes by default.
TEST(RowScenario, SaysWhatSelectiveIsTakenFor) {
  Json row = gpt3();
  EXPECT_FALSE(assumes(scenario_of(row), "selective recomputation"));
  row["recompute"] = "selective";
  const Scenario megatron = scenario_of(row);
  EXPECT_EQ(megatron.plan.training.recompute_modules, RecomputeModules{});
  EXPECT_TRUE(assumes(megatron, "core_attn, as where --recompute-modules is left out"));
  row["framework"] = "torchtitan (FSDP2)";
  row["parallel"] = {{"tp", 8}, {"dp", 8}, {"zero_stage", 3}};
  const Scenario titan = scenario_of(row);
  EXPECT_EQ(titan.plan.training.recompute, Recompute::Full);
  EXPECT_EQ(titan.plan.training.recompute_method, RecomputeMethod::Every);
  EXPECT_EQ(titan.plan.training.recompute_num_layers, 2);
  EXPECT_TRUE(assumes(titan, "every second layer is checkpointed"));
}

// Does the scenario use the attention kernel that the row names?
TEST(RowScenario, TakesTheKernelOfAttentionThatItNames) {
  Json row = gpt3();
  EXPECT_EQ(scenario_of(row).plan.training.attention, AttentionKind::Unfused);  // megatron_2022
  for (const auto& [said, kind] :
       {std::pair{"flash", AttentionKind::Flash},
        std::pair{"causal, memory-efficient (xFormers)", AttentionKind::MemoryEfficient},
        std::pair{"unfused", AttentionKind::Unfused}}) {
    row["model"]["attention"] = said;
    EXPECT_EQ(scenario_of(row).plan.training.attention, kind) << said;
  }
}

// Does the scenario use a GPU by its data sheet? The row names a machine of the list with other
// GPUs, whose data sheet the user has.
TEST(RowScenario, TakesAGpuByItsDataSheet) {
  const fs::path sheet = fs::path(testing::TempDir()) / "a100_64gb.json";
  write_file(sheet, R"json({"schema": "trainyard.gpu_profile", "version": 1, "title": "A100 64 GB",
    "derived_from": "a100_80gb",
    "sheet": {"memory": {"value": "64 GB", "source": "our vendor"}}})json");
  Json row = gpt3();
  row["hardware"] = {{"node", "dgx_a100_80gb"}, {"gpu_profile", sheet.string()}, {"num_gpus", 64}};
  const ClusterSpec cluster = scenario_of(row).cluster;
  EXPECT_EQ(cluster.node.gpu, sheet.string());
  EXPECT_DOUBLE_EQ(cluster.node.gpu_memory.value(), 64e9);
  row["hardware"]["gpu_profile"] = "no_such_gpu";
  EXPECT_NE(refusal_of(row).find("no_such_gpu"), std::string::npos);
}

// Does the error report why a row cannot be expressed?
TEST(RowScenario, SaysWhyARowCannotBeExpressed) {
  Json row = gpt3();
  row["hardware"]["gpu"] = "Gaudi3";
  EXPECT_NE(refusal_of(row).find("no platform is known for \"Gaudi3\""), std::string::npos);
  row = gpt3();
  row["recompute"] = "by the moon";
  EXPECT_NE(refusal_of(row).find("\"by the moon\" cannot be expressed"), std::string::npos);
  row = gpt3();
  row["model"].erase("vocab");
  EXPECT_NE(refusal_of(row).find("/model/vocab"), std::string::npos);
  row = gpt3();
  row["parallel"]["tp"] = "8";
  EXPECT_EQ(refusal_of(row), "/parallel/tp: must be a number, not \"8\"");
}

// Does the scenario accept a row that a user has written? The row has types in the notation of
// programs, a plain "selective", the user's own node, and no more about software than the age of
// its GPU implies.
TEST(RowScenario, TakesARowAsItsUserWritesIt) {
  Json row = gpt3();
  row["precision"] = "bf16 (mine)";
  row["recompute"] = "selective";
  const Scenario on_a100 = scenario_of(row);
  EXPECT_EQ(on_a100.plan.training.precision, DataType::Bf16);
  EXPECT_EQ(on_a100.plan.training.recompute, Recompute::Selective);
  EXPECT_EQ(on_a100.plan.training.attention, AttentionKind::Unfused);
  row["hardware"]["gpu"] = "H100";
  EXPECT_NE(refusal_of(row).find("known: A100-SXM4, "), std::string::npos);
  row["hardware"]["node"] = "dgx_h100";
  const Scenario on_h100 = scenario_of(row);
  EXPECT_EQ(on_h100.cluster.node.gpu, "h100");
  EXPECT_EQ(on_h100.plan.training.attention, AttentionKind::Flash);
}

// Are the practices of the software among the assumptions and the defaults?
TEST(RowScenario, WhatItsSoftwareDoesIsAmongTheAssumptionsAndTheDefaults) {
  const Scenario made = scenario_of(gpt3());
  EXPECT_EQ(std::ranges::count_if(made.assumptions,
                                  [](const auto& text) {
                                    return text.starts_with("Megatron-LM: runs of Megatron-LM on");
                                  }),
            1);
  EXPECT_EQ(std::ranges::count_if(made.applied_defaults,
                                  [](const AppliedDefault& one) {
                                    return one.field == "training.attention" &&
                                           one.source.starts_with("Korthikanti");
                                  }),
            1);
  Json row = gpt3();
  row.erase("precision");
  EXPECT_EQ(scenario_of(row).assumptions.back(), "nothing is said of the precision: it is bf16");
}

// Does the row have the defaults that `run` has? A user's scenario that names the framework has the
// same defaults as a row of a validation.
TEST(RowScenario, HasTheDefaultsThatRunHas) {
  const Scenario row = scenario_of(gpt3());
  const Scenario hand = load_scenario(
      (data_directory() / "scenarios/megatron/gpt3_175b_64xa100_selective.json").string(), {});
  const Json theirs = resolved(row)["applied_defaults"];
  ASSERT_GE(theirs.size(), 6U);
  EXPECT_EQ(resolved(hand)["applied_defaults"].dump(), theirs.dump());
  EXPECT_EQ(resolved(hand)["training"].dump(), resolved(row)["training"].dump());
  EXPECT_EQ(hand.stragglers, row.stragglers);
  EXPECT_EQ(hand.host, row.host);
}

// Is vTrain's table read?
TEST(Dataset, ReadsVtrainsTable) {
  const std::string heading =
      "gpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,iteration_ms\n";
  const std::vector<MeasuredRow> rows =
      read_text("single.csv", heading + "2,16,8,1024,16,24,1024,1,1,2,372.160408\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].step_time_s, 0.372160408);
  EXPECT_EQ(rows[0].source, "vtrain_single");
  const Scenario s = read_scenario_document("row", row_scenario(load_row_tables(), rows[0]));
  EXPECT_EQ(s.plan.parallelism.pipeline, 2);
  EXPECT_EQ(s.plan.architecture.ffn, 4096);
  EXPECT_EQ(s.plan.training.recompute, Recompute::Full);
  EXPECT_THROW((void)read_text("bad.csv", heading + "2,16,8,1024\n"), InputError);
  EXPECT_THROW((void)read_text("bad.json", "{\"a\": 1}"), InputError);
}

// Is the time computed from the throughput where there is no other figure?
TEST(Dataset, TakesTheTimeFromTheThroughputWhereThereIsNoOther) {
  Json json = gpt3();
  json["measured"] = {{"tokens_per_s_per_gpu", 148.945}};
  EXPECT_NEAR(row_of(json).step_time_s, 64.0 * 2048 / (148.945 * 64), 1e-12);
}

// Are constants read, and changed in a folder that comes before the data?
TEST(Constants, AreReadAndChangedInAFolderBeforeTheData) {
  const Constant constant = read_constant("kernels/profiles/h100.json#/gemm/sustained_time/value");
  EXPECT_GT(constant.value, 0.5);
  fs::path folder;
  {
    const DataOverlay data({{constant, 1.25}});
    folder = data.folder();
    setenv("TRAINYARD_DATA", folder.c_str(), 1);
    EXPECT_EQ(read_constant(constant.name).value, 1.25);
    EXPECT_EQ(read_constant("kernels/profiles/a100_80gb.json#/gemm/launch").unit, " us");
    EXPECT_EQ(data_file("kernels/profiles", "h100"), folder / "kernels/profiles/h100.json");
    EXPECT_EQ(data_file("kernels/modules", "h100"), data_directory() / "kernels/modules/h100.json");
    unsetenv("TRAINYARD_DATA");
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_EQ(read_constant(constant.name).value, constant.value);
  EXPECT_THROW((void)read_constant("kernels/profiles/h100.json#/title"), InputError);
  EXPECT_THROW((void)read_constant("kernels/profiles/h100.json#/nothing"), InputError);
  EXPECT_THROW((void)read_constant("kernels/profiles/h100.json"), InputError);
}

// Do constants joined by + follow the first in its ratio, each in its own file?
TEST(Constants, GoAlongInTheirRatio) {
  const std::string first = "kernels/profiles/h100.json#/gemm/sustained_time/value";
  const std::string second = "kernels/profiles/a100_80gb.json#/gemm/sustained_time/value";
  const std::string third = "kernels/profiles/a100_80gb.json#/gemm/launch";
  const Constant joined = read_constant(first + "+" + second + "+" + third);
  ASSERT_EQ(joined.also.size(), 2U);
  EXPECT_EQ(joined.also[0].name, second);
  EXPECT_TRUE(joined.also[0].also.empty());
  const double launch = read_constant(third).value;
  const DataOverlay data({{joined, 1.5 * joined.value}});
  setenv("TRAINYARD_DATA", data.folder().c_str(), 1);
  EXPECT_DOUBLE_EQ(read_constant(first).value, 1.5 * joined.value);
  EXPECT_DOUBLE_EQ(read_constant(second).value, 1.5 * joined.also[0].value);
  EXPECT_NEAR(read_constant(third).value, 1.5 * launch, 1e-5 * launch);
  unsetenv("TRAINYARD_DATA");
  EXPECT_THROW((void)read_constant(first + "+"), InputError);
}

}  // namespace
}  // namespace trainyard
