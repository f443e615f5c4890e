#include "sim/base/json_reader.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace trainyard {
namespace {

// Reads the text with `read` and returns all problems, one per line. The result is empty if there
// is none.
std::string problems(std::string_view text,
                     const std::function<void(JsonFile&, JsonObject&)>& read) {
  JsonFile file = JsonFile::parse("f", text);
  JsonObject root = file.root();
  read(file, root);
  try {
    file.finish();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Does the reader read every kind of value?
TEST(JsonReader, ReadsEveryKind) {
  const auto text = R"({"i": 8, "e": 1e6, "n": 2.5, "b": true, "t": "x", "c": "one", "time": "2 us",
    "bytes": "1 KiB", "rate": "1 GB/s", "flops": "1 TFLOP/s", "list": ["p", "q"], "o": {"k": 1},
    "a": [{"k": 1}, {"k": 2}], "raw": [1, "two"]})";
  EXPECT_EQ(problems(text,
                     [](JsonFile&, JsonObject& root) {
                       EXPECT_EQ(root.integer("i"), 8);
                       EXPECT_EQ(root.integer("e"), 1000000);
                       EXPECT_EQ(root.number("n"), 2.5);
                       EXPECT_TRUE(root.boolean("b"));
                       EXPECT_EQ(root.text("t"), "x");
                       EXPECT_EQ(root.choice("c", {"one", "two"}), "one");
                       EXPECT_EQ(root.time("time"), Seconds{2e-6});
                       EXPECT_EQ(root.bytes("bytes"), Bytes{1024});
                       EXPECT_EQ(root.rate("rate"), BytesPerSecond{1e9});
                       EXPECT_EQ(root.flops_rate("flops"), FlopsPerSecond{1e12});
                       EXPECT_EQ(root.texts("list"), (std::vector<std::string>{"p", "q"}));
                       EXPECT_EQ(root.object("o").integer("k"), 1);
                       std::vector<JsonObject> all = root.objects("a");
                       ASSERT_EQ(all.size(), 2U);
                       EXPECT_EQ(all[0].integer("k"), 1);
                       EXPECT_EQ(all[1].integer("k"), 2);
                       EXPECT_EQ(all[1].pointer("k"), "/a/1/k");
                       EXPECT_EQ(root.raw("raw").size(), 2U);
                     }),
            "");
}

// Do fallbacks replace missing values?
TEST(JsonReader, FallbacksReplaceMissingValues) {
  EXPECT_EQ(problems("{}",
                     [](JsonFile&, JsonObject& root) {
                       EXPECT_EQ(root.integer("i", {.fallback = 3}), 3);
                       EXPECT_EQ(root.number("n", {.fallback = 0.5}), 0.5);
                       EXPECT_TRUE(root.boolean("b", true));
                       EXPECT_EQ(root.text("t", "x"), "x");
                       EXPECT_EQ(root.time("time", Seconds{1}), Seconds{1});
                       EXPECT_TRUE(root.raw("r").is_null());
                       EXPECT_TRUE(root.objects("a").empty());
                       EXPECT_EQ(root.object("o").integer("k", {.fallback = 4}), 4);
                       EXPECT_FALSE(root.has("i"));
                     }),
            "");
}

// Are missing required fields reported?
TEST(JsonReader, MissingRequiredFieldsAreReported) {
  EXPECT_EQ(problems("{}",
                     [](JsonFile&, JsonObject& root) {
                       EXPECT_EQ(root.integer("i"), 0);
                       (void)root.object("o").rate("nic");
                       (void)root.choice("c", {"one", "two"});
                     }),
            "f: /i: is missing (it must be a whole number)\n"
            "f: /o/nic: is missing (it must be a rate with its unit such as \"450 GB/s\")\n"
            "f: /c: is missing (it must be one of one, two)");
}

// Are values of the wrong kind reported with the value?
TEST(JsonReader, WrongKindsAreReportedWithTheirValue) {
  EXPECT_EQ(
      problems(R"({"i": "8", "h": 1.5, "n": null, "b": 0, "t": 1, "l": [1], "o": [], "a": {},)"
               R"( "big": 1e300})",
               [](JsonFile&, JsonObject& root) {
                 EXPECT_EQ(root.integer("i", {.fallback = 7}), 7);
                 (void)root.integer("h");
                 (void)root.number("n");
                 (void)root.boolean("b");
                 (void)root.text("t");
                 (void)root.texts("l");
                 (void)root.object("o");
                 (void)root.objects("a");
                 (void)root.integer("big");
               }),
      "f: /i: must be a whole number, not \"8\" (write it without quotes)\n"
      "f: /h: must be a whole number, not 1.5\n"
      "f: /n: must be a number, not null\n"
      "f: /b: must be true or false, not 0\n"
      "f: /t: must be text, not 1\n"
      "f: /l: must be an array of texts, not [1]\n"
      "f: /o: must be an object, not []\n"
      "f: /a: must be an array of objects, not {}\n"
      "f: /big: must be a whole number, not 1e+300");
}

// Are values outside their range reported?
TEST(JsonReader, RangesAreReported) {
  EXPECT_EQ(problems(R"({"i": 0, "j": 9, "n": 1.5, "s": "-2 us"})",
                     [](JsonFile&, JsonObject& root) {
                       (void)root.integer("i", {.least = 1});
                       (void)root.integer("j", {.least = 1, .most = 8});
                       (void)root.number("n", {.most = 1.0});
                       (void)root.time("s");
                     }),
            "f: /i: must be at least 1, not 0\n"
            "f: /j: must be between 1 and 8, not 9\n"
            "f: /n: must be at most 1, not 1.5\n"
            "f: /s: must be a time with its unit such as \"2 us\", not \"-2 us\" (it cannot be "
            "negative)");
}

// Are units required?
TEST(JsonReader, UnitsAreRequired) {
  EXPECT_EQ(
      problems(R"({"s": 2})", [](JsonFile&, JsonObject& root) { (void)root.time("s"); }),
      "f: /s: must be a time with its unit such as \"2 us\", not 2 (units: ns, us, ms, s, min, h)");
}

// Does a wrong choice suggest the nearest one?
TEST(JsonReader, AWrongChoiceSuggestsTheNearest) {
  EXPECT_EQ(
      problems(R"({"c": "selectiv"})",
               [](JsonFile&, JsonObject& root) {
                 EXPECT_EQ(root.choice("c", {"none", "selective"}, "none"), "none");
               }),
      "f: /c: must be one of none, selective, not \"selectiv\" (did you mean \"selective\"?)");
}

// Are unknown keys reported in every opened object?
TEST(JsonReader, UnknownKeysAreReportedInEveryOpenedObject) {
  EXPECT_EQ(problems(R"({"tensr": 1, "o": {"x": 1}, "free": {"y": 1}, "a": [{"z": 1}]})",
                     [](JsonFile&, JsonObject& root) {
                       (void)root.integer("tensor", {.fallback = 1});
                       (void)root.object("o").integer("k", {.fallback = 1});
                       root.ignore("free");
                       (void)root.objects("a");
                     }),
            "f: /tensr: unknown key (did you mean \"tensor\"?)\n"
            "f: /a/0/z: unknown key\n"
            "f: /o/x: unknown key (known here: k)");
}

// Do explicit remedies take precedence over suggestions?
TEST(JsonReader, RemediesPrecedeSuggestions) {
  EXPECT_EQ(problems(R"({"tp": 1, "$schema": "x"})",
                     [](JsonFile& file, JsonObject& root) {
                       file.explain_unknown({{"tp", "here it is called \"tensor\""}});
                       (void)root.integer("tensor", {.fallback = 1});
                     }),
            "f: /tp: unknown key (here it is called \"tensor\")");
}

// Do remedies recognise a key that is written as a flag?
TEST(JsonReader, RemediesRecogniseAKeyWrittenAsAFlag) {
  EXPECT_EQ(problems(R"({"--Tensor-Parallel": 1})",
                     [](JsonFile& file, JsonObject&) {
                       file.explain_unknown({{"tensor_parallel", "say \"tensor\""}});
                     }),
            "f: /--Tensor-Parallel: unknown key (say \"tensor\")");
}

// Is a part sound if there is no problem at, above or below it?
TEST(JsonReader, APartIsSoundWithoutAProblemAtAboveOrBelowIt) {
  JsonFile file = JsonFile::parse("f", R"({"a": {"b": "x"}, "ab": 1, "c": 2})");
  JsonObject root = file.root();
  (void)root.object("a").integer("b");
  (void)root.integer("ab");
  EXPECT_FALSE(file.is_sound("/a"));
  EXPECT_FALSE(file.is_sound("/a/b"));
  EXPECT_FALSE(file.is_sound("/a/b/c"));
  EXPECT_TRUE(file.is_sound("/ab"));
  EXPECT_TRUE(file.is_sound("/c"));
  file.report_unknown_keys();
  EXPECT_FALSE(file.is_sound("/c"));
  try {
    file.finish();
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 2U) << "an unknown key is reported once";
  }
}

