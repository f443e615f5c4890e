// How much work is a collective played step by step? Counts are exact and held here; how long it
// takes is measured in tests/bench. TRAINYARD_FULL=1 plays 256 ranks in place of 64.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine_run.hpp"

namespace trainyard {
namespace {

using namespace testing;

std::uint32_t ranks() { return std::getenv("TRAINYARD_FULL") == nullptr ? 64 : 256; }

TEST(StepwiseSpeed, ARingTakesAsManyOperationsAsItHasMessages) {
  for (const RunWay& way : {RunWay{.engine = "ideal"}, RunWay{.engine = "simgrid"}}) {
    const PlayedRing played = play_ring(ranks(), way);
    EXPECT_RELATIVE(played.makespan_s, ring_seconds(ranks())) << way.engine;
    EXPECT_EQ(played.operations, ring_operations(ranks())) << way.engine;
  }
}

// All ranks of a ring on one switch are of one class: what one of them does is played once.
TEST(StepwiseSpeed, AFoldedRingTakesTheOperationsOfOneRank) {
  const PlayedRing played = play_ring(
      ranks(), {.engine = "simgrid", .fold = {.enabled = true, .drop_uncontended = true}});
  EXPECT_RELATIVE(played.makespan_s, ring_seconds(ranks()));
  EXPECT_EQ(played.operations, ring_operations(ranks()) / ranks());
}

}  // namespace
}  // namespace trainyard
