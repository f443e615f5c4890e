// Memory of a rank: published tables and identities (oracles 54 to 56), and Llama-3 70B against
// hand arithmetic.
#include "models/architecture/memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "models/architecture/weights.hpp"
#include "tests/models/architecture/kinds.hpp"
#include "tests/models/architecture/stage_shard.hpp"

namespace trainyard {
namespace {

constexpr double kSame = 1e-9;
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

double number(std::int64_t value) { return static_cast<double>(value); }

ActivationQuery unfused(std::int64_t tensor, std::int64_t micro_batch) {
  return {.tensor = tensor,
          .micro_batch = micro_batch,
          .sequence_length = 2048,
          .attention = AttentionKind::Unfused,
          .precision = DataType::Fp16};
}

ActivationQuery with(ActivationQuery query, bool sequence_parallel, Recompute recompute) {
  query.sequence_parallel = sequence_parallel;
  query.recompute = recompute;
  return query;
}

// One row of the table: none, sequence parallel, selective, both, full recomputation.
struct Published {
  std::string model;
  std::int64_t pipeline = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batch = 1;
  double state_gib = 0.0;
  std::array<double, 5> activations_gib = {};
};

const std::vector<Published>& korthikanti() {
  static const std::vector<Published> rows = {
      {"gpt-22b", 1, 1, 4, 45.5625, {59.25, 39.5625, 29.25, 9.5625, 4.5}},
      {"gpt3-175b", 8, 3, 1, 45.5625, {66.84375, 41.4140625, 37.78125, 12.3515625, 5.8125}},
      {"gpt-530b",
       35,
       3,
       1,
       31.640625,
       {114.0234375, 66.513671875, 70.5859375, 23.076171875, 10.859375}},
      {"gpt-1t", 64, 1, 1, 32.958984375, {131.25, 76.5625, 81.25, 26.5625, 12.5}},
  };
  return rows;
}

// Are the activations those of the table of Korthikanti et al.?
TEST(Activations, KorthikantiTable) {
  for (const Published& row : korthikanti()) {
    const Architecture a = load_architecture(row.model);
    const ActivationQuery plain = unfused(8, row.micro_batch);
    const std::array<ActivationQuery, 5> columns = {
        plain, with(plain, true, Recompute::None), with(plain, false, Recompute::Selective),
        with(plain, true, Recompute::Selective), with(plain, false, Recompute::Full)};
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const double gib = number(a.layers) *
                         number(layer_activations(a, layer_kind(a, 0), columns[column]).total()) *
                         first_stage_factor(row.pipeline, row.chunks) / kGib;
      const double expected = row.activations_gib[column];
      EXPECT_NEAR(gib, expected, kSame * expected) << row.model << " column " << column;
    }
  }
}

// Is the model state that of the table of Korthikanti et al.? The paper counts 12Lh^2 parameters of
// 18 bytes.
TEST(State, KorthikantiTable) {
  const StateRecipe recipe{.precision = DataType::Fp16, .gradient_precision = DataType::Fp32};
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(recipe).total(), 18.0);
  for (const Published& row : korthikanti()) {
    const Architecture a = load_architecture(row.model);
    const std::int64_t parameters = 12 * a.layers * a.hidden * a.hidden / (8 * row.pipeline);
    const double gib = state_bytes(recipe, parameters).total() / kGib;
    EXPECT_NEAR(gib, row.state_gib, kSame * row.state_gib) << row.model;
  }
}

// Bytes per parameter by recipe and optimizer, whole and sharded over d = 8: the sum of weight,
// gradient, master weight and moments. Adam's 18 (6 + 12/d) and 20 (4 + 16/d) are those of
// Megatron-LM docs/user-guide/features/dist_optimizer.md, its 16 (4 + 12/d) is that of Rajbhandari
// et al. 2019, arXiv 1910.02054, section 3.1.
struct StateRow {
  std::string recipe;
  std::string optimizer;
  DataType gradients = DataType::Fp32;
  double whole = 0.0;
  double sharded = 0.0;  // a distributed optimizer over 8
};

