// Configurations as documents: YAML as PyYAML reads it, TOML and JSON, the lines of values and of
// errors, and the record of what was read.
#include "scenarios/import/training/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/base/error.hpp"

namespace trainyard::config_tests {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json yaml(const std::string& text) { return read_config(text, "a.yaml").values; }

std::string refusal(const std::string& text, const std::string& file = "a.yaml") {
  try {
    (void)read_config(text, file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

// Do scalars of YAML have the types that PyYAML gives them?
TEST(ConfigDocument, ScalarsOfYamlHaveTheTypesOfPyYaml) {
  struct Case {
    const char* scalar;
    Json value;
  };
  const std::vector<Case> cases = {{"true", true},
                                   {"Yes", true},
                                   {"off", false},
                                   {"~", nullptr},
                                   {"null", nullptr},
                                   {"", nullptr},
                                   {"12", 12},
                                   {"10_000", 10000},
                                   {"-3", -3},
                                   {"1.5", 1.5},
                                   {"1e-5", 1e-5},
                                   {"3.e-5", 3e-5},
                                   {"'no'", "no"},
                                   {"\"12\"", "12"},
                                   {"bf16", "bf16"},
                                   {"1f1b", "1f1b"},
                                   {"-", "-"},
                                   {"+4", 4},
                                   {"2026-11-26", "2026-11-26"}};
  for (const Case& one : cases)
    EXPECT_EQ(yaml(std::string("a: ") + (std::string(one.scalar) == "-" ? "'-'" : one.scalar))["a"],
              one.value)
        << one.scalar;
  EXPECT_EQ(cases.size(), 19U);
}

// Are anchors, aliases and merged mappings replaced?
TEST(ConfigDocument, AnchorsAndMergedMappingsAreReplaced) {
  const Json values = yaml("base: &b {tp: 2, pp: 4}\nown:\n  <<: *b\n  tp: 8\nsame: *b\n");
  EXPECT_EQ(values["own"], Json({{"tp", 8}, {"pp", 4}}));
  EXPECT_EQ(values["same"], values["base"]);
}

// Are OmegaConf's references replaced, and left where only Python can work them out?
TEST(ConfigDocument, ReferencesAreReplaced) {
  const Json values = yaml(
      "model:\n  hidden: 64\n  ffn: ${.hidden}\n  seq: ${data.seq}\n  wide: ${multiply:4,2}\n"
      "  lost: ${nobody.knows}\ndata:\n  seq: ${..size}\n  other: ${..model.ffn}\nsize: 128\n");
  EXPECT_EQ(values["model"]["ffn"], 64);
  EXPECT_EQ(values["model"]["seq"], 128);
  EXPECT_EQ(values["data"]["other"], 64);
  EXPECT_EQ(values["model"]["wide"], "${multiply:4,2}");
  EXPECT_EQ(values["model"]["lost"], "${nobody.knows}");
}

// Does a reference to itself end?
TEST(ConfigDocument, AReferenceToItselfEnds) { EXPECT_EQ(yaml("a: ${b}\nb: ${a}\n").size(), 2U); }

// Does every syntax have the same values?
TEST(ConfigDocument, EverySyntaxHasTheSameValues) {
  const Json expected = {{"training", {{"seq_len", 8192}, {"names", {"a", "b"}}, {"on", true}}}};
  EXPECT_EQ(read_config("[training]\nseq_len = 8192\nnames = [\"a\", \"b\"]\non = true\n", "a.toml")
                .values["training"]["seq_len"],
            expected["training"]["seq_len"]);
  EXPECT_EQ(yaml("training:\n  seq_len: 8192\n  names: [a, b]\n  on: true\n"), expected);
  EXPECT_EQ(read_config(expected.dump(), "a.json").values, expected);
  EXPECT_EQ(read_config(expected.dump(), "a.txt").values, expected);
}

// Do errors of syntax name the line?
TEST(ConfigDocument, ErrorsOfSyntaxNameTheLine) {
  EXPECT_THAT(refusal("a: 1\nb: [1, 2\nc: 3\n"), HasSubstr("a.yaml: line 3"));
  EXPECT_THAT(refusal("[a]\nb = \n", "a.toml"), HasSubstr("a.toml: line 2"));
  EXPECT_THAT(refusal("[a]\nb = 1\nb = 2\n", "a.toml"), HasSubstr("line 3"));
  EXPECT_THAT(refusal("{\"a\": 1,\n}", "a.json"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("only text"), HasSubstr("holds no keys with values"));
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("holds 2 documents"));
  EXPECT_THAT(refusal("? [a, b]\n: 1\n"), HasSubstr("line 1: a key is not text"));
}

// Are documents that grow without end, nest without end or are too large refused?
TEST(ConfigDocument, DocumentsWithoutEndAreRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_THAT(refusal(text), HasSubstr("holds more than 20000 values"));
  std::string deep = "a: ";
  for (int i = 0; i < 300; ++i) deep += "[";
  for (int i = 0; i < 300; ++i) deep += "]";
  EXPECT_THAT(refusal(deep), HasSubstr("is nested deeper than 100"));
  EXPECT_THAT(refusal("a: " + std::string(100'000, '[')), HasSubstr("line 1: is nested deeper"));
  EXPECT_THAT(refusal("a = " + std::string(100'000, '['), "a.toml"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("a: &x [*x]\n"), HasSubstr("is nested deeper than 100"));
  EXPECT_THAT(refusal("a: " + std::string(3 << 20, 'x')), HasSubstr("is larger than 2 MiB"));
}

// Is the last of two values of a name taken, as PyYAML does, and said?
TEST(ConfigDocument, TheLastOfTwoValuesIsTakenAndSaid) {
  const ConfigDocument document = read_config("model:\n  a: 1\n  b: 2\n  a: 3\n", "a.yaml");
  EXPECT_EQ(document.values["model"]["a"], 3);
  EXPECT_THAT(document.notes, ElementsAre("model.a is there twice: line 4 replaces line 2"));
}

// Do values have the types that callers request, with the line of those that do not?
TEST(Config, AValueOfAnotherTypeIsRefusedWithItsLine) {
  const auto problem = [](const auto& read) -> std::string {
    Config config(
        read_config("m:\n  size: 4\n  name: four\n  half: 0.5\n  big: 1e12\n  list: [1]\n"
                    "  none: null\n  open: ???\n  flag: maybe\n  dtype: {_target_: t.bf16}\n",
                    "a.yaml"));
    try {
      read(config);
    } catch (const InputError& error) {
      return error.what();
    }
    return "taken";
  };
  const auto integer = [&](const std::string& path) {
    return problem([&](Config& config) { (void)config.integer(path); });
  };
  EXPECT_EQ(integer("m.size"), "taken");
  EXPECT_EQ(integer("m.none"), "taken");
  EXPECT_EQ(integer("m.open"), "taken");
  EXPECT_EQ(integer("m.absent.deeper"), "taken");
  EXPECT_EQ(integer("m.name"), "a.yaml: line 3: m.name is \"four\", which is no number");
  EXPECT_EQ(integer("m.half"), "a.yaml: line 4: m.half is 0.5, which is no whole number");
  EXPECT_EQ(integer("m.big"), "a.yaml: line 5: m.big is 1000000000000, more than 1000000000");
  EXPECT_EQ(problem([](Config& config) { (void)config.flag("m.flag"); }),
            "a.yaml: line 9: m.flag is \"maybe\", which is neither true nor false");
  EXPECT_EQ(problem([](Config& config) { (void)config.text("m.list"); }),
            "a.yaml: line 6: m.list is not a single value");
  EXPECT_THAT(problem([](Config& config) { (void)config.need("m.none"); }),
              HasSubstr("m.none is not there"));
  EXPECT_THAT(problem([](Config& config) { (void)config.size("m.size", 1); }), HasSubstr("taken"));
  Config config(read_config("m: {dtype: {_target_: t.bf16}}", "a.yaml"));
  EXPECT_EQ(config.text("m.dtype"), "t.bf16");
}

// Is everything listed that nobody read and that may matter?
TEST(Config, WhatNobodyReadIsListed) {
  Config config(
      read_config("a: 1\nb: {c: 2, d: 3, e: null, f: [], g: ''}\nlr: 4\nlr_max: 5\n"
                  "save: {path: x}\nsaver: 6\n",
                  "a.yaml"));
  EXPECT_EQ(config.get("a", 0), 1);
  EXPECT_EQ(config.get("b.c", 0), 2);
  constexpr auto kWithoutCost = std::to_array<std::string_view>({"lr*", "save"});
  EXPECT_THAT(config.not_looked_at(kWithoutCost), ElementsAre("b.d", "saver"));
  (void)config.raw("b");
  (void)config.integer("saver");
  EXPECT_THAT(config.not_looked_at(kWithoutCost), IsEmpty());
}

}  // namespace
}  // namespace trainyard::config_tests
