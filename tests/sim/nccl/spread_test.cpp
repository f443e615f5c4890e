// How far do measured calls lie from their predictions?
#include "sim/nccl/spread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "sim/nccl/fit/fit_spread.hpp"

namespace trainyard::nccl::fit {
namespace {

// Has every call one class, whose limits contain the prediction?
TEST(CallSpread, EveryCallHasOneClass) {
  for (const std::uint32_t nodes : {1U, 2U, 8U, 9U, 64U, 65U, 1U << 20})
    for (const std::int64_t bytes : {0L, 8L, (1L << 20) - 1, 1L << 20, 1L << 40}) {
      EXPECT_EQ(std::ranges::count_if(
                    spreads(), [&](const CallSpread& one) { return one.holds(nodes, bytes); }),
                1)
          << nodes << " nodes, " << bytes;
      const CallSpread& spread = spread_of(nodes, bytes);
      EXPECT_LE(spread.low, 1.0);
      EXPECT_GE(spread.high, 1.0);
    }
}

TEST(CallSpread, AClassSaysWhichCallsItHas) {
  EXPECT_EQ(calls_of({.nodes_most = 1, .bytes_most = (1 << 20) - 1}),
            "less than 1 MiB on one node");
  EXPECT_EQ(calls_of({.nodes_least = 2, .nodes_most = 8, .bytes_least = 1 << 20}),
            "1 MiB and more on 2 to 8 nodes");
  EXPECT_EQ(calls_of({.nodes_least = 65}), "any size on 65 nodes and more");
}

// Rows of every class, so that fit_spreads() finds calls in each.
class Rows {
 public:
  void add(const std::string& cluster, double measured_over_predicted, double weight = 1.0) {
    for (const std::uint32_t nodes : {1U, 4U, 32U, 128U})
      for (const double bytes : {1024.0, 1e8}) {
        communicators_.push_back({.ranks = 8 * nodes, .nodes = nodes});
        samples_.push_back({.source = cluster,
                            .site = cluster,
                            .bytes = bytes,
                            .communicator = &communicators_.back(),
                            .fabric = {},
                            .weight = weight});
        residuals_.push_back({&samples_.back(), 1.0 / measured_over_predicted, cluster});
      }
  }
  [[nodiscard]] std::vector<CallSpread> spreads() const { return fit_spreads(residuals_); }

 private:
  std::deque<Communicator> communicators_;
  std::deque<Sample> samples_;
  std::vector<Residual> residuals_;
};

// A cluster of one call that took twice the predicted time weighs as much as one of 999 calls that
// took 0.9 to 1.1 of it: half of the calls are at 2.
TEST(FitSpreads, EveryClusterCountsAlike) {
  Rows rows;
  rows.add("slow", 2.0);
  for (int i = 0; i < 999; ++i) rows.add("exact", 0.9 + 0.2 * i / 998.0);
  ASSERT_EQ(rows.spreads().size(), 7U);
  for (const CallSpread& spread : rows.spreads()) {
    EXPECT_NEAR(spread.low, 0.9 + 0.2 * 0.1, 2e-3);  // a twentieth of all is a tenth of its calls
    EXPECT_DOUBLE_EQ(spread.high, 2.0);
    EXPECT_EQ(spread.clusters, 2U);
    EXPECT_EQ(spread.calls, spread.nodes_least == 9 && spread.bytes_least == 0 ? 2000U : 1000U);
  }
}

// Are the limits tried on each cluster without its own calls? Neither of two clusters that differ
// is within the limits of the other.
TEST(FitSpreads, AClusterIsJudgedByTheOthers) {
  Rows rows;
  rows.add("quick", 0.8);
  rows.add("slow", 1.5);
  for (const CallSpread& spread : rows.spreads()) {
    EXPECT_DOUBLE_EQ(spread.low, 0.8);
    EXPECT_DOUBLE_EQ(spread.high, 1.5);
    EXPECT_EQ(spread.inside, 0.0);
  }
  rows.add("between", 1.2);
  for (const CallSpread& spread : rows.spreads()) EXPECT_NEAR(spread.inside, 1.0 / 3.0, 1e-12);
}

// A log of several nodes that the fit leaves out says nothing of a quiet cluster; those of one node
// came after the fit.
TEST(FitSpreads, LogsOfSeveralNodesWithoutWeightDoNotCount) {
  Rows rows;
  rows.add("quiet", 1.1);
  rows.add("in production", 5.0, 0.0);
  for (const CallSpread& spread : rows.spreads())
    EXPECT_DOUBLE_EQ(spread.high, spread.nodes_most == 1 ? 5.0 : 1.1) << calls_of(spread);
}

}  // namespace
}  // namespace trainyard::nccl::fit