// Are the bytes per parameter of each recipe and optimizer those sums?
TEST(State, RecipesAndOptimizers) {
  const std::vector<StateRow> rows = {
      {"standard", "adam", DataType::Fp32, 18.0, 6.0 + 12.0 / 8.0},
      {"standard", "adam", DataType::Bf16, 16.0, 4.0 + 12.0 / 8.0},
      {"fp16_gradient_copy", "adam", DataType::Fp16, 20.0, 4.0 + 16.0 / 8.0},
      {"standard", "adam_16bit_moments", DataType::Fp32, 14.0, 6.0 + 8.0 / 8.0},
      {"standard", "adam_16bit_moments", DataType::Bf16, 12.0, 4.0 + 8.0 / 8.0},
      {"standard", "adam_8bit", DataType::Fp32, 12.0, 6.0 + 6.0 / 8.0},
      {"standard", "sgd_momentum", DataType::Fp32, 14.0, 6.0 + 8.0 / 8.0},
      {"standard", "muon", DataType::Fp32, 14.0, 6.0 + 8.0 / 8.0},
      {"standard", "sgd", DataType::Fp32, 10.0, 6.0 + 4.0 / 8.0},
      {"fp8", "adam", DataType::Fp32, 18.0, 6.0 + 12.0 / 8.0},
      {"fp8_cached", "adam", DataType::Fp32, 20.0, 8.0 + 12.0 / 8.0},
      {"nvfp4", "adam", DataType::Fp32, 19.125, 7.125 + 12.0 / 8.0},
      {"pure_16bit", "adam_16bit_moments", DataType::Bf16, 8.0, 4.0 + 4.0 / 8.0},
  };
  for (const StateRow& row : rows) {
    StateRecipe recipe{.gradient_precision = row.gradients,
                       .recipe = load_recipe(row.recipe),
                       .optimizer = load_optimizer(row.optimizer)};
    EXPECT_DOUBLE_EQ(state_bytes_per_parameter(recipe).total(), row.whole)
        << row.recipe << " " << row.optimizer;
    recipe.zero_stage = 1;
    recipe.shards = 8;
    EXPECT_DOUBLE_EQ(state_bytes_per_parameter(recipe).total(), row.sharded)
        << row.recipe << " " << row.optimizer;
  }
}

// Does each optimizer have its step kernel? Every variant of Adam has Adam's kernel; any other
// optimizer has a kernel with its own name.
TEST(State, StepOfAnOptimizer) {
  for (const char* name : {"adam", "adam_8bit", "adam_16bit_moments"})
    EXPECT_EQ(load_optimizer(name).step, "adam") << name;
  for (const char* name : {"sgd", "sgd_momentum", "muon"})
    EXPECT_EQ(load_optimizer(name).step, name);
}

// Is the memory traffic of an optimizer step correct?
TEST(State, TrafficOfAStep) {
  EXPECT_DOUBLE_EQ(optimizer_step_bytes({}), 30.0);
  EXPECT_DOUBLE_EQ(optimizer_step_bytes({.precision = DataType::Fp32}), 28.0);
  EXPECT_DOUBLE_EQ(optimizer_step_bytes({.optimizer = load_optimizer("adam_8bit")}), 18.0);
  EXPECT_DOUBLE_EQ(optimizer_step_bytes({.optimizer = load_optimizer("sgd")}), 14.0);
}

// Do the activations of a layer add up to 34 sbh plus the attention core?
TEST(Activations, DecompositionOfThirtyFour) {
  const Architecture a = load_architecture("gpt3-175b");
  const std::int64_t sbh = 2048 * a.hidden;
  const LayerActivations kept = layer_activations(a, layer_kind(a, 0), unfused(1, 1));
  EXPECT_EQ(kept.norms, 4 * sbh);
  EXPECT_EQ(kept.attention, 11 * sbh);
  EXPECT_EQ(kept.ffn, 19 * sbh);
  EXPECT_EQ(kept.core, 80 * sbh);  // 5as/h
  EXPECT_EQ(kept.checkpoint, 0);
}

// Does softmax in parts keep fp32 probabilities? With 96 heads on 48 ranks a sequence has two
// matrices of scores, and two sequences have four. In parts, fp32 probabilities are kept instead of
// 16-bit ones: 7as/h instead of 5as/h, and 6as/h instead of 2as/h without dropout, where the cast
// probabilities are an input of the GEMM as well.
TEST(Activations, SoftmaxInPartsKeepsFp32Probabilities) {
  Architecture a = load_architecture("gpt3-175b");
  const std::int64_t scores = 2048LL * 2048 * a.heads / 48;
  EXPECT_EQ(layer_activations(a, layer_kind(a, 0), unfused(48, 1)).core, 7 * scores);
  EXPECT_EQ(layer_activations(a, layer_kind(a, 0), unfused(48, 2)).core, 5 * 2 * scores);
  a.dropout = false;
  EXPECT_EQ(layer_activations(a, layer_kind(a, 0), unfused(48, 1)).core, 6 * scores);
  EXPECT_EQ(layer_activations(a, layer_kind(a, 0), unfused(48, 2)).core, 2 * 2 * scores);
}

