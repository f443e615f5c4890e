// The critical path of the run computed by hand (small_run.hpp).
#include "sim/report/path_summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

// Is the path the first forward and its message, both microbatches of stage 1, the all_reduce and
// the optimizer? 1 + 0.25 + 1.5 + 1.5 + 0.5 + 0.25 = 5 s. The kernels alone take 1 s each, so 0.5 s
// of each forward of stage 1 is slowdown; 1 KiB and 1 MiB take almost no time on idle links.
TEST(PathSummary, FollowsTheRunByHand) {
  const SmallRun small;
  const PathSummary path = path_summary(small.view());
  EXPECT_DOUBLE_EQ(path.seconds, 5.0);
  std::map<std::string, double> causes;
  double sum = 0.0;
  for (const PathCause& cause : path.causes) {
    causes[cause.name] = cause.seconds;
    sum += cause.seconds;
    EXPECT_DOUBLE_EQ(cause.share, cause.seconds / 5.0);
  }
  EXPECT_DOUBLE_EQ(sum, 5.0);
  EXPECT_DOUBLE_EQ(causes["gemm"], 3.0);
  EXPECT_DOUBLE_EQ(causes["kernels slowed by communication"], 1.0);
  EXPECT_NEAR(causes["waiting for links others use"], 0.75, 0.01);
  EXPECT_DOUBLE_EQ(causes["optimizer"], 0.25);
  // The all_reduce and the optimizer end on both stages at the same time; the first one counts.
  ASSERT_EQ(path.stages.size(), 2U);
  EXPECT_DOUBLE_EQ(path.stages[0].seconds, 1.0 + 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(path.stages[1].seconds, 0.25 + 1.5 + 1.5);
  EXPECT_EQ(path.busiest_stage, 1U);
  EXPECT_DOUBLE_EQ(path.elsewhere_s, 1.75);
}

// How much later may operations end? The second forward of stage 0 and its message have 0.5 s,
// since stage 1 takes the message at 2.75 s and it arrives at 2.25 s; the others are on the path.
TEST(PathSummary, SlackOfTheRunByHand) {
  const SmallRun small;
  const std::vector<OperationSlack> slack = path_summary(small.view()).slack;
  ASSERT_EQ(slack.size(), 5U);
  EXPECT_EQ(slack[0].name, "forward");  // the longest first
  EXPECT_EQ(slack[0].count, 4U);
  EXPECT_DOUBLE_EQ(slack[0].seconds, (1.0 + 1.0 + 1.5 + 1.5) / 2.0);
  EXPECT_DOUBLE_EQ(slack[0].on_path_s, 1.0 + 1.5 + 1.5);
  EXPECT_DOUBLE_EQ(slack[0].least_slack_s, 0.0);
  EXPECT_DOUBLE_EQ(slack[0].mean_slack_s, 0.5 / 4.0);
  const auto sends = std::ranges::find(slack, "send", &OperationSlack::name);
  ASSERT_NE(sends, slack.end());
  EXPECT_DOUBLE_EQ(sends->mean_slack_s, 0.5 / 2.0);
}

// Does the section list every kind of operation once, the longest first?
TEST(PathSection, ListsTheLongestKindsOfOperations) {
  SmallRun small;
  const auto rows_after_title = [&small] {
    const std::string text = path_section(small.view());
    std::istringstream lines(text.substr(text.find("  operation ")));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line) && !line.empty();)
      names.push_back(line.substr(2, line.find("  ", 2) - 2));
    return names;
  };
  EXPECT_EQ(rows_after_title(),
            (std::vector<std::string>{"operation", "forward", "reduce gradients", "send", "recv",
                                      "adam"}));
}

}  // namespace
}  // namespace trainyard
