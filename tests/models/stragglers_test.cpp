// The delay of the last of many replicas, as the maximum of exponential delays.
#include "models/stragglers.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Is the last replica later by the harmonic number?
TEST(Stragglers, TheLastIsLaterByTheHarmonicNumber) {
  const Stragglers replicas{.delay = 0.01};
  EXPECT_DOUBLE_EQ(replicas.last_of(1), 1.0);
  EXPECT_DOUBLE_EQ(replicas.last_of(2), 1.005);
  EXPECT_NEAR(replicas.last_of(64), 1.037439, 1e-6);
  EXPECT_NEAR(replicas.last_of(2048), 1.072021, 1e-6);
  EXPECT_DOUBLE_EQ(Stragglers{}.last_of(2048), 1.0);
}

// Is the delay of the repository's data small?
TEST(Stragglers, TheShippedDelayIsSmall) {
  const Stragglers replicas = load_stragglers();
  EXPECT_GT(replicas.delay, 0.0);
  EXPECT_LT(replicas.last_of(100'000), 1.3);
}

}  // namespace
}  // namespace trainyard
