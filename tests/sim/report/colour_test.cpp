// Colours in a report.
#include "sim/render/colour.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Are verdicts, titles and bars coloured, and nothing else changed?
TEST(Colour, VerdictsTitlesAndBarsAreColoured) {
  EXPECT_EQ(coloured("fits: 1 GiB\n"), "\x1b[1;32mfits\x1b[0m: 1 GiB\n");
  EXPECT_EQ(coloured("DOES NOT FIT: 90 GiB"), "\x1b[1;31mDOES NOT FIT\x1b[0m: 90 GiB");
  EXPECT_EQ(coloured("Memory\n  stage 0\n"), "\x1b[1mMemory\x1b[0m\n  stage 0\n");
  EXPECT_EQ(coloured("  compute  50 %  ###\n"), "  compute  50 %  \x1b[34m###\x1b[0m\n");
}

// Do lines that only look like these stay as they are?
TEST(Colour, OtherLinesStayAsTheyAre) {
  for (const char* text : {"", "\n", "Memory\nof a stage\n", "fits in\n", "  ###x\n", "###\n",
                           "a C#\n", "no end of line"})
    EXPECT_EQ(coloured(text), text);
}

}  // namespace
}  // namespace trainyard
