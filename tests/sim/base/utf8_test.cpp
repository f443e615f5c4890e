#include "sim/base/utf8.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Does valid UTF-8 stay unchanged?
TEST(Utf8, ValidTextStaysUnchanged) {
  for (const std::string text :
       {"", "plain", "caf\u00e9", "\u20ac", "\U0001f682", "\ud7ff\ue000"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(as_utf8(text), text);
  }
}

// Are invalid bytes replaced?
TEST(Utf8, InvalidBytesAreReplaced) {
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

// Are terminal control characters shown by their number?
TEST(Utf8, TerminalControlCharactersAreShownByNumber) {
  EXPECT_EQ(printable("caf\u00e9\t\u20ac\n"), "caf\u00e9\t\u20ac\n");
  EXPECT_EQ(printable("\x1b[31mred\r\x7f"), "\\u001b[31mred\\u000d\\u007f");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "b"),
            "a\\u009bb")
      << "a control sequence in one character";
  EXPECT_EQ(printable("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c"), "\\u202e\\u2066\\u061c");
  EXPECT_EQ(printable("\x9b"), "\ufffd") << "the same in one byte";
  EXPECT_EQ(printable("\U0001f682"), "\U0001f682");
}

}  // namespace
}  // namespace trainyard
