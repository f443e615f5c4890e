#include "scenarios/reader/overrides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Are dots and slashes equivalent in a path?
TEST(Overrides, DotsAndSlashesAreTheSame) {
  EXPECT_EQ(override_pointer("parallelism.tensor"), "/parallelism/tensor");
  EXPECT_EQ(override_pointer("/parallelism/tensor"), "/parallelism/tensor");
  EXPECT_EQ(override_pointer("parallelism/tensor"), "/parallelism/tensor");
  EXPECT_THROW((void)override_pointer("parallelism..tensor"), InputError);
  EXPECT_THROW((void)override_pointer(""), InputError);
}

// Are values JSON, and bare words texts?
TEST(Overrides, ValuesAreJsonAndBareWordsAreText) {
  const Scenario s = load(sample(), {{"parallelism.tensor", "4"},
                                     {"/parallelism/data", "4"},
                                     {"training.recompute", "selective"},
                                     {"parallelism.sequence_parallel", "false"},
                                     {"training.precision", "\"bf16\""},
                                     {"cluster.fabric.hop_latency", "700 ns"},
                                     {"assumptions", "[\"one\"]"}});
  EXPECT_EQ(s.plan.parallelism.tensor, 4);
  EXPECT_EQ(s.plan.parallelism.data, 4);
  EXPECT_EQ(s.plan.training.recompute, Recompute::Selective);
  EXPECT_FALSE(s.plan.parallelism.sequence_parallel);
  EXPECT_EQ(s.plan.training.precision, DataType::Bf16);
  EXPECT_EQ(std::get<RailOptimized>(s.cluster.fabric.kind).hop_latency, Seconds{7e-7});
  EXPECT_EQ(s.assumptions, std::vector<std::string>{"one"});
}

// Are missing objects on a path created, and does the last override win?
TEST(Overrides, ObjectsOnTheWayAreMadeAndTheLastOneWins) {
  const Scenario s = load(
      sample(), {{"collectives.data.all_reduce", "hierarchical"}, {"seed", "1"}, {"seed", "2"}});
  EXPECT_EQ(s.plan.collectives.of(GroupKind::Data, CollectiveOp::AllReduce), "hierarchical");
  EXPECT_EQ(s.seed, 2U);
}

// Does null remove a key?
TEST(Overrides, NullTakesAKeyOut) {
  EXPECT_EQ(load(sample(), {{"training.precision", "null"}}).plan.training.precision,
            DataType::Bf16);
  EXPECT_EQ(complaints(sample(), {{"training.precison", "null"}}),
            "--set training.precison=null: /training/precison: there is nothing to remove "
            "(null takes a key out of the file)");
}

// Does an error for an unknown path name the option?
TEST(Overrides, UnknownPathsAreBlamedOnTheOption) {
  EXPECT_EQ(complaints(sample(), {{"parallelism.interleav", "2"}}),
            "--set parallelism.interleav=2: /parallelism/interleav: unknown key "
            "(did you mean \"interleave\"?)");
  EXPECT_THAT(complaints(sample(), {{"training.recompute", "most"}}),
              StartsWith("--set training.recompute=most: /training/recompute: must be one of"));
}

// Are paths through scalar values refused?
TEST(Overrides, PathsThroughValuesAreRefused) {
  EXPECT_EQ(
      complaints(sample(),
                 {{"training.recompute", "selective"}, {"training.recompute.layers", "4"}}),
      "--set training.recompute.layers=4: /training/recompute: is \"selective\", which has no "
      "\"layers\" (give the whole value instead)");
}

// Can fields of a named model be changed?
TEST(Overrides, FieldsOfANamedModelAreChanged) {
  const Architecture named = load(sample(), {}).plan.architecture;
  const Architecture changed = load(sample(), {{"model.vocab", "64000"}}).plan.architecture;
  EXPECT_EQ(changed.vocab, 64000);
  EXPECT_EQ(changed.hidden, named.hidden);
  EXPECT_EQ(changed.name, named.name + ", changed");
  EXPECT_EQ(load(sample(), {{"model.vocab", "64000"}, {"model", "gpt-22b"}}).plan.architecture.name,
            "gpt-22b");
  EXPECT_THAT(complaints(sample(), {{"model.layer", "4"}}),
              StartsWith("--set model.layer=4: /model/layer: unknown key"));
  auto document = sample();
  document["model"] = "gpt3-175";
  EXPECT_THAT(complaints(document, {{"model.vocab", "64000"}}), HasSubstr("gpt3-175b"));
}

// Can a window be set to none? The remedy in the refusal of windows must work with named models.
TEST(Overrides, AWindowIsSetToNone) {
  auto document = sample();
  document["model"] = "gpt-oss-120b";
  const Architecture changed = load(document, {{"model.window", "0"}}).plan.architecture;
  EXPECT_EQ(changed.window, 0);
  EXPECT_FALSE(changed.windowed(0));
}

// Can fields of a named node be changed?
TEST(Overrides, FieldsOfANamedNodeAreChanged) {
  const NodeSpec named = load(sample(), {}).cluster.node;
  NodeSpec expected = named;
  expected.gpu_memory = Bytes{96e9};
  EXPECT_EQ(load(sample(), {{"cluster.node.gpu_memory.usable", "96 GB"}}).cluster.node, expected);
}

// Can elements of a list be changed by index?
TEST(Overrides, ListsAreIndexed) {
  auto document = sample();
  document["assumptions"] = {"one", "two"};
  EXPECT_EQ(load(document, {{"assumptions.1", "three"}}).assumptions,
            (std::vector<std::string>{"one", "three"}));
  EXPECT_THAT(complaints(document, {{"assumptions.2", "x"}}), HasSubstr("has 2 elements"));
  EXPECT_THAT(complaints(document, {{"assumptions.x", "x"}}), HasSubstr("has 2 elements"));
}

// Are malformed JSON values syntax errors?
TEST(Overrides, BrokenStructuresAreSyntaxErrors) {
  EXPECT_THAT(complaints(sample(), {{"published", "{\"source\": "}}), HasSubstr("line 1, column"));
  EXPECT_THAT(complaints(sample(), {{"published", "{\"a\": 1, \"a\": 2}"}}),
              HasSubstr("appears twice"));
}

}  // namespace
}  // namespace trainyard
