// Does a flow get the share of a full link that its priority says?
#include <gtest/gtest.h>

#include "tests/agreement.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"

namespace trainyard {
namespace {

// Two jobs start one transfer of D each on the uplink at the same time. With weights w and 1, the
// first has w/(w + 1) of the rate, and ends after D (w + 1)/w; the second ends after 2 D, because
// the uplink is never idle before.
TEST(Priority, AFlowOfWeightWGetsWTimesTheRate) {
  for (const double weight : {1.0, 2.0, 3.0, 7.0}) {
    auto document = shared_uplink();
    for (auto& job : document["jobs"]) job["steps"] = 1;
    document["jobs"][0]["priority"] = weight;
    const JobsResult result = simulated(document);
    const double alone_s = result.jobs[0].alone_s;
    const double d = 2.0 * result.jobs[1].ends_s[0] - 2.0 * alone_s;
    EXPECT_NEAR(result.jobs[0].ends_s[0] - alone_s, d / 2.0 / weight, kAgreement * alone_s)
        << weight;
    // The transfer itself, from the gradients: 2 (n - 1)/n x 16.78 M x 4 bytes / 100 GB/s.
    EXPECT_NEAR(d / 2.0, result.jobs[1].ends_s[0] - alone_s, 1e-15);
  }
}

// A priority between jobs that share nothing has no effect.
TEST(Priority, AloneItChangesNothing) {
  auto document = shared_uplink();
  document["jobs"].erase(1);
  const double plain_s = simulated(document).jobs[0].together_s;
  document["jobs"][0]["priority"] = 5;
  EXPECT_NEAR(simulated(document).jobs[0].together_s, plain_s, kAgreement * plain_s);
}

}  // namespace
}  // namespace trainyard