// Does tensor parallelism leave 10 sbh undivided?
TEST(Activations, TensorParallelismLeavesTenUndivided) {
  const Architecture a = load_architecture("gpt-22b");
  const std::int64_t sbh = 2048 * a.hidden;
  for (const std::int64_t t : {1, 2, 4, 8}) {
    const ActivationQuery query = with(unfused(t, 1), false, Recompute::Selective);
    EXPECT_EQ(layer_activations(a, layer_kind(a, 0), query).total(), 10 * sbh + 24 * sbh / t);
    EXPECT_EQ(
        layer_activations(a, layer_kind(a, 0), with(query, true, Recompute::Selective)).total(),
        34 * sbh / t);
    EXPECT_EQ(layer_activations(a, layer_kind(a, 0), with(query, false, Recompute::Full)).total(),
              2 * sbh);
    EXPECT_EQ(layer_activations(a, layer_kind(a, 0), with(query, true, Recompute::Full)).total(),
              2 * sbh / t);
  }
}

// Does unfused attention keep its scores once in each precision? One kernel keeps 2 bytes of each.
// PyTorch's softmax in fp32 adds 4, which are all there is where the next GEMM reads fp32. Llama
// has no dropout.
TEST(Activations, UnfusedAttentionKeepsEachPrecisionOfItsScoresOnce) {
  const Architecture a = load_architecture("llama3-8b");
  const auto bytes_of_score = [&](ActivationQuery query) {
    return layer_activations(a, layer_kind(a, 0), query).core * query.tensor /
           (a.heads * query.sequence_length * query.sequence_length);
  };
  ActivationQuery query = unfused(1, 1);
  EXPECT_EQ(bytes_of_score(query), 2) << "32 matrices of scores: one kernel";
  query.tensor = 16;
  EXPECT_EQ(bytes_of_score(query), 2 + 4) << "2 matrices: kernels of PyTorch";
  query.precision = DataType::Fp32;
  EXPECT_EQ(bytes_of_score(query), 4);
  query.tensor = 1;
  EXPECT_EQ(bytes_of_score(query), 4);
}

// Does sequence parallelism divide all activations?
TEST(Activations, SequenceParallelismDividesEverything) {
  for (const std::string name : {"gpt3-175b", "gpt-1t", "llama3-8b", "llama3-405b"}) {
    const Architecture a = load_architecture(name);
    for (const AttentionKind attention : {AttentionKind::Flash, AttentionKind::Unfused}) {
      ActivationQuery query = unfused(1, 2);
      query.attention = attention;
      const std::int64_t alone = layer_activations(a, layer_kind(a, 0), query).total();
      for (const std::int64_t t : {2, 4, 8}) {
        query.tensor = t;
        EXPECT_EQ(
            layer_activations(a, layer_kind(a, 0), with(query, true, Recompute::None)).total() * t,
            alone);
      }
    }
  }
}

// Are the activations of Llama with FlashAttention those of its tensors? With queries of width q,
// keys of width k and a heads they are sb(8h + 4q + 4k + 6f) bytes and 4asb for the log-sum-exp.
// Tensor parallelism leaves 8h undivided, sequence parallelism does not.
TEST(Activations, LlamaWithFlashAttention) {
  ActivationQuery query{.micro_batch = 1, .sequence_length = 8192};
  const std::int64_t mib = 1024 * 1024;
  const LayerActivations small = layer_activations(
      load_architecture("llama3-8b"), layer_kind(load_architecture("llama3-8b"), 0), query);
  EXPECT_EQ(small.total(), 1089 * mib);
  EXPECT_EQ(small.core, mib);
  const Architecture large = load_architecture("llama3-70b");
  EXPECT_EQ(layer_activations(large, layer_kind(large, 0), query).total(), (2144 + 2) * mib);
  query.tensor = 8;
  const std::int64_t sb = 8192;
  const std::int64_t divided =
      4 * large.query_width() + 4 * large.kv_width() + 6 * large.ffn + 4 * large.heads;
  EXPECT_EQ(layer_activations(large, layer_kind(large, 0), query).total(),
            sb * (8 * large.hidden + divided / 8));
  query.sequence_parallel = true;
  EXPECT_EQ(layer_activations(large, layer_kind(large, 0), query).total(), 281'280'512);
}

