// Weights as whole numbers of list entries for SimGrid, and links with weights in proportion.
#include <gtest/gtest.h>

#include "sim/engine/link_sets.hpp"
#include "sim/engine/simgrid/platform.hpp"
#include "tests/sim/engine/builders.hpp"

namespace trainyard {
namespace {

using Counts = std::vector<std::uint32_t>;

WholeWeights of(const std::vector<double>& weights, const std::vector<double>& flow_loads = {}) {
  std::vector<LinkSet::User> users;
  for (std::uint32_t index = 0; index < weights.size(); ++index) {
    users.push_back(
        {index, weights[index], flow_loads.empty() ? weights[index] : flow_loads[index]});
  }
  return whole_weights(users);
}

// Are weights multiples of their common divisor?
TEST(Weights, AreMultiplesOfTheirCommonDivisor) {
  const WholeWeights whole = of({1.0, 0.75});
  EXPECT_EQ(whole.counts, (Counts{4, 3}));
  EXPECT_DOUBLE_EQ(whole.unit, 0.25);
  EXPECT_EQ(whole.rounded, 0U);
}

// Does a single weight need one entry?
TEST(Weights, OneUserNeedsOneEntry) {
  EXPECT_EQ(of({0.3141592653589793}).counts, Counts{1});
  EXPECT_EQ(of({0.7, 0.7, 0.7}).counts, (Counts{1, 1, 1}));
}

// Are thirds and sevenths exact?
TEST(Weights, ThirdsAndSeventhsAreExact) {
  const WholeWeights whole = of({1.0, 1.0 / 3.0, 1.0 / 7.0});
  EXPECT_EQ(whole.counts, (Counts{21, 7, 3}));
  EXPECT_EQ(whole.rounded, 0U);
  EXPECT_NEAR(whole.unit, 1.0 / 21.0, 1e-15);
}

// Do weights that folding has multiplied keep their common factor?
TEST(Weights, MultipliedByFoldingKeepTheirCommonFactor) {
  const WholeWeights whole = of({128.0, 2048.0}, {1.0, 1.0});
  EXPECT_EQ(whole.counts, (Counts{1, 16}));
  EXPECT_DOUBLE_EQ(whole.unit, 128.0);
}

// Are weights without a common unit rounded up to 1/32 of a payload?
TEST(Weights, WithoutACommonUnitAreRoundedUpToThirtySecondsOfAPayload) {
  const WholeWeights whole = of({1.0, 0.6180339887498949});  // 19.777 / 32
  EXPECT_EQ(whole.counts, (Counts{8, 5}));                   // 20 / 32
  EXPECT_DOUBLE_EQ(whole.unit, 0.125);
  EXPECT_EQ(whole.rounded, 1U);
}

// Are weights rounded per flow, folded or not?
TEST(Weights, AreRoundedPerFlowWhetherFoldedOrNot) {
  const WholeWeights folded = of({16.0, 16.0 * 0.6180339887498949}, {1.0, 0.6180339887498949});
  EXPECT_EQ(folded.counts, (Counts{8, 5}));
  EXPECT_DOUBLE_EQ(folded.unit, 2.0);
}

// Do the weights of many flows stay exact? A flow class of a thousand flows may have a list as long
// as all its flows together.
TEST(Weights, OfManyFlowsStayExact) {
  const WholeWeights whole = of({1000.0, 1.0, 333.0}, {1.0, 1.0, 1.0});
  EXPECT_EQ(whole.counts, (Counts{1000, 1, 333}));
  EXPECT_DOUBLE_EQ(whole.unit, 1.0);
  EXPECT_EQ(whole.rounded, 0U);
}

// Are very different weights rounded up to 1/128 of the largest?
TEST(Weights, TooFarApartAreRoundedUpToAHundredAndTwentyEighthOfTheLargest) {
  const WholeWeights whole = of({2000.0, 1.0, 667.0}, {1.0, 1.0, 1.0});
  EXPECT_EQ(whole.counts, (Counts{128, 1, 43}));
  EXPECT_DOUBLE_EQ(whole.unit, 15.625);
  EXPECT_EQ(whole.rounded, 2U);
}

// Are links one set whose weights differ in proportion by less than 1e-12? Proportions near 1 are
// rounded to multiples of 2^-39 = 1.8e-12.
TEST(LinkSets, LinksInTheSameProportionsToTwelveDigitsAreOneSet) {
  const Cluster cluster = test::star_cluster({1e9, 1e9});
  const auto sets = [&](double apart) {
    Partition partition;
    partition.links = {{.representative = 0}, {.representative = 1}};
    partition.flows.resize(2);
    partition.flows[0].weights = {{.link_class = 0}, {.link_class = 1}};
    partition.flows[1].weights = {{.link_class = 0}, {.link_class = 1, .weight = 1.0 + apart}};
    return merge_links(cluster, partition).sets.size();
  };
  EXPECT_EQ(sets(0.8e-12), 1U);
  EXPECT_EQ(sets(4e-12), 2U);
}

}  // namespace
}  // namespace trainyard