// Can a range have a remedy and a single value?
TEST(JsonReader, ARangeMayHaveARemedyAndOneValue) {
  EXPECT_EQ(problems(R"({"i": 2})",
                     [](JsonFile&, JsonObject& root) {
                       (void)root.integer("i",
                                          {.fallback = 1, .least = 1, .most = 1, .remedy = "wait"});
                     }),
            "f: /i: must be 1, not 2 (wait)");
}

// Must the root be an object?
TEST(JsonReader, RootMustBeAnObject) {
  EXPECT_EQ(problems("[1]", [](JsonFile&, JsonObject& root) { EXPECT_FALSE(root.has("x")); }),
            "f: must be an object, not [1]");
}

// Are pointers escaped?
TEST(JsonReader, PointersAreEscaped) {
  EXPECT_EQ(problems(R"({"a/b": {"~": 1}})",
                     [](JsonFile&, JsonObject& root) { (void)root.object("a/b"); }),
            "f: /a~1b/~0: unknown key");
}

// Are long values cut between characters?
TEST(JsonReader, LongValuesAreCutBetweenLetters) {
  const std::string start(58, 'x');
  nlohmann::ordered_json value = fmt::format("{}\u00e4\u00e4\u00e4", start);
  EXPECT_EQ(shown(value), fmt::format("\"{}...", start));
}

