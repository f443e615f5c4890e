#include "sim/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// Is a problem printed with its file, pointer and hint?
TEST(Problem, IsPrintedWithFilePointerAndHint) {
  EXPECT_EQ(to_text({"a.json", "/x", "is wrong", "mend it"}), "a.json: /x: is wrong (mend it)");
  EXPECT_EQ(to_text({"", "/x", "is wrong", ""}), "/x: is wrong");
  EXPECT_EQ(to_text({"", "", "is wrong", "mend it"}), "is wrong (mend it)");
}

// Does an error print all its problems?
TEST(InputError, PrintsAllItsProblems) {
  const InputError error({{"a", "/x", "one", ""}, {"a", "/y", "two", ""}});
  EXPECT_STREQ(error.what(), "a: /x: one\na: /y: two");
  EXPECT_EQ(error.problems().size(), 2U);
}

// Is a message valid UTF-8 whatever bytes it quotes?
TEST(InputError, IsValidUtf8WhateverBytesItQuotes) {
  const InputError error({.file = "caf\xe9", .pointer = "", .problem = "\xff", .hint = ""});
  EXPECT_STREQ(error.what(), "caf\ufffd: \ufffd");
  EXPECT_EQ(error.problems().front().file, "caf\ufffd");
}

// Does a failed check print its expression, values and position?
TEST(Check, NamesExpressionValuesAndPlace) {
  const int streams = 3;
  try {
    TY_CHECK(streams < 2, streams, "of", 2);
    FAIL() << "the check passed";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("streams < 2 is false with 3, of, 2 at "));
    EXPECT_THAT(error.what(), testing::HasSubstr("error_test.cpp:"));
  }
  EXPECT_NO_THROW(TY_CHECK(streams == 3));
}

}  // namespace
}  // namespace trainyard
