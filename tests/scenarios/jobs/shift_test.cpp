// Which starts and priorities slow jobs least?
#include "tools/studies/jobs/shift.hpp"

#include <gtest/gtest.h>

#include "tests/agreement.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"
#include "tools/studies/jobs/report.hpp"

namespace trainyard {
namespace {

// Two jobs that compute longer than they send fit beside each other without a slowdown.
TEST(Shift, ItFindsTheStartWithoutASlowdown) {
  const Jobs jobs = jobs_of(shared_uplink());
  Memo memo;
  const ShiftSearch found = search_starts(jobs, 4, {}, memo);
  EXPECT_EQ(found.trials.size(), 4U);
  EXPECT_GT(found.trials[0].mean_slowdown, 1.2);
  EXPECT_NEAR(found.trials[found.best_trial].mean_slowdown, 1.0, kAgreement);
  EXPECT_GT(found.best.all[1].start.value(), 0.0);
  EXPECT_NEAR(simulate_jobs(found.best).jobs[0].slowdown(), 1.0, kAgreement);
}

// The first trial is the file's, and the best one is never worse.
TEST(Shift, PrioritiesAreTriedFromEqualShares) {
  auto document = shared_uplink();
  document["jobs"][0]["priority"] = 2;
  Memo memo;
  const ShiftSearch found = search_priorities(jobs_of(document), 4.0, {}, memo);
  ASSERT_EQ(found.trials.size(), 4U);
  EXPECT_EQ(found.trials[0].priorities, (std::vector<double>{2.0, 1.0}));
  EXPECT_EQ(found.trials[1].priorities, (std::vector<double>{1.0, 1.0}));
  EXPECT_EQ(found.trials[3].priorities, (std::vector<double>{1.0, 4.0}));
  for (const ShiftTrial& trial : found.trials)
    EXPECT_GE(trial.mean_slowdown, found.trials[found.best_trial].mean_slowdown - kAgreement);
}

// The report names what it found, and the JSON has the same figures.
TEST(Shift, TheReportHasTheFigures) {
  const Jobs jobs = jobs_of(shared_uplink());
  const JobsResult result = simulate_jobs(jobs);
  const auto json = jobs_json(jobs, result);
  EXPECT_EQ(json.at("jobs").at(1).at("together_s").get<double>(), result.jobs[1].together_s);
  EXPECT_EQ(json.at("shared_links").at(0).at("jobs"), (nlohmann::ordered_json{"a", "b"}));
  const std::string text = jobs_text(jobs, result);
  EXPECT_NE(text.find("The steps repeat every 7.063 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("leaf 0 -> spine 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace trainyard
