#include "sim/base/utf8.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

TEST(Utf8, WhatIsUtf8StaysAsItIs) {
  for (const std::string text :
       {"", "plain", "caf\u00e9", "\u20ac", "\U0001f682", "\ud7ff\ue000"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(as_utf8(text), text);
  }
}

TEST(Utf8, BytesThatAreNoCharacterAreReplaced) {
  const std::string mark = "\ufffd";
  EXPECT_EQ(as_utf8("caf\xe9"), "caf" + mark);
  EXPECT_EQ(as_utf8("\xff{"), mark + "{");
  EXPECT_EQ(as_utf8("\xc0\xaf"), mark + mark) << "a slash written too long";
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), mark + mark + mark) << "half of a pair";
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), mark + mark + mark + mark) << "above U+10FFFF";
  EXPECT_EQ(as_utf8("\xe2\x82"), mark + mark) << "cut short";
  EXPECT_EQ(as_utf8("\xe2\x28\xa1 x"), mark + "(" + mark + " x");
  EXPECT_FALSE(is_utf8("caf\xe9"));
}

}  // namespace
}  // namespace trainyard