// Does context parallelism divide queries but not keys?
TEST(Activations, ContextParallelismDividesQueriesButNotKeys) {
  const Architecture a = load_architecture("gpt-22b");
  ActivationQuery query = unfused(1, 1);
  const LayerActivations whole = layer_activations(a, layer_kind(a, 0), query);
  query.context = 4;
  const LayerActivations quarter = layer_activations(a, layer_kind(a, 0), query);
  EXPECT_EQ(quarter.ffn * 4, whole.ffn);
  EXPECT_EQ(quarter.core * 4, whole.core);
}

// Are the activations of the embedding and the LM head correct?
TEST(Activations, Ends) {
  const Architecture gpt = load_architecture("gpt3-175b");
  ActivationQuery query = unfused(8, 1);
  EXPECT_EQ(embedding_activations(gpt, query), 2048 * gpt.hidden + 8 * 2048);
  query.sequence_parallel = true;
  EXPECT_EQ(embedding_activations(gpt, query), 2048 * gpt.hidden / 8 + 8 * 2048);
  const Architecture llama = load_architecture("llama3-8b");
  const ActivationQuery one{.micro_batch = 1, .sequence_length = 8192};
  EXPECT_EQ(embedding_activations(llama, one), 8 * 8192);
  const HeadActivations head = head_activations(llama, one, llama.vocab);
  EXPECT_EQ(head.logits, 2004LL * 1024 * 1024);
  EXPECT_EQ(head.logits_fp32, 4008LL * 1024 * 1024);
  EXPECT_EQ(head.head_input, 2 * 8192 * 4096);
}

