// Models from a config.json of Hugging Face, against the models of the corresponding papers.
#include "scenarios/import/hf_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture/flops.hpp"
#include "scenarios/import/model_file.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

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

// Is a model with unknown parts refused?
TEST(HfConfig, RefusesAModelWhosePartsItDoesNotKnow) {
  try {
    (void)shape_of_hf_config({{"model_type", "mamba"}, {"num_hidden_layers", 2}}, "c.json");
    FAIL() << "taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.json: /model_type: \"mamba\" is not a model type"));
    EXPECT_THAT(error.what(), HasSubstr("qwen3_moe"));
  }
}

Json mistral() {
  return {{"model_type", "mistral"},          {"hidden_size", 4096},
          {"intermediate_size", 14336},       {"num_hidden_layers", 32},
          {"num_attention_heads", 32},        {"vocab_size", 32000},
          {"max_position_embeddings", 32768}, {"sliding_window", 4096}};
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

}  // namespace
}  // namespace trainyard
