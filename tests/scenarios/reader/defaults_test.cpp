// Fields that a scenario leaves out have the values of its framework. All commands use the same
// defaults.
#include "scenarios/reader/defaults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/framework_file.hpp"
#include "sim/base/data_directory.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

Json sample_of(const std::string& framework) {
  Json document = sample();
  document["framework"] = framework;
  document["training"]["precision"] = "bf16";
  return document;
}

std::vector<std::string> fields_of(const Scenario& scenario) {
  std::vector<std::string> fields;
  for (const AppliedDefault& one : scenario.applied_defaults) fields.push_back(one.field);
  return fields;
}

// Do defaults apply to fields that the scenario leaves out? By default replicas wait for the last
// of them; ideal conditions must be requested.
TEST(Defaults, HoldWhereTheScenarioSaysNothing) {
  const Scenario plain = load(sample());
  EXPECT_EQ(plain.framework, "megatron");
  EXPECT_TRUE(plain.stragglers);
  EXPECT_THAT(fields_of(plain), testing::Contains("stragglers"));
  const Scenario ideal = load(sample(), {{.path = "defaults", .value = "ideal"}});
  EXPECT_FALSE(ideal.stragglers);
  EXPECT_THAT(fields_of(ideal), IsEmpty());
  const Scenario older = load(sample_of("megatron_2022"));
  EXPECT_FALSE(older.plan.parallelism.overlap_p2p);
  EXPECT_EQ(older.plan.training.attention, AttentionKind::Unfused);
  EXPECT_EQ(older.plan.training.gradient_average, GradientAverage::BeforeAlways);
}

// Are the defaults of MaxText those of its configuration? JAX's MaxText recomputes whole layers and
// shards weights unless the file sets other values.
TEST(Defaults, OfMaxTextAreThoseOfItsConfiguration) {
  Json document = sample_of("maxtext");
  document["parallelism"].erase("zero_stage");
  const Scenario s = load(document);
  EXPECT_EQ(s.plan.training.recompute, Recompute::Full);
  EXPECT_EQ(s.plan.training.attention, AttentionKind::Flash);
  EXPECT_EQ(s.plan.parallelism.zero_stage, 3);
  EXPECT_EQ(s.host, "compiled");
  EXPECT_TRUE(s.plan.gradient_passes.accumulate);
  EXPECT_FALSE(s.applied_defaults.empty());
  for (const AppliedDefault& one : s.applied_defaults)
    EXPECT_FALSE(one.source.empty()) << one.field;
}

// Does the file take precedence over the defaults?
TEST(Defaults, AreNeverStrongerThanTheFile) {
  Json document = sample_of("megatron_2022");
  document["stragglers"] = false;
  document["parallelism"]["overlap_p2p"] = true;
  document["training"]["attention"] = "flash";
  const Scenario s = load(document);
  EXPECT_FALSE(s.stragglers);
  EXPECT_TRUE(s.plan.parallelism.overlap_p2p);
  EXPECT_EQ(s.plan.training.attention, AttentionKind::Flash);
  EXPECT_THAT(fields_of(s), testing::UnorderedElementsAre(
                                "parallelism.overlap_grad_reduce",
                                "parallelism.overlap_param_gather", "parallelism.scatter_gather",
                                "training.gradient_average", "training.gradient_check"));
}

// Does every default of every framework name a field of scenarios, a valid value and a source?
TEST(Defaults, OfEveryFrameworkAreFieldsOfAScenario) {
  std::size_t practices = 0;
  for (const std::string& framework : data_names("models/frameworks")) {
    SCOPED_TRACE(framework);
    for (const Practice& practice : load_practices(framework)) {
      EXPECT_FALSE(practice.source.empty());
      EXPECT_FALSE(practice.scenario.empty());
      ++practices;
    }
    EXPECT_TRUE(load(sample_of(framework)).stragglers);
  }
  EXPECT_GT(practices, 20U);
}

// Does a framework inherit the defaults of the framework it is "like"? It keeps those that its own
// file sets.
TEST(Defaults, ComeAlongWithTheFrameworkThatOneIsLike) {
  EXPECT_EQ(load(sample_of("torchtitan")).plan.training.vocab_multiple, 1);
  EXPECT_EQ(load(sample_of("pytorch")).plan.training.vocab_multiple, 1);
  EXPECT_EQ(load(sample_of("megatron")).plan.training.vocab_multiple, 128);
}

