// Does a search return a result at any time, with layouts that differ and that fit with room to
// spare?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/tools/studies/search/small_search.hpp"
#include "tools/studies/search/report.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {
namespace {

using test::found;
using test::names;
using test::of_four_layers;
using test::searched;

// Two stages of two layers: one chunk or two.
SearchSpace of_two_interleavings() {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=2,4,8"}),
                axis_of({"parallelism.pipeline=2"}),
                axis_of({"parallelism.interleave=1,2"}),
                axis_of({"parallelism.schedule=1f1b,interleaved_1f1b"}),
                axis_of({"training.micro_batch_size=1"}),
                axis_of({"training.recompute=none"}),
                axis_of({"parallelism.context=1"}),
                axis_of({"parallelism.zero_stage=1"})};
  return space;
}

// Are layouts that differ only in their interleaving one row?
TEST(Search, LayoutsThatDifferInTheirInterleavingAreOneRow) {
  std::size_t interleaved = 0;
  for (const Layout& layout : enumerate(of_two_interleavings()).legal)
    interleaved += layout.plan.parallelism.interleave > 1 ? 1U : 0U;
  EXPECT_EQ(interleaved, 3U);
  const SearchResult result = searched(of_two_interleavings(), true, 2);
  std::set<std::int64_t> tensors;
  for (const FoundLayout& found : result.best)
    EXPECT_TRUE(tensors.insert(found.layout.plan.parallelism.tensor).second)
        << layout_name(found.layout);
  EXPECT_EQ(tensors.size(), 3U);
}

// Does a search that is ended early return the best layouts so far?
TEST(Search, EndedEarlyItAnswersWithTheBestSoFar) {
  const SearchSpace space = of_four_layers();
  Journal journal("");
  bool end = false;
  std::vector<double> better_s;
  const SearchResult result = search({.space = space,
                                      .journal = journal,
                                      .top = 5,
                                      .refine = true,
                                      .processes = 2,
                                      .end = [&] { return end; },
                                      .better =
                                          [&](const FoundLayout& one) {
                                            better_s.push_back(one.figures.step_time_s);
                                            end = true;
                                          }});
  ASSERT_FALSE(result.best.empty());
  EXPECT_DOUBLE_EQ(result.best.front().figures.step_time_s, better_s.back());
  EXPECT_GE(result.best.front().figures.step_time_s, found().best.front().figures.step_time_s);
  const SearchCounts& counts = result.counts;
  EXPECT_GT(counts.not_reached, 0U);
  EXPECT_EQ(
      counts.simulated + counts.too_slow + counts.too_large + counts.refused + counts.not_reached,
      counts.legal);
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("ended before it reached"));
}

// Is the scenario's own layout simulated first? A search of a good scenario must never return a
// worse layout.
TEST(Search, TheScenariosOwnLayoutIsSimulatedFirst) {
  Journal journal("");
  std::vector<std::string> told;
  SearchSpace space = of_four_layers();
  space.over.clear();
  (void)search(
      {.space = space,
       .journal = journal,
       .processes = 1,
       .end = [&] { return !told.empty(); },
       .better = [&](const FoundLayout& one) { told.push_back(layout_name(one.layout)); }});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.front(), "TP 4, PP 1, DP 4, mbs 1, recompute none, ZeRO 1");
}

// Is each better layout reported as it is found?
TEST(Search, WhatIsBetterIsToldAsItIsFound) {
  Journal journal("");
  std::vector<double> better_s;
  const SearchResult result = search(
      {.space = of_four_layers(),
       .journal = journal,
       .processes = 2,
       .better = [&](const FoundLayout& one) { better_s.push_back(one.figures.step_time_s); }});
  ASSERT_FALSE(better_s.empty());
  EXPECT_TRUE(std::ranges::is_sorted(better_s, std::greater<>()));
  EXPECT_DOUBLE_EQ(better_s.back(), result.best.front().figures.step_time_s);
}

// Does the time limit end the search?
TEST(Search, TimeThatIsOverEndsIt) {
  Journal journal("");
  const SearchResult result =
      search({.space = of_four_layers(), .journal = journal, .processes = 1, .seconds = 1e-9});
  EXPECT_EQ(result.counts.not_reached, result.counts.legal);
  EXPECT_THAT(search_text(result, {}), testing::StartsWith("No layout that fits was found so far"));
}

// Are layouts without headroom refused as too large?
TEST(Search, LayoutsWithoutHeadroomDoNotFit) {
  const FoundLayout& largest = *std::ranges::max_element(
      found().best, {}, [](const FoundLayout& one) { return one.figures.peak_bytes; });
  const double headroom = 1.0 - 0.999 * largest.figures.peak_bytes / largest.figures.capacity_bytes;
  Journal journal("");
  const SearchResult result = search({.space = of_four_layers(),
                                      .journal = journal,
                                      .top = 5,
                                      .processes = 2,
                                      .headroom = headroom});
  EXPECT_THAT(names(found().best), testing::Contains(layout_name(largest.layout)));
  EXPECT_THAT(names(result.best), testing::Not(testing::Contains(layout_name(largest.layout))));
  EXPECT_FALSE(result.best.empty());
  for (const FoundLayout& one : result.best)
    EXPECT_LT(one.figures.peak_bytes, largest.figures.peak_bytes);
}

// Are layouts with hardly any memory to spare marked?
TEST(Search, LayoutsWithHardlyAnyMemoryToSpareAreMarked) {
  FoundLayout tight = found().best.front();
  tight.figures.fullest_share = 0.98;
  SearchResult result;
  result.best = {tight};
  result.front = {tight};
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("iB *"));
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("--headroom 3"));
  EXPECT_EQ(search_json(result, {})["best"][0]["tight"], true);
  tight.figures.fullest_share = 0.96;
  result.best = {tight};
  result.front = {tight};
  EXPECT_THAT(search_text(result, {}), testing::Not(testing::HasSubstr("headroom")));
}

}  // namespace
}  // namespace trainyard
