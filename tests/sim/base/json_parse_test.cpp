#include "sim/base/json_parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string message_of(std::string_view text) {
  try {
    return "parsed " + parse_json("f.json", text).dump();
  } catch (const InputError& error) {
    return error.what();
  }
}

// Does parsing keep the order of keys and accept comments?
TEST(ParseJson, KeepsOrderAndAcceptsComments) {
  EXPECT_EQ(message_of("{ /* one */ \"b\": 1, // two\n \"a\": [1, {}] }"),
            "parsed {\"b\":1,\"a\":[1,{}]}");
}

// Do syntax errors have line and column?
TEST(ParseJson, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(message_of("{\n  \"a\": 1,\n}"),
              StartsWith("f.json: line 3, column 1: syntax error"));
  EXPECT_THAT(message_of("{\n  \"a\": 1,\n}"), HasSubstr("no comma after the last element"));
  EXPECT_THAT(message_of("{\"a\" 1}"), StartsWith("f.json: line 1, column 6: "));
  EXPECT_THAT(message_of("{\"a\": [1"), HasSubstr("a bracket is not closed"));
  EXPECT_THAT(message_of(""), StartsWith("f.json: line 1, column 1: "));
  EXPECT_THAT(message_of("{} {}"), StartsWith("f.json: line 1, column 4: "));
  EXPECT_THAT(message_of("{\"a\": NaN}"), StartsWith("f.json: line 1, column 7: "));
}

// Are numbers refused that a double cannot represent?
TEST(ParseJson, NumbersOutsideTheRangeOfDoubleAreRefused) {
  EXPECT_THAT(message_of("{\"a\": 1e999}"), HasSubstr("number overflow"));
}

// Are all duplicate keys reported with their pointers?
TEST(ParseJson, AllDuplicateKeysAreNamedWithTheirPointers) {
  EXPECT_EQ(message_of(R"({"a": 1, "b": [{"c": 1}, {"c": 1, "c": 2}], "a": {"x": [], "x": 0}})"),
            "f.json: /b/1/c: the key \"c\" appears twice (keep one of them)\n"
            "f.json: /a: the key \"a\" appears twice (keep one of them)\n"
            "f.json: /a/x: the key \"x\" appears twice (keep one of them)");
  EXPECT_EQ(message_of(R"({"a": {"k": 1}, "b": {"k": 1}})"), R"(parsed {"a":{"k":1},"b":{"k":1}})");
}

// Is an object with many keys parsed quickly? The library's own insertion would compare each key
// with all before it: 10^10 steps, minutes.
TEST(ParseJson, AnObjectOfManyKeysIsRead) {
  constexpr int kKeys = 100'000;
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) text += "\"key" + std::to_string(i) + "\": 1, ";
  EXPECT_EQ(parse_json("f.json", text + "\"last\": 2}").size(), kKeys + 1U);
  EXPECT_EQ(message_of(text + "\"key99999\": 2, \"key3\": 2}"),
            "f.json: /key99999: the key \"key99999\" appears twice (keep one of them)\n"
            "f.json: /key3: the key \"key3\" appears twice (keep one of them)");
}

// Is invalid text no document?
TEST(ParseJson, InvalidTextIsNoDocument) {
  EXPECT_EQ(try_parse_json("[1]"), nlohmann::ordered_json::array({1}));
  EXPECT_FALSE(try_parse_json("[1"));
  EXPECT_FALSE(try_parse_json(std::string(200'000, '[') + std::string(200'000, ']')));
}

// Is deep nesting refused instead of overflowing the stack?
TEST(ParseJson, DeepNestingIsRefusedNotOverflowed) {
  EXPECT_THAT(message_of(std::string(100000, '[')), HasSubstr("nested deeper than 200 levels"));
}

}  // namespace
}  // namespace trainyard