// Do defaults depend on the run if the framework's file states a condition?
TEST(Defaults, DependOnTheRunWhereThePracticeSaysSo) {
  Json document = sample_of("megatron_bridge");
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Bf16);
  document["training"]["precision"] = "fp16";
  EXPECT_EQ(load(document).plan.training.gradient_precision, DataType::Fp32);
  const PracticeCondition mixtures{.experts = true};
  EXPECT_TRUE(mixtures.holds("bf16", true));
  EXPECT_FALSE(mixtures.holds("bf16", false));
  EXPECT_TRUE(PracticeCondition{}.holds("fp16", false));
}

// Does a recipe take precedence for gradients? A recipe that stores gradients with a given number
// of bytes is stronger than a default.
TEST(Defaults, LeaveGradientsToTheRecipe) {
  Json document = sample_of("internevo");
  EXPECT_THAT(fields_of(load(document)), testing::Contains("training.gradient_precision"));
  document["training"]["recipe"] = "pure_16bit";
  const Scenario s = load(document);
  EXPECT_EQ(s.plan.training.gradient_precision, DataType::Bf16);
  EXPECT_THAT(fields_of(s), testing::Not(testing::Contains("training.gradient_precision")));
}

// Are the defaults of a resolved scenario recorded?
TEST(Defaults, OfAScenarioWrittenOutAreRecorded) {
  const Json written = resolved(load(sample_of("megatron_2022")));
  EXPECT_EQ(resolved(load(written)).dump(), written.dump());
  const Scenario changed = load(written, {{.path = "stragglers", .value = "false"}});
  EXPECT_FALSE(changed.stragglers);
  EXPECT_THAT(fields_of(changed), testing::Not(testing::Contains("stragglers")));
  EXPECT_EQ(changed.applied_defaults.size() + 1, written["applied_defaults"].size());
  const Scenario ideal = load(written, {{.path = "defaults", .value = "ideal"}});
  EXPECT_FALSE(ideal.stragglers);
  EXPECT_TRUE(ideal.plan.parallelism.overlap_p2p);
  EXPECT_EQ(ideal.plan.training.attention, AttentionKind::Flash);
  const Scenario asked = load(sample_of("megatron_2022"), {{.path = "defaults", .value = "ideal"}});
  EXPECT_EQ(resolved(ideal)["training"].dump(), resolved(asked)["training"].dump());
  EXPECT_EQ(resolved(ideal)["parallelism"].dump(), resolved(asked)["parallelism"].dump());
}

// Is a change of a resolved scenario the same as that change of the original? Defaults that hold
// for another precision, or for models with experts only, do not stay.
TEST(Defaults, OfAScenarioWrittenOutHoldForItsPrecisionAndModel) {
  const Json dense = sample_of("megatron_bridge");
  Json mixture = dense;
  mixture["model"] = "mixtral-8x7b";
  const auto expect_same = [](const Json& original, const Override& change) {
    const Json changed = resolved(load(original, {change}));
    EXPECT_EQ(resolved(load(resolved(load(original)), {change})).dump(2), changed.dump(2));
    EXPECT_NE(resolved(load(original))["applied_defaults"], changed["applied_defaults"]);
  };
  expect_same(dense, {.path = "training.precision", .value = "fp16"});
  expect_same(mixture, {.path = "model", .value = "llama3-8b"});
}

// Does an error name the default that breaks a rule?
TEST(Defaults, AreNamedWhereARuleBreaksOnOne) {
  const std::vector<Problem> problems = attribute_to_defaults(
      {{"s.json", "/training/attention", "cannot be \"unfused\"", ""}},
      {{.field = "training.attention", .value = "\"unfused\"", .source = "x"}});
  EXPECT_EQ(problems.front().problem,
            "cannot be \"unfused\"; \"unfused\" is a default of the framework");
}

// Is the source of a default reported once for all its fields?
TEST(Defaults, AreToldWithTheirSourceOnceForAllItsFields) {
  EXPECT_THAT(default_sentences({{"a", "1", "x"}, {"b", "true", "y"}, {"c", "2", "x"}}),
              ElementsAre("a = 1, c = 2: x", "b = true: y"));
}

}  // namespace
}  // namespace trainyard
