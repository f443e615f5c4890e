// Are models found by their names and batches computed for all importers of configurations?
#include "scenarios/import/training/scenario_draft.hpp"

#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard {
namespace {

using test::shipped;

// Is a model on Hugging Face the published shape, and no other one?
TEST(ScenarioDraft, PublishedModelsAreKnownByTheirNames) {
  EXPECT_EQ(published_model("meta-llama/Llama-3.1-8B-Instruct"), "llama3-8b");
  EXPECT_EQ(published_model("meta-llama/Meta-Llama-3-70B"), "llama3-70b");
  EXPECT_EQ(published_model("Qwen/Qwen2.5-7B"), "qwen2.5-7b");
  EXPECT_EQ(published_model("mistralai/Mixtral-8x7B-Instruct-v0.1"), "mixtral-8x7b");
  EXPECT_EQ(published_model("deepseek-ai/DeepSeek-V3/"), "deepseek-v3");
  EXPECT_EQ(published_model("gpt2"), "gpt2-small");
  for (const char* other : {"gpt2-xl", "meta-llama/Llama-3.1-8B-Vision", "Qwen/Qwen2.5-7B-1M",
                            "deepseek-ai/DeepSeek-V3.2", "me/model", "", "/"})
    EXPECT_FALSE(published_model(other)) << other;
}

// Does every published name lead to a model of models/data?
TEST(ScenarioDraft, EveryPublishedNameLeadsToAModel) {
  for (const char* name :
       {"llama-2-7b", "llama-2-13b-hf", "llama-2-70b-chat-hf", "llama-3.1-405b",
        "llama-4-scout-17b-16e-instruct", "llama-4-maverick-17b-128e", "mixtral-8x22b-v0.1",
        "qwen2.5-72b-instruct", "qwen3-30b-a3b", "qwen3-235b-a22b-instruct-2507", "gpt-oss-120b"}) {
    const std::optional<std::string> model = published_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_GT(parameter_count(load_architecture(*model)), 0) << name;
  }
}

// Do products of absurd sizes stay within the range of integers?
TEST(ScenarioDraft, ProductsSaturate) {
  EXPECT_EQ(product_of({2, 3, 4}), 24);
  EXPECT_EQ(product_of({1'000'000'000, 1'000'000'000, 1'000'000'000}), 1'000'000'000);
  EXPECT_EQ(product_of({}), 1);
}

// Does the user's vocabulary replace that of a model?
TEST(ScenarioDraft, TheUsersVocabularyReplacesThatOfTheModel) {
  const ImportedScenario made =
      import_torchtitan({.files = {shipped("torchtitan/llama3_8b.toml")},
                         .machine = {.node = "grand_teton_h100", .nodes = 1, .vocab = 32'000}});
  EXPECT_EQ(test::scenario_of(made).plan.architecture.vocab, 32'000);
  EXPECT_EQ(test::scenario_of(made).plan.architecture.layers, 32);
}

}  // namespace
}  // namespace trainyard
