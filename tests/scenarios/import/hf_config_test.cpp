// Models from a config.json of Hugging Face, against the models of the corresponding papers.
#include "scenarios/import/hf_config.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "models/architecture/flops.hpp"
#include "scenarios/import/model_file.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/json_reader.hpp"
#include "tests/models/architecture/step_flops.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Architecture read_as_file(const Json& shape) {
  JsonFile file = JsonFile::parse("config.json", shape.dump());
  Architecture architecture = read_architecture(file.root());
  file.finish();
  return architecture;
}

struct Pair {
  const char* config;  // of tests/scenarios/import/hf
  const char* model;   // of models/data
};

class Known : public testing::TestWithParam<Pair> {};

// Does the config have the shape of the model in models/data?
TEST_P(Known, HasTheShapeOfOurOwnFile) {
  const auto [config, model] = GetParam();
  const Architecture read = load_model(
      std::string(TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/hf/") + config + ".json");
  const Architecture ours = load_architecture(model);
  EXPECT_EQ(parameter_count(read), parameter_count(ours));
  EXPECT_EQ(active_parameter_count(read), active_parameter_count(ours));
  EXPECT_EQ(read.ffn, ours.ffn);
  EXPECT_EQ(read.window, ours.window);
  EXPECT_EQ(read.full_attention_every, ours.full_attention_every);
  EXPECT_EQ(read.clamped_experts, ours.clamped_experts);
  EXPECT_EQ(read.kv_heads, ours.kv_heads);
  EXPECT_EQ(read.dropout, ours.dropout);
  EXPECT_EQ(read.expert_groups, ours.expert_groups);
  EXPECT_EQ(read.groups_per_token, ours.groups_per_token);
  for (const AttentionCount attention : {AttentionCount::Full, AttentionCount::Causal}) {
    const FlopsQuery query{
        .sequences = 2, .sequence_length = 1024, .vocab = ours.vocab, .attention = attention};
    EXPECT_EQ(model_flops(read, query).value(), model_flops(ours, query).value());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configs, Known,
    testing::Values(Pair{"llama3_8b", "llama3-8b"}, Pair{"mixtral_8x7b", "mixtral-8x7b"},
                    Pair{"qwen2_5_7b", "qwen2.5-7b"}, Pair{"qwen3_30b_a3b", "qwen3-30b-a3b"},
                    Pair{"deepseek_v3", "deepseek-v3"}, Pair{"gpt2", "gpt2-small"},
                    Pair{"llama4_scout", "llama4-scout"}, Pair{"gpt_oss_120b", "gpt-oss-120b"}),
    [](const auto& pair) { return std::string(pair.param.config); });

// Are other model families counted to the last parameter? models/data does not contain them:
// GPT-NeoX-20B has 20 554 567 680 parameters (Black et al. 2022, arXiv 2204.06745, section 2.1),
// Gemma 7B 8 537 680 896 (model card).
TEST(HfConfig, CountsOtherFamiliesToTheLastParameter) {
  const auto parameters = [](const Json& config) {
    return parameter_count(read_as_file(shape_of_hf_config(config, "config.json").shape));
  };
  EXPECT_EQ(parameters({{"model_type", "gpt_neox"},
                        {"hidden_size", 6144},
                        {"intermediate_size", 24576},
                        {"num_hidden_layers", 44},
                        {"num_attention_heads", 64},
                        {"vocab_size", 50432},
                        {"max_position_embeddings", 2048}}),
            20'554'567'680);
  EXPECT_EQ(parameters({{"model_type", "gemma"},
                        {"hidden_size", 3072},
                        {"intermediate_size", 24576},
                        {"num_hidden_layers", 28},
                        {"num_attention_heads", 16},
                        {"num_key_value_heads", 16},
                        {"head_dim", 256},
                        {"vocab_size", 256000},
                        {"max_position_embeddings", 8192}}),
            8'537'680'896);
}

struct Gemma {
  const char* type;
  std::int64_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab, parameters;
};

// Are the four norms of Gemma counted? The safetensors of google/gemma-2-2b, -9b and -27b and
// google/gemma-3-1b-pt contain as many parameters; shapes from arXiv 2408.00118, table 1, and
// 2503.19786 with the config.json of each. Every layer has four norms of hidden numbers each: 2 x
// 26 x 2304 of Gemma 2 2B were once left out.
TEST(HfConfig, CountsTheFourNormsOfGemma) {
  for (const Gemma& gemma :
       {Gemma{"gemma2", 2304, 9216, 26, 8, 4, 256, 256000, 2'614'341'888},
        Gemma{"gemma2", 3584, 14336, 42, 16, 8, 256, 256000, 9'241'705'984},
        Gemma{"gemma2", 4608, 36864, 46, 32, 16, 128, 256000, 27'227'128'320},
        Gemma{"gemma3_text", 1152, 6912, 26, 4, 1, 256, 262144, 999'885'952}}) {
    const Json config{{"model_type", gemma.type},           {"hidden_size", gemma.hidden},
                      {"intermediate_size", gemma.ffn},     {"num_hidden_layers", gemma.layers},
                      {"num_attention_heads", gemma.heads}, {"num_key_value_heads", gemma.kv_heads},
                      {"head_dim", gemma.head_dim},         {"vocab_size", gemma.vocab},
                      {"max_position_embeddings", 8192}};
    const HfShape made = shape_of_hf_config(config, "config.json");
    EXPECT_TRUE(made.notes.empty());
    const Architecture read = read_as_file(made.shape);
    EXPECT_TRUE(read.post_norms);
    EXPECT_EQ(parameter_count(read), gemma.parameters) << gemma.type << " " << gemma.layers;
  }
}

// Are all missing fields reported together?
TEST(HfConfig, NamesAllThatIsMissingAtOnce) {
  const Json config{{"model_type", "mixtral"}, {"hidden_size", 64}, {"num_attention_heads", 4}};
  try {
    (void)shape_of_hf_config(config, "my/config.json");
    FAIL() << "taken";
  } catch (const InputError& error) {
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_THAT(error.what(),
                HasSubstr("my/config.json: a \"mixtral\" needs num_hidden_layers, "
                          "intermediate_size, vocab_size, max_position_embeddings, "
                          "num_local_experts, num_experts_per_tok, which are not there"));
  }
}

Json mistral() {
  return {{"model_type", "mistral"},          {"hidden_size", 4096},
          {"intermediate_size", 14336},       {"num_hidden_layers", 32},
          {"num_attention_heads", 32},        {"vocab_size", 32000},
          {"max_position_embeddings", 32768}, {"sliding_window", 4096}};
}

std::string config_refusal(const Json& config, const std::string& as = "") {
  try {
    (void)shape_of_hf_config(config, "c.json", as);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

// Is a model with unknown parts refused, with exactly the keys that say its parts? Jamba (arXiv
// 2403.19887) has state-space layers.
TEST(HfConfig, RefusesAModelWhosePartsItDoesNotKnow) {
  const std::string file = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/hf/jamba_v0_1.json";
  EXPECT_EQ(
      config_refusal(parse_json(file, read_file(file))),
      "c.json: /model_type: \"jamba\" is not a model type whose parts are known here: "
      "attention_dropout, hidden_size, intermediate_size, max_position_embeddings, "
      "num_attention_heads, num_hidden_layers, num_key_value_heads, tie_word_embeddings, "
      "vocab_size are understood; attn_layer_offset, attn_layer_period, expert_layer_offset, "
      "expert_layer_period, mamba_conv_bias, mamba_d_conv, mamba_d_state, mamba_dt_rank, "
      "mamba_expand, mamba_proj_bias, num_experts, num_experts_per_tok, use_mamba_kernels are not "
      "(write the shape as the files of models/data do, or let `trainyard import hf-config --as "
      "llama` read it as a known type and say what it assumed; --families lists them)");
  EXPECT_THAT(config_refusal({{"model_type", "mamba"}, {"num_hidden_layers", 2}}),
              HasSubstr("known here: num_hidden_layers is understood (write"));
  EXPECT_THAT(config_refusal({{"model_type", "mamba"}, {"d_state", 2}}),
              HasSubstr("none of its keys is understood; d_state is not (write"));
  // Ends of names that say a scale are without cost, but not those that say a width.
  EXPECT_THAT(config_refusal({{"model_type", "mamba"},
                              {"expand_factor", 2},
                              {"routed_scaling_factor", 2.5},
                              {"ssm_multipliers", {1, 2}},
                              {"vision_token_id", 7}}),
              HasSubstr("is understood; expand_factor, ssm_multipliers are not (write"));
}

// Is a file of an unknown type read as a known one, with notes on what was assumed?
TEST(HfConfig, ReadsAnUnknownTypeAsAKnownOne) {
  Json config = mistral();
  config["model_type"] = "mistral_next";
  config["memory_slots"] = 16;
  const HfShape made = shape_of_hf_config(config, "c.json", "mistral");
  EXPECT_THAT(
      made.notes,
      testing::ElementsAre("it is read as a mistral, although its model_type is \"mistral_next\"",
                           "not looked at: memory_slots"));
  EXPECT_EQ(read_as_file(made.shape).window, 4096);
  EXPECT_EQ(notes_of_source(made.shape["source"]), made.notes);
  config.erase("model_type");
  EXPECT_EQ(read_as_file(shape_of_hf_config(config, "c.json", "mistral").shape).layers, 32);
  EXPECT_EQ(config_refusal(config, "mistrl"),
            "\"mistrl\" is not a model type whose parts are known here (did you mean "
            "\"mistral\"?)");
}

// Does each wrong value give one problem with its path?
TEST(HfConfig, NamesTheValueThatIsWrong) {
  struct Wrong {
    const char* key;
    Json value;
    const char* problem;
  };
  std::size_t problems = 0;
  for (const auto& [key, value, problem] :
       {Wrong{"hidden_size", "4096", "must be a whole number from 1 to 100000000, not \"4096\""},
        Wrong{"num_hidden_layers", -3, "must be a whole number from 1 to 100000000, not -3"},
        Wrong{"num_hidden_layers", 200'000, "200000 layers are too many (use 1 to 100000)"},
        Wrong{"intermediate_size", 1.5, "must be a whole number from 1 to 100000000, not 1.5"},
        Wrong{"vocab_size", 1e30, "must be a whole number from 1 to 100000000, not 1e+30"},
        Wrong{"num_key_value_heads", 7, "32 heads do not divide among 7 key-value heads"},
        Wrong{"num_attention_heads", 30, "hidden size 4096 does not divide by 30 heads"},
        Wrong{"head_dim", -1, "must be a whole number from 0 to 100000000, not -1"},
        Wrong{"tie_word_embeddings", "no", "must be true or false, not \"no\""},
        Wrong{"attention_dropout", "0.1", "must be a number from 0 on, not \"0.1\""},
        Wrong{"layer_types", 4, "must be a list of words, not 4"},
        Wrong{"layer_types", Json::array({"linear_attention"}),
              "has layers of type \"linear_attention\""}}) {
    Json config = mistral();
    config[key] = value;
    EXPECT_THAT(config_refusal(config),
                testing::StartsWith(fmt::format("c.json: /{}: {}", key, problem)));
    EXPECT_THAT(config_refusal(config), testing::Not(HasSubstr("\n"))) << key << ": one problem";
    ++problems;
  }
  EXPECT_EQ(problems, 12U);
  Json nested = mistral();
  nested["vocab_size"] = "many";
  EXPECT_THAT(config_refusal({{"text_config", nested}}),
              testing::StartsWith("c.json: /text_config/vocab_size: must be a whole number"));
}

// Is a document refused that is no configuration?
TEST(HfConfig, RefusesWhatIsNoConfiguration) {
  EXPECT_THAT(config_refusal(Json::array({1})), HasSubstr("c.json: must be an object, not [1]"));
  EXPECT_THAT(config_refusal(Json("llama")), HasSubstr("c.json: must be an object, not \"llama\""));
  EXPECT_THAT(config_refusal(Json::object()), HasSubstr("c.json: /model_type: is missing"));
  EXPECT_THAT(config_refusal({{"model_type", 7}}), HasSubstr("/model_type: must be a text, not 7"));
  EXPECT_THAT(config_refusal({{"text_config", Json::object()}}),
              HasSubstr("c.json: /text_config/model_type: is missing"));
}

// Are attention windows read? Mistral 7B (arXiv 2310.06825, section 2) has a window of 4096 in all
// layers; Gemma 2 (arXiv 2408.00118, section 2) has full attention in every other layer, Gemma 3
// (arXiv 2503.19786, section 2) in one of six.
TEST(HfConfig, ReadsWindows) {
  const auto read = [](const Json& config) {
    return read_as_file(shape_of_hf_config(config, "config.json").shape);
  };
  EXPECT_EQ(read(mistral()).window, 4096);
  EXPECT_EQ(read(mistral()).full_attention_every, 0);
  Json config = mistral();
  config["model_type"] = "gemma2";
  EXPECT_EQ(read(config).full_attention_every, 2);
  config["model_type"] = "gemma3_text";
  EXPECT_EQ(read(config).full_attention_every, 6);
  config["layer_types"] = Json::array();
  for (int layer = 0; layer < 32; ++layer)
    config["layer_types"].push_back(layer % 4 == 3 ? "full_attention" : "sliding_attention");
  EXPECT_EQ(read(config).full_attention_every, 4);
  config = mistral();
  config["max_position_embeddings"] = 4096;
  EXPECT_EQ(read(config).window, 0);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(read(config).window, 0);
}

// Does a note report settings that the shape leaves out?
TEST(HfConfig, SaysWhatItLeavesOut) {
  Json config = mistral();
  config["layer_types"] = Json::array();
  for (int layer = 0; layer < 32; ++layer)
    config["layer_types"].push_back(layer < 9 ? "full_attention" : "sliding_attention");
  const HfShape made = shape_of_hf_config(config, "config.json");
  ASSERT_EQ(made.notes.size(), 1U);
  EXPECT_THAT(made.shape["source"].get<std::string>(), HasSubstr("sliding window"));
  EXPECT_FALSE(made.shape.contains("window"));
}

// Are all left-out settings of Gemma 2 reported? The shape has no field for the two caps of Gemma 2
// (google/gemma-2-9b, config.json).
TEST(HfConfig, SaysAllThatItLeavesOutOfGemma2) {
  Json config = mistral();
  config["model_type"] = "gemma2";
  config["attn_logit_softcapping"] = 50.0;
  config["final_logit_softcapping"] = 30.0;
  config["attention_dropout"] = 0.1;
  config["mlp_bias"] = true;
  const HfShape made = shape_of_hf_config(config, "config.json");
  EXPECT_THAT(made.notes, testing::UnorderedElementsAre(
                              HasSubstr("attention's scores"), HasSubstr("cap of the logits"),
                              HasSubstr("dropout"), HasSubstr("biases of the feed-forward part")));
  // A scenario that names the file as its model finds the notes in the source.
  EXPECT_EQ(notes_of_source(made.shape["source"]), made.notes);
  EXPECT_TRUE(notes_of_source("Vaswani et al. 2017; table 3").empty());
}

// Does a note report that image parts are left out?
TEST(HfConfig, SaysThatPartsForImagesAreLeftOut) {
  Json text = mistral();
  text["model_type"] = "gemma3_text";
  const HfShape made = shape_of_hf_config(
      {{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", Json::object()}},
      "c.json");
  EXPECT_THAT(made.notes, testing::Contains("the part of vision_config is left out"));
}

// Is the language model of a model of several parts found under each of its names, and are the
// settings of the whole applied to it? The library keeps tie_word_embeddings there.
TEST(HfConfig, FindsTheLanguageModelOfAModelOfSeveralParts) {
  std::size_t found = 0;
  for (const char* name : {"text_config", "language_config", "llm_config"}) {
    const HfShape made = shape_of_hf_config({{"model_type", "some_vl"},
                                             {name, mistral()},
                                             {"tie_word_embeddings", true},
                                             {"projector_config", Json::object()},
                                             {"quantization_config", {{"quant_method", "awq"}}}},
                                            "c.json");
    EXPECT_TRUE(made.shape["tied_embeddings"].get<bool>()) << name;
    EXPECT_THAT(
        made.notes,
        testing::ElementsAre(HasSubstr("the quantisation of the stored weights (awq) is no part"),
                             "the part of projector_config is left out"));
    ++found;
  }
  EXPECT_EQ(found, 3U);
  const HfShape omni = shape_of_hf_config(
      {{"thinker_config", {{"text_config", mistral()}, {"audio_config", Json::object()}}},
       {"talker_config", Json::object()}},
      "c.json");
  EXPECT_EQ(omni.shape["layers"], 32);
  EXPECT_THAT(omni.notes, testing::UnorderedElementsAre("the part of talker_config is left out",
                                                        "the part of audio_config is left out"));
}

Json mixture() {
  Json config = mistral();
  config["model_type"] = "qwen3_moe";
  config["num_experts"] = 64;
  config["num_experts_per_tok"] = 8;
  config["moe_intermediate_size"] = 768;
  return config;
}

// Are rules for the layers with experts read that the shape can express, and others refused?
TEST(HfConfig, ReadsWhichLayersHaveExperts) {
  Json config = mixture();
  const auto layers = [&] {
    const Json shape = shape_of_hf_config(config, "c.json").shape;
    return std::pair(shape["dense_layers"].get<int>(), shape["moe_every"].get<int>());
  };
  EXPECT_EQ(layers(), std::pair(0, 1));
  config["mlp_only_layers"] = {0, 1};
  EXPECT_EQ(layers(), std::pair(2, 1));
  config["decoder_sparse_step"] = 2;
  EXPECT_EQ(layers(), std::pair(2, 2));
  config["mlp_only_layers"] = {7};
  EXPECT_THAT(config_refusal(config),
              HasSubstr("/mlp_only_layers: gives experts to 15 of 32 layers, without a period"));
  config["num_experts_per_tok"] = 65;
  config.erase("mlp_only_layers");
  EXPECT_THAT(config_refusal(config),
              HasSubstr("/num_experts_per_tok: a token cannot go to 65 of 64 experts"));

  config = mixture();
  config["model_type"] = "glm4_moe";
  config["n_routed_experts"] = 64;
  config["moe_layer_freq"] = Json::array({0, 0, 0});
  for (int layer = 3; layer < 32; ++layer) config["moe_layer_freq"].push_back(1);
  EXPECT_EQ(layers(), std::pair(3, 1));
  config["moe_layer_freq"][20] = 0;
  EXPECT_THAT(config_refusal(config),
              HasSubstr("/moe_layer_freq: gives experts to 28 of 32 layers"));
}

// Are lists of one number for each layer read where all are equal (Hunyuan)?
TEST(HfConfig, ReadsListsOfEqualNumbers) {
  Json config = mixture();
  config["model_type"] = "hunyuan_v1_moe";
  config["moe_topk"] = {8, 8, 8};
  EXPECT_EQ(shape_of_hf_config(config, "c.json").shape["experts_per_token"], 8);
  config["moe_topk"] = {8, 8, 4};
  EXPECT_THAT(config_refusal(config), HasSubstr("/moe_topk: differs from layer to layer"));
  config["moe_topk"] = 8;
  config["use_cla"] = true;
  EXPECT_THAT(config_refusal(config), HasSubstr("/use_cla: asks for an attention"));
}

// Are windows of families with their own rule read? Exaone 4 32B (arXiv 2507.11407) and Olmo 3
// have full attention in one of four layers, as Command R7B has; StarCoder 2 in none.
TEST(HfConfig, ReadsWindowsOfFurtherFamilies) {
  const auto read = [](const char* config) {
    const Architecture a = load_model(
        std::string(TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/hf/") + config + ".json");
    return std::pair(a.window, a.full_attention_every);
  };
  using Window = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(read("exaone_4_32b"), Window(4096, 4));
  EXPECT_EQ(read("exaone_4_1_2b"), Window(0, 0));
  EXPECT_EQ(read("olmo_3_7b"), Window(4096, 4));
  EXPECT_EQ(read("command_r7b"), Window(4096, 4));
  EXPECT_EQ(read("gemma_3_1b"), Window(512, 6));
  EXPECT_EQ(read("starcoder2_7b"), Window(4096, 0));
  EXPECT_EQ(read("smollm3_3b"), Window(0, 0));
}

// Do models with ALiBi have neither a table of positions nor a kernel that turns queries and keys?
TEST(HfConfig, ReadsModelsWithoutPositions) {
  std::size_t read = 0;
  for (const char* config : {"bloom_7b1", "mpt_7b", "baichuan2_13b"}) {
    const Architecture a = load_model(
        std::string(TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/hf/") + config + ".json");
    EXPECT_EQ(a.positions, Positions::None) << config;
    ++read;
  }
  EXPECT_EQ(read, 3U);
}

// Are the library's defaults taken where a file omits them, and is it said which?
TEST(HfConfig, TakesTheDefaultsThatAFileOmits) {
  const HfShape made = shape_of_hf_config({{"model_type", "gemma3"},
                                           {"text_config",
                                            {{"model_type", "gemma3_text"},
                                             {"hidden_size", 2560},
                                             {"intermediate_size", 10240},
                                             {"num_hidden_layers", 34},
                                             {"num_key_value_heads", 2}}}},
                                          "c.json");
  EXPECT_EQ(made.shape["heads"], 8);
  EXPECT_EQ(made.shape["kv_heads"], 2);
  EXPECT_THAT(made.notes,
              testing::ElementsAre("the file omits, and the library's defaults are: "
                                   "num_attention_heads 8, head_dim 256, vocab_size 262208, "
                                   "max_position_embeddings 131072"));
}

}  // namespace
}  // namespace trainyard