// Is the model state that of ZeRO's table?
TEST(State, ZeroTable) {
  StateRecipe recipe{.precision = DataType::Fp16,
                     .gradient_precision = DataType::Fp16,
                     .zero_stage = 0,
                     .shards = 64};
  const std::array<double, 4> gigabytes = {120.0, 31.40625, 16.640625, 1.875};
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    recipe.zero_stage = stage;
    const double expected = gigabytes.at(static_cast<std::size_t>(stage));
    EXPECT_NEAR(state_bytes(recipe, 7'500'000'000).total() / 1e9, expected, kSame * expected);
  }
}

// Do the recipes have the expected bytes per parameter?
TEST(State, Recipes) {
  using enum DataType;
  const auto total = [](const StateRecipe& recipe) {
    return state_bytes_per_parameter(recipe).total();
  };
  EXPECT_DOUBLE_EQ(total({.precision = Fp32, .gradient_precision = Fp32}), 16.0);
  EXPECT_DOUBLE_EQ(
      total({.precision = Fp32, .gradient_precision = Fp32, .zero_stage = 1, .shards = 4}), 10.0);
  EXPECT_DOUBLE_EQ(total({.precision = Bf16, .gradient_precision = Bf16}), 16.0);
  EXPECT_DOUBLE_EQ(total({.precision = Bf16, .gradient_precision = Fp32}), 18.0);
  const StateRecipe megatron_fp16{
      .precision = Fp16, .gradient_precision = Fp16, .fp32_gradient_copy = true};
  EXPECT_DOUBLE_EQ(total(megatron_fp16), 20.0);
  const StateRecipe distributed{.zero_stage = 1, .shards = 8};
  const std::int64_t parameters = parameter_count(load_architecture("llama3-8b"));
  EXPECT_DOUBLE_EQ(total(distributed), 7.5);
  EXPECT_NEAR(state_bytes(distributed, parameters).total() / kGib, 56.091, 5e-4);
  EXPECT_NEAR(state_bytes({}, parameters).total() / kGib, 134.618, 5e-4);
}

// Llama-3 70B, t = 8, p = 4, d = 8, 16 microbatches of one sequence of 8192, 1F1B, ZeRO 1.
struct StageRow {
  StagePart part;
  std::int64_t in_flight = 0;
  std::int64_t parameters = 0;
  double state_gib = 0.0;
  double activations_gib = 0.0;
  double total_gib = 0.0;
};

// Is the memory of Llama-3 70B that of hand arithmetic, stage by stage (t = 8, p = 4, d = 8, s =
// 8192, b = 1)? State has 6 + 12/8 = 7.5 bytes per parameter. Stage r holds 4 - r microbatches of
// 20 layers.
TEST(WorkedExample, Llama70B) {
  const Architecture a = load_architecture("llama3-70b");
  const std::int64_t vocab = padded_vocab(a.vocab, 8, 128);
  const LayerShard layer = layer_shard(a, dense_layer(a), {.tensor = 8});
  EXPECT_EQ(layer.sharded, 106'954'752);
  EXPECT_EQ(layer.replicated, 16'384);
  const ActivationQuery query{
      .tensor = 8, .sequence_parallel = true, .micro_batch = 1, .sequence_length = 8192};
  const double per_layer = number(layer_activations(a, layer_kind(a, 0), query).total());
  const HeadActivations head = head_activations(a, query, vocab);
  const double logits = number(head.logits + head.logits_fp32) / kGib;
  EXPECT_DOUBLE_EQ(logits, 0.73828125);
  const std::vector<StageRow> rows = {
      {{20, true, false}, 4, 2'271'543'296, 15.8665, 20.95703125, 36.8236},
      {{20, false, false}, 3, 2'139'422'720, 14.9437, 15.7177734375, 30.6615},
      {{20, false, false}, 2, 2'139'422'720, 14.9437, 10.478515625, 25.4222},
      {{20, false, true}, 1, 2'271'551'488, 15.8666, 5.2392578125, 21.8441}};
  for (const StageRow& row : rows) {
    const StageShard stage = stage_shard(a, {.part = row.part, .tensor = 8, .vocab = vocab});
    EXPECT_EQ(stage.total(), row.parameters);
    const double state = state_bytes({.zero_stage = 1, .shards = 8}, stage.total()).total() / kGib;
    const double activations = number(row.in_flight * row.part.layers) * per_layer / kGib;
    EXPECT_NEAR(state, row.state_gib, 5e-5);
    EXPECT_DOUBLE_EQ(activations, row.activations_gib);
    EXPECT_NEAR(state + activations + (row.part.last ? logits : 0.0), row.total_gib, 1.01e-4);
  }
}

// Are key-value heads copied if there are more ranks than heads? The ranks have copies of the
// heads, not of the weights that compute them.
TEST(Shard, KeyValueHeadsAreCopiedWhereRanksOutnumberThem) {
  const Architecture a = load_architecture("llama3-70b");
  EXPECT_EQ(kv_heads_per_rank(a, 4), 2);
  EXPECT_EQ(kv_heads_per_rank(a, 8), 1);
  EXPECT_EQ(kv_heads_per_rank(a, 16), 1);
  EXPECT_EQ(kv_width_per_rank(a, 16), 128);
  EXPECT_FALSE(replicates_kv_heads(a, 8));
  EXPECT_TRUE(replicates_kv_heads(a, 16));
  EXPECT_EQ(layer_shard(a, dense_layer(a), {.tensor = 16}).sharded * 16,
            layer_shard(a, dense_layer(a), {.tensor = 1}).sharded);
}

// Is Megatron's estimate of the most loaded shard reproduced? GPT-3 shape without linear biases, t
// = 8, p = 16; all replicated parameters are spread evenly over the stages.
TEST(Shard, MegatronEstimate) {
  Architecture a = load_architecture("gpt3-175b");
  a.biases = false;
  const StageShard stage =
      stage_shard(a, {.part = {.layers = 6, .first = true}, .tensor = 8, .vocab = 51'200});
  const std::int64_t parameters =
      stage.layers_sharded + stage.layers_replicated + stage.embedding + a.norm_width() / 16;
  EXPECT_EQ(parameters, 1'437'894'144);
  EXPECT_NEAR(state_bytes({}, parameters).total() / kGib, 24.105, 5e-4);
  EXPECT_NEAR(state_bytes({.zero_stage = 1, .shards = 8}, parameters).total() / kGib, 10.044, 5e-4);
}

// Is a tied head a copy only on the last stage?
TEST(Shard, TiedHeadIsACopyOnTheLastStageOnly) {
  const Architecture gpt = load_architecture("gpt-22b");
  const StageShardQuery alone{
      .part = {.layers = 48, .first = true, .last = true}, .tensor = 8, .vocab = 51'200};
  EXPECT_EQ(stage_shard(gpt, alone).head, 0);
  const StageShardQuery last{.part = {.layers = 24, .last = true}, .tensor = 8, .vocab = 51'200};
  EXPECT_EQ(stage_shard(gpt, last).head, 6400 * gpt.hidden);
  EXPECT_EQ(stage_shard(gpt, last).replicated(),
            24 * layer_shard(gpt, dense_layer(gpt), {.tensor = 8}).replicated + 2 * gpt.hidden);
}

}  // namespace
}  // namespace trainyard
