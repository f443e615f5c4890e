// The charts of pages: places, ticks, and marks that tell what they are.
#include "sim/render/page/plots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// Do the ticks of a linear scale enclose its values at a round distance?
TEST(Scales, LinearTicksAreRoundAndEncloseTheValues) {
  const ChartScale scale = linear_scale("s", 13.2, 11.9);
  ASSERT_GE(scale.ticks.size(), 4U);
  EXPECT_LE(scale.least, 11.9);
  EXPECT_GE(scale.most, 13.2);
  EXPECT_DOUBLE_EQ(scale.place(scale.least), 0.0);
  EXPECT_DOUBLE_EQ(scale.place(scale.most), 1.0);
  EXPECT_EQ(scale.ticks[1].text, "12");
  const ChartScale flat = linear_scale("s", 5.0, 5.0);
  EXPECT_GT(flat.most, flat.least) << "equal values still have a scale";
}

// Is a logarithmic scale one of powers, and is a value between two of them placed by its logarithm?
TEST(Scales, LogarithmicTicksArePowers) {
  const ChartScale scale =
      log_scale("GB/s", 0.5, 400.0, 10.0, [](double value) { return std::to_string(value); });
  EXPECT_DOUBLE_EQ(scale.least, 0.1);
  EXPECT_DOUBLE_EQ(scale.most, 1000.0);
  ASSERT_EQ(scale.ticks.size(), 5U);
  EXPECT_NEAR(scale.place(10.0), 0.5, 1e-12);
}

// Do bars have their numbers with units, and is a part too narrow for its number told by its tip?
TEST(Bars, HaveNumbersWithUnits) {
  const std::string html = bar_chart(
      "time", {{.label = "stage 0",
                .parts = {{"compute", "#0072B2", 9.9, "9.9 s"}, {"idle", "#DADADA", 0.1, "0.1 s"}},
                .total = "10 s"}});
  EXPECT_THAT(html, HasSubstr(">9.9 s</text>"));
  EXPECT_THAT(html, Not(HasSubstr(">0.1 s</text>")));
  EXPECT_THAT(html, HasSubstr("data-tip=\"stage 0\nidle: 0.1 s\""));
  EXPECT_THAT(html, HasSubstr(">10 s</text>"));
  EXPECT_THAT(html, HasSubstr("width=\"99.000%\""));
}

// Do series differ in colour, dashes and form?
TEST(Curves, SeriesDifferInMoreThanColour) {
  const XyChart chart{
      .title = "t",
      .x = linear_scale("x", 2.0),
      .y = linear_scale("y", 2.0),
      .series = {{"a", {{0, 0, "a0"}, {1, 1, "a1"}}}, {"b", {{0, 1, "b0"}, {1, 2, "b1"}}}}};
  const std::string html = xy_chart(chart);
  EXPECT_EQ(count(html, "class=\"point\""), 4U);
  EXPECT_EQ(count(html, "stroke-dasharray=\"7 4\""), 2U) << "the line of b and its key";
  EXPECT_THAT(html, HasSubstr("var(--s1)"));
}

// Is every cell of a heat map a number, and is one that does not fit struck through?
TEST(HeatMaps, AreTablesOfNumbers) {
  const std::string html =
      heat_table({.title = "step",
                  .down_title = "tensor",
                  .right_title = "data",
                  .down = {"1"},
                  .right = {"2", "4"},
                  .cells = {{1.0, "1 s", "tip", false}, {2.0, "2 s", "tip", true}}});
  EXPECT_THAT(html, HasSubstr("class=\"cell\" style=\"--heat-share:0%\""));
  EXPECT_THAT(html, HasSubstr("class=\"cell crossed\" style=\"--heat-share:45%\""));
}

// Does each run have a line across all axes?
TEST(ParallelCoordinates, EachRunIsALine) {
  const std::vector<ChartScale> axes{listed_scale("tensor", {"1", "2"}),
                                     linear_scale("step (s)", 3.0)};
  const std::string html =
      parallel_chart("runs", axes, {{{0, 1}, "one", true, false}, {{1, 2}, "two", false, true}});
  EXPECT_EQ(count(html, "<path class=\"run"), 2U);
  EXPECT_THAT(html, HasSubstr("class=\"run best\""));
  EXPECT_EQ(parallel_chart("runs", {axes[0]}, {{{0}, "one"}}), "") << "one axis is no chart";
}

// Is the text on a colour the more readable of black and white?
TEST(Colours, TextOnAColourIsReadable) {
  EXPECT_EQ(text_colour_on("#0072B2"), "#fff");
  EXPECT_EQ(text_colour_on("#E69F00"), "#111");
}

}  // namespace
}  // namespace trainyard
