// The number of operations of a collective in the stepwise model. The counts are exact; tests/bench
// measures the time. TRAINYARD_FULL=1 plays 256 ranks instead of 64.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine_run.hpp"

namespace trainyard {
namespace {

using namespace testing;

std::uint32_t ranks() { return std::getenv("TRAINYARD_FULL") == nullptr ? 64 : 256; }

// Does a ring take as many operations as it has messages?
TEST(StepwiseSpeed, ARingTakesAsManyOperationsAsItHasMessages) {
  for (const RunWay& way : {RunWay{.engine = "ideal"}, RunWay{.engine = "simgrid"}}) {
    const PlayedRing played = play_ring(ranks(), way);
    EXPECT_RELATIVE(played.makespan_s, ring_seconds(ranks())) << way.engine;
    EXPECT_EQ(played.operations, ring_operations(ranks())) << way.engine;
  }
}

// Does a folded ring take the operations of one rank? All ranks of a ring on one switch are in one
// class, so one of them is played.
TEST(StepwiseSpeed, AFoldedRingTakesTheOperationsOfOneRank) {
  const PlayedRing played = play_ring(
      ranks(), {.engine = "simgrid", .fold = {.enabled = true, .drop_uncontended = true}});
  EXPECT_RELATIVE(played.makespan_s, ring_seconds(ranks()));
  EXPECT_EQ(played.operations, ring_operations(ranks()) / ranks());
}

}  // namespace
}  // namespace trainyard
