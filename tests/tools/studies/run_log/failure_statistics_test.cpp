// Intervals of rates are the exact quantiles of the Gamma distribution, shapes of gaps are
// recovered with their intervals, and lemons are named by the exact binomial tail.
#include "tools/studies/run_log/failure_statistics.hpp"

#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "sim/base/random.hpp"

namespace trainyard {
namespace {

// One event with no prior is exponential: -ln 0.95 and -ln 0.05. A Gamma distribution of shape n /
// 2 is half a chi-square with n degrees of freedom: 0.00393214 and 3.84145882 for one degree,
// 2.16734991 and 14.06714045 for seven.
TEST(GammaRate, HasTheExactQuantiles) {
  const GammaRate one{.shape = 1.0, .exposure = 1.0};
  EXPECT_NEAR(one.low(), 0.05129329438755058, 1e-15);
  EXPECT_NEAR(one.high(), 2.995732273553991, 1e-14);
  const GammaRate none{.shape = 0.5, .exposure = 1.0};
  EXPECT_NEAR(none.low(), 0.00393214000001952 / 2, 1e-12);
  EXPECT_NEAR(none.high(), 3.841458820694124 / 2, 1e-12);
  const GammaRate three{.shape = 3.5, .exposure = 100.0};  // 3 events in 100 days, Jeffreys
  EXPECT_NEAR(three.low(), 2.167349909298057 / 200, 1e-12);
  EXPECT_NEAR(three.high(), 14.067140449340169 / 200, 1e-12);
  EXPECT_DOUBLE_EQ(three.mean(), 0.035);
}

std::vector<double> gaps_of(double shape, std::size_t count, std::uint64_t seed) {
  Random random = Random(seed).split("gaps");
  std::vector<double> gaps;
  for (std::size_t i = 0; i < count; ++i)
    gaps.push_back(100.0 * std::pow(-std::log1p(-random.uniform()), 1.0 / shape));
  return gaps;
}

double p_of_count(int count, int all, double probability) {
  const boost::math::binomial counts(all, probability);
  const double below = cdf(counts, count);
  const double above = count == 0 ? 1.0 : cdf(complement(counts, count - 1));
  return 2.0 * std::min(below, above);
}

// The interval holds the true shape in nine of ten logs, and exponential gaps are rejected in one
// of twenty.
TEST(WeibullShape, HasAnIntervalThatHolds) {
  constexpr int kLogs = 400;
  int covered = 0;
  int rejected = 0;
  for (std::uint64_t seed = 0; seed < kLogs; ++seed) {
    const auto clustered = weibull_shape(gaps_of(0.7, 60, seed), 40.0);
    covered += clustered->low <= 0.7 && 0.7 <= clustered->high ? 1 : 0;
    rejected += weibull_shape(gaps_of(1.0, 60, seed), 0.0)->rejects_exponential() ? 1 : 0;
  }
  EXPECT_GT(p_of_count(covered, kLogs, kIntervalMass), 0.001) << covered;
  EXPECT_GT(p_of_count(rejected, kLogs, kRejectedBelow), 0.001) << rejected;
}

TEST(WeibullShape, RejectsExponentialGapsWhereTheyCluster) {
  const auto fit = weibull_shape(gaps_of(0.5, 200, 1), 0.0);
  EXPECT_NEAR(fit->shape, 0.5, 0.1);
  EXPECT_LT(fit->p_exponential, 1e-9);
  EXPECT_LT(fit->high, 1.0);
}

TEST(WeibullShape, NeedsFiveDifferentGaps) {
  EXPECT_FALSE(weibull_shape({1, 2, 3, 4}, 0.0));
  EXPECT_FALSE(weibull_shape({1, 2, 3, 4, 0, 0}, 0.0));
  EXPECT_FALSE(weibull_shape({5, 5, 5, 5, 5, 5}, 0.0));
  EXPECT_TRUE(weibull_shape({1, 2, 3, 4, 5}, 0.0));
}

// 40 failures on 100 nodes: 8 or more on one have p = 5.78e-9, 3 or more 0.0075, which is more than
// a tenth of the second rank, 0.1 x 2 / 100.
TEST(LemonNodes, AreThoseWithAnImprobableCount) {
  std::map<std::string, std::int64_t> failures{{"bad", 8}, {"three", 3}};
  for (int i = 0; i < 29; ++i) failures["n" + std::to_string(i)] = 1;
  const std::vector<LemonNode> lemons = lemon_nodes(failures, 100);
  ASSERT_EQ(lemons.size(), 1U);
  EXPECT_EQ(lemons[0].node, "bad");
  EXPECT_EQ(lemons[0].failures, 8);
  EXPECT_NEAR(lemons[0].p_value / 5.782125839524153e-09, 1.0, 1e-9);
}

// Without lemons, at most a tenth of logs name any (all of them are false discoveries).
TEST(LemonNodes, AreRarelyNamedByChance) {
  constexpr int kLogs = 300;
  int named = 0;
  for (std::uint64_t seed = 0; seed < kLogs; ++seed) {
    Random random = Random(seed).split("nodes");
    std::map<std::string, std::int64_t> failures;
    for (int i = 0; i < 80; ++i)
      ++failures[std::to_string(static_cast<int>(random.uniform() * 100.0))];
    named += lemon_nodes(failures, 100).empty() ? 0 : 1;
  }
  const boost::math::binomial counts(kLogs, kFalseDiscoveries);
  EXPECT_GT(named == 0 ? 1.0 : cdf(complement(counts, named - 1)), 0.001) << named;
}

}  // namespace
}  // namespace trainyard