// Can overrides change the document before it is read?
TEST(JsonReader, OverridesMayChangeTheDocumentBeforeReading) {
  JsonFile file = JsonFile::parse("f", "{\"a\": 1}");
  file.document()["a"] = 2;
  JsonFile moved = std::move(file);
  JsonObject root = moved.root();
  EXPECT_EQ(root.integer("a"), 2);
  EXPECT_EQ(root.keys(), std::vector<std::string>{"a"});
  EXPECT_NO_THROW(moved.finish());
}

// Are many unknown keys reported quickly? A linear search for each would take 10^9 steps.
TEST(JsonReader, ManyUnknownKeysAreReportedQuickly) {
  constexpr int kKeys = 50'000;
  std::string text = "{\"size\": 3";
  for (int i = 0; i < kKeys; ++i) text += ", \"k" + std::to_string(i) + "\": 1";
  JsonFile file = JsonFile::parse("f.json", text + "}");
  JsonObject root = file.root();
  EXPECT_EQ(root.integer("size"), 3);
  EXPECT_TRUE(root.has("k49999"));
  EXPECT_EQ(root.integer("k49999"), 1);
  try {
    file.finish();
    FAIL() << "taken";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), kKeys - 1U);
  }
}

}  // namespace
}  // namespace trainyard
