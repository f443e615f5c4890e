// The shapes of models/data and their parameters and FLOPs (oracles 47 to 53).
#include "models/architecture/architecture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "models/architecture/flops.hpp"
#include "models/architecture/weights.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "tests/models/architecture/kinds.hpp"
#include "tests/models/architecture/stage_shard.hpp"
#include "tests/models/architecture/step_flops.hpp"

namespace trainyard {
namespace {

constexpr double kExact = 1e-9;

std::int64_t parameters(const std::string& name) {
  return parameter_count(load_architecture(name));
}

double billions(const std::string& name) { return static_cast<double>(parameters(name)) / 1e9; }

// Is a split among no ranks, or among ranks that do not divide, refused?
TEST(Parameters, AreSplitAmongRanksThatDivide) {
  const Weight whole{.inputs = 8, .outputs = 8};
  const Weight columns{.inputs = 8, .outputs = 8, .split = Split::Column, .units = 8};
  EXPECT_EQ(split_parameters(columns, 4), 16);
  EXPECT_THROW((void)split_parameters(whole, 0), InternalError);
  EXPECT_THROW((void)split_parameters(columns, 3), InternalError);
}

// Are the parameter counts of dense models exact?
TEST(Parameters, ExactCounts) {
  EXPECT_EQ(parameters("llama2-7b"), 6'738'415'616);
  EXPECT_EQ(parameters("llama2-13b"), 13'015'864'320);
  EXPECT_EQ(parameters("llama2-70b"), 68'976'648'192);
  EXPECT_EQ(parameters("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(parameters("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(parameters("llama3-405b"), 405'853'388'800);
  EXPECT_EQ(parameters("gpt2-small"), 124'439'808);
  EXPECT_EQ(parameters("gpt3-175b"), 174'604'259'328);
}

// Are the parameter counts of models with experts exact? The totals are published to the last
// parameter: Mixtral and DeepSeek-V3 (router biases included, without the MTP layer), Qwen3 and
// Qwen2.5 as counted from their weights.
TEST(Parameters, ExactCountsWithExperts) {
  EXPECT_EQ(parameters("mixtral-8x7b"), 46'702'792'704);
  EXPECT_EQ(parameters("mixtral-8x22b"), 140'630'071'296);
  EXPECT_EQ(parameters("qwen3-30b-a3b"), 30'532'122'624);
  EXPECT_EQ(parameters("qwen3-235b-a22b"), 235'093'634'560);
  EXPECT_EQ(parameters("deepseek-v3"), 671'026'419'200);
  // 116.83 billion (model card), minus the 64 sinks of each of 36 layers.
  EXPECT_EQ(parameters("gpt-oss-120b"), 116'829'156'672 - 36 * 64);
  EXPECT_EQ(parameters("qwen2.5-7b"), 7'615'616'512);
  EXPECT_EQ(parameters("qwen2.5-72b"), 72'706'203'648);
}

// Does a token use only the experts to which it is routed?
TEST(Parameters, OneTokenMeetsTheExpertsItIsSentTo) {
  EXPECT_EQ(active_parameter_count(load_architecture("mixtral-8x7b")), 12'879'925'248);
  const Architecture deepseek = load_architecture("deepseek-v3");
  EXPECT_EQ(active_parameter_count(deepseek), 37'552'297'472);
  EXPECT_EQ(active_parameter_count(deepseek) - deepseek.vocab * deepseek.hidden, 36'625'618'432);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(load_architecture("llama4-maverick"))),
              17e9, 0.5e9);
  EXPECT_EQ(active_parameter_count(load_architecture("llama3-8b")), 8'030'261'248);
}

// Do the kinds of layers add up? All layers have experts, or all but the first, or every second
// one.
TEST(Layers, KindsAddUp) {
  for (const std::string& name : architecture_names()) {
    const Architecture a = load_architecture(name);
    std::int64_t moe = 0;
    for (std::int64_t layer = 0; layer < a.layers; ++layer)
      if (layer_kind(a, layer) == moe_layer(a)) ++moe;
    EXPECT_EQ(layers_of(a, moe_layer(a)), moe) << name;
    EXPECT_EQ(layers_of(a, dense_layer(a)), a.layers - moe) << name;
  }
  EXPECT_EQ(
      layers_of(load_architecture("deepseek-v3"), dense_layer(load_architecture("deepseek-v3"))),
      3);
  EXPECT_EQ(layers_of(load_architecture("llama4-maverick"),
                      moe_layer(load_architecture("llama4-maverick"))),
            24);
}

// Are the weights of a layer in the order of its parts: attention, then a router if there are
// experts, then the feed-forward part?
TEST(Layers, WeightsStandPartByPart) {
  std::size_t kinds = 0;
  for (const auto& [name, attention] : {std::pair{"llama3-8b", 3}, {"deepseek-v3", 5}}) {
    const Architecture a = load_architecture(name);
    for (const LayerKind kind : {dense_layer(a), moe_layer(a)}) {
      if (kind == moe_layer(a) && !a.has_experts()) continue;
      const std::vector<Weight> weights = layer_weights(a, kind);
      EXPECT_TRUE(std::ranges::is_sorted(weights, {}, &Weight::part)) << name;
      EXPECT_EQ(std::ranges::count(weights, WeightPart::Attention, &Weight::part), attention);
      EXPECT_EQ(std::ranges::count(weights, WeightPart::Router, &Weight::part),
                kind == moe_layer(a) ? 1 : 0);
      ++kinds;
    }
  }
  EXPECT_EQ(kinds, 3U) << "both of DeepSeek-V3, and the dense one of Llama";
}

// Does the parameter count of a GPT follow the published formula? P = 12Lh^2(1 + 13/(12h) +
// (V+s)/(12Lh)) leaves out the final norm, so it is 2h less than the count.
TEST(Parameters, GptFormula) {
  std::size_t gpts = 0;
  for (const std::string& name : architecture_names()) {
    const Architecture a = load_architecture(name);
    if (!a.biases || a.has_experts()) continue;  // not a GPT
    const auto h = static_cast<double>(a.hidden);
    const auto layers = static_cast<double>(a.layers);
    const double rows = static_cast<double>(a.vocab + a.max_positions);
    const double formula = 12 * layers * h * h * (1 + 13 / (12 * h) + rows / (12 * layers * h));
    EXPECT_NEAR(static_cast<double>(parameter_count(a)) - 2 * h, formula, kExact * formula) << name;
    ++gpts;
  }
  EXPECT_GE(gpts, 15U);
  EXPECT_NEAR(billions("gpt-22b"), 22.0743, 1e-4);
  EXPECT_NEAR(billions("gpt-529.6b"), 529.6008, 1e-4);
  EXPECT_NEAR(billions("gpt-1008b"), 1008.0387, 1e-4);
  Architecture padded = load_architecture("gpt3-175b");
  padded.vocab = 51'200;
  EXPECT_NEAR(static_cast<double>(parameter_count(padded)) / 1e9, 174.6158, 1e-4);
}

// Are the models of Narayanan et al.'s table 1 as large as their names? Their names are their
// parameters in billions.
TEST(Parameters, LadderIsWhatItsNamesSay) {
  for (const std::string size :
       {"1.7", "3.6", "7.5", "18.4", "39.1", "76.1", "145.6", "310.1", "529.6", "1008"}) {
    EXPECT_NEAR(billions("gpt-" + size + "b"), std::stod(size), 0.051) << size;
  }
}

// Do the layers, the embedding and the LM head add up to the parameters of the model?
TEST(Parameters, LayersAndEndsAddUp) {
  for (const std::string& name : architecture_names()) {
    const Architecture a = load_architecture(name);
    const LayerShard layer = layer_shard(a, layer_kind(a, 0), {.tensor = 1});
    EXPECT_EQ(layer.total(), layer_parameter_count(a, layer_kind(a, 0))) << name;
    const StageShardQuery whole{.part = {.layers = layers_of(a, dense_layer(a)),
                                         .first = true,
                                         .last = true,
                                         .moe_layers = layers_of(a, moe_layer(a))},
                                .vocab = a.vocab};
    EXPECT_EQ(stage_shard(a, whole).total(), parameter_count(a)) << name;
  }
}

// Is the vocabulary padded as in Megatron?
TEST(Vocabulary, Padding) {
  EXPECT_EQ(padded_vocab(50'257, 8, 128), 51'200);
  EXPECT_EQ(padded_vocab(128'256, 8, 128), 129'024);
  EXPECT_EQ(padded_vocab(51'200, 8, 128), 51'200);
  EXPECT_EQ(padded_vocab(128'256, 1, 1), 128'256);
}

double forward(const std::string& name) {
  const Architecture a = load_architecture(name);
  return token_flops(a, {.sequence_length = 8192, .vocab = a.vocab}).forward();
}

// Are the FLOPs per token of Llama 3 those of its shape? With queries of width q and keys of width
// k, a layer has 2h(q + 2k) + 2qh + 6hf for matrices and 2sq for causal attention. The head has
// 2hV.
TEST(TokenFlops, Llama3) {
  const Architecture small = load_architecture("llama3-8b");
  const TokenFlops token = token_flops(small, {.sequence_length = 8192, .vocab = small.vocab});
  EXPECT_DOUBLE_EQ(token.layers.front().matrices, 436'207'616.0);
  EXPECT_DOUBLE_EQ(token.layers.front().attention, 67'108'864.0);
  EXPECT_NEAR(forward("llama3-8b"), 1.715680e10, 5e3);
  EXPECT_NEAR(forward("llama3-70b"), 1.497408e11, 5e4);
  EXPECT_NEAR(forward("llama3-405b"), 8.413187e11, 5e4);
  const Architecture large = load_architecture("llama3-405b");
  EXPECT_DOUBLE_EQ(token_flops(large, {.sequence_length = 8192}).layers[0].matrices,
                   6'375'342'080.0);
}

// Are the FLOPs per token of DeepSeek-V3 those of its shape (DeepSeek-AI 2024, arXiv 2412.19437,
// section 4.2: latent attention, three dense layers, eight routed experts and one shared expert)?
// Attention has s(192 + 128) for each of 128 heads; matrices have 2 per weight.
TEST(ModelFlops, DeepSeekPerToken) {
  const Architecture a = load_architecture("deepseek-v3");
  const TokenFlops token = token_flops(a, {.sequence_length = 4096, .vocab = a.vocab});
  EXPECT_DOUBLE_EQ(token.layers.front().attention, 167'772'160.0);
  EXPECT_DOUBLE_EQ(token.layers.front().matrices, 374'210'560.0 + 792'723'456.0);
  EXPECT_DOUBLE_EQ(token.layers.back().matrices, 374'210'560.0 + 796'393'472.0);
  EXPECT_NEAR(token.forward(), 8.348330e10, 5e3);
  EXPECT_NEAR(token.train(), 2.504499e11, 5e4);
}

struct Publication {
  std::string model;
  std::int64_t sequences = 0;
  double gpus = 0.0;
};

FlopsQuery gpt_query(std::int64_t sequences) {
  return {.sequences = sequences,
          .sequence_length = 2048,
          .vocab = 51'200,
          .attention = AttentionCount::Full};
}

double hardware_flops(const std::string& model, std::int64_t sequences) {
  const Architecture a = load_architecture(model);
  const FlopsQuery query = gpt_query(sequences);
  return (model_flops(a, query) + recomputed_flops(a, query, Recompute::Full)).value();
}

// Do the FLOPs of Narayanan et al. include recomputation?
TEST(ModelFlops, NarayananCountsRecomputation) {
  EXPECT_NEAR(hardware_flops("gpt3-175b", 1536), 4.5109707533e18, kExact * 4.5e18);
  EXPECT_NEAR(hardware_flops("gpt-1008b", 3072), 5.1391e19, 5e14);
  EXPECT_NEAR(hardware_flops("gpt-145.6b", 2304) / (1536 * 148e12), 24.817, 5e-4);
  EXPECT_NEAR(hardware_flops("gpt-529.6b", 2520) / (2520 * 163e12), 54.085, 5e-4);
  EXPECT_NEAR(hardware_flops("gpt-1008b", 3072) / (3072 * 163e12), 102.630, 5e-4);
}

// Do the FLOPs of every GPT in the data follow 96BsLh^2(1 + s/6h + V/16Lh), even without printed
// figures?
TEST(ModelFlops, NarayananFormula) {
  std::size_t gpts = 0;
  for (const std::string& name : architecture_names()) {
    const Architecture a = load_architecture(name);
    if (!a.biases || a.has_experts()) continue;  // not a GPT
    const auto h = static_cast<double>(a.hidden);
    const auto layers = static_cast<double>(a.layers);
    const double formula =
        96.0 * 7 * 2048 * layers * h * h * (1 + 2048 / (6 * h) + 51'200 / (16 * layers * h));
    EXPECT_NEAR(hardware_flops(name, 7), formula, kExact * formula) << name;
    ++gpts;
  }
  EXPECT_GE(gpts, 15U);
}

double a100_mfu(const Publication& run, double seconds) {
  const Flops flops = model_flops(load_architecture(run.model), gpt_query(run.sequences));
  return 100.0 * flops.value() / (seconds * run.gpus * 312e12);
}

// Is the model FLOPs utilisation that of Korthikanti et al.?
TEST(ModelFlops, KorthikantiUtilisation) {
  EXPECT_NEAR(a100_mfu({"gpt-22b", 4, 8}, 1.10), 41.65, 5e-3);
  EXPECT_NEAR(a100_mfu({"gpt3-175b", 64, 64}, 13.75), 51.39, 5e-3);
  EXPECT_NEAR(a100_mfu({"gpt-530b", 280, 280}, 37.83), 56.05, 5e-3);
  EXPECT_NEAR(a100_mfu({"gpt-1t", 512, 512}, 71.49), 56.27, 5e-3);
}

// Is the selective recomputation that of Korthikanti et al.? The paper's hardware FLOPs 72BsLh^2(1
// + s/3h + V/12hL) count the attention core twice in full.
TEST(ModelFlops, KorthikantiSelectiveRecomputation) {
  const auto ratio = [](const std::string& model) {
    const Architecture a = load_architecture(model);
    const double flops = model_flops(a, gpt_query(1)).value();
    return 1.0 + 3.0 * recomputed_flops(a, gpt_query(1), Recompute::Selective).value() / flops;
  };
  EXPECT_NEAR(ratio("gpt3-175b"), 1.0269, 5e-5);
  EXPECT_NEAR(ratio("gpt-530b"), 1.0164, 5e-5);
  const Architecture a = load_architecture("gpt3-175b");
  EXPECT_EQ(recomputed_flops(a, gpt_query(1), Recompute::None), Flops{0.0});
}

// Are the FLOPs of Llama 405B those of the publication?
TEST(ModelFlops, Llama405B) {
  const Architecture a = load_architecture("llama3-405b");
  const FlopsQuery query{.sequences = 2048, .sequence_length = 8192, .vocab = a.vocab};
  const double flops = model_flops(a, query).value();
  EXPECT_NEAR(flops / 16'777'216, 2.523956e12, 5e5);
  EXPECT_NEAR(flops / (430e12 * 8192), 12.02, 5e-3);
  EXPECT_NEAR(flops / (400e12 * 16'384), 6.46, 5e-3);
}

// Does the count of torchtitan differ as documented? It counts 6(N - N_emb) + 12Lhs: norms too, and
// the full square of attention.
TEST(ModelFlops, ConventionTrap) {
  const Architecture a = load_architecture("llama3-8b");
  const std::int64_t without_embedding = parameter_count(a) - a.vocab * a.hidden;
  const std::int64_t torchtitan = 6 * without_embedding + 12 * a.layers * a.hidden * 8192;
  EXPECT_EQ(torchtitan, 57'914'449'920);
  const TokenQuery full{
      .sequence_length = 8192, .vocab = a.vocab, .attention = AttentionCount::Full};
  const double norms = 6.0 * static_cast<double>((2 * a.layers + 1) * a.norm_width());
  EXPECT_NEAR(token_flops(a, full).train() + norms, static_cast<double>(torchtitan), 1.0);
  const double peak = 989.4e12;
  EXPECT_NEAR(100 * 5762 * static_cast<double>(torchtitan) / peak, 33.73, 5e-3);
  EXPECT_NEAR(100 * 6667 * static_cast<double>(torchtitan) / peak, 39.02, 6e-3);
  const double causal = 3.0 * forward("llama3-8b");
  EXPECT_NEAR(100 * 5762 * causal / peak, 29.97, 5e-3);
  EXPECT_NEAR(100 * 6667 * causal / peak, 34.68, 5e-3);
}

// Does every file have a source and the name of its model?
TEST(Load, EveryFileHasASourceAndItsName) {
  EXPECT_EQ(architecture_names().size(), 31U);
  std::size_t dense = 0;
  for (const std::string& name : architecture_names()) {
    const Architecture a = load_architecture(name);
    EXPECT_EQ(a.name, name);
    EXPECT_GT(a.source.size(), 20U) << name;
    if (!a.has_experts()) {
      EXPECT_EQ(a.query_width(), a.hidden) << name;
      ++dense;
    }
  }
  EXPECT_GE(dense, 23U);
}

// Are experts divided among the ranks of expert parallelism?
TEST(Shards, ExpertsAreDividedAmongExpertParallelRanks) {
  const Architecture a = load_architecture("deepseek-v3");
  const LayerShard whole = layer_shard(a, moe_layer(a), {.tensor = 1});
  const LayerShard part = layer_shard(a, moe_layer(a), {.tensor = 1, .expert = 64});
  EXPECT_EQ(whole.total(), layer_parameter_count(a, moe_layer(a)));
  EXPECT_EQ(whole.experts, 256 * 3 * 7168 * 2048LL);
  EXPECT_EQ(part.experts * 64, whole.experts);
  EXPECT_EQ(part.sharded, whole.sharded);
  const LayerShard split = layer_shard(a, moe_layer(a), {.tensor = 4, .expert_tensor = 2});
  EXPECT_EQ(split.experts * 2, whole.experts);
  EXPECT_EQ(split.sharded * 4, whole.sharded);    // heads and the shared expert
  EXPECT_EQ(split.replicated, whole.replicated);  // latents, router, norms
}

// Does an unknown name suggest the nearest one?
TEST(Load, UnknownNameNamesTheNearest) {
  try {
    static_cast<void>(load_architecture("llama3-80b"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("llama3-80b"));
    EXPECT_THAT(error.what(), testing::HasSubstr("llama3-70b"));
  }
}

Architecture read(const std::string& text) {
  JsonFile file = JsonFile::parse("model.json", text);
  const Architecture a = read_architecture(file.root());
  file.finish();
  return a;
}

// Does an inline model take the defaults of a Llama?
TEST(Load, InlineModelTakesALlamasDefaults) {
  const Architecture a = read(
      R"({"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100, "max_positions": 32})");
  EXPECT_EQ(a.name, "custom");
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_TRUE(a.gated_ffn);
  EXPECT_EQ(a.norm, NormKind::RmsNorm);
  EXPECT_EQ(a.positions, Positions::Rotary);
}

// Do only learned positions have parameters: one row of the hidden size for each?
TEST(Load, OnlyLearnedPositionsHaveParameters) {
  const std::string shape =
      R"({"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100, "max_positions": 32)";
  const std::int64_t rotary = parameter_count(read(shape + "}"));
  EXPECT_EQ(parameter_count(read(shape + R"(, "positions": "none"})")), rotary);
  EXPECT_EQ(parameter_count(read(shape + R"(, "positions": "learned"})")), rotary + 32 * 64);
}

// Are all errors of a model reported together?
TEST(Load, FaultsAreNamedTogether) {
  try {
    static_cast<void>(read(R"({"layers": 0, "hidden": 66, "heads": 4, "kv_heads": 3, "ffn": 128,
                               "vocab": 100, "max_positions": 32, "positions": "alibi"})"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 4U) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr("/layers"));
    EXPECT_THAT(error.what(), testing::HasSubstr("hidden size 66 does not divide by 4 heads"));
    EXPECT_THAT(error.what(), testing::HasSubstr("4 heads do not divide among 3 key-value heads"));
    EXPECT_THAT(error.what(), testing::HasSubstr("alibi"));
  }
}

}  // namespace
}  // namespace trainyard
