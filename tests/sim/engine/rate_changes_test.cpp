// The links whose rates must be recomputed when flows start and end.
#include "sim/engine/simgrid/rate_changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Flows 0 and 1 share link 1; flow 2 is separate and has its own cap, link 3.
//
//    link    0    1    2    3
//    flow 0  x    x
//    flow 1       x
//    flow 2            x    x
LinkSets three_flows() {
  LinkSets sets;
  sets.of_flow = {3, [](const auto& put) {
                    put(0, {.set = 0});
                    put(0, {.set = 1});
                    put(1, {.set = 1});
                    put(2, {.set = 2});
                  }};
  return sets;
}

Platform four_links() {
  Platform platform;
  platform.routes.resize(3);
  platform.routes[2].cap_link = 3;  // after the links of the three sets
  platform.links.resize(4);
  return platform;
}

struct ThreeFlows {
  LinkSets sets = three_flows();
  Platform platform = four_links();
  RateChanges changes{platform, sets};
};

// Does a change reach all links that active flows connect?
TEST(RateChanges, ReachAllLinksThatActiveFlowsConnect) {
  ThreeFlows three;
  three.changes.started(0);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(0, 1));
  EXPECT_THAT(three.changes.take(), IsEmpty()) << "once";
  three.changes.started(2);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(2, 3)) << "not what is apart";
  three.changes.started(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(0, 1)) << "flow 0 gives way, on both";
  three.changes.ended(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(0, 1)) << "flow 0 gains, on both";
  three.changes.ended(0);
  three.changes.started(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(0, 1)) << "link 0 is empty now";
  three.changes.ended(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(1)) << "nothing joins link 0 any more";
}

// Does a new limit matter only to an active flow?
TEST(RateChanges, ANewLimitMattersOnlyToAnActiveFlow) {
  ThreeFlows three;
  three.changes.limited(2);
  EXPECT_THAT(three.changes.take(), IsEmpty());
  three.changes.started(2);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(2, 3));
  three.changes.limited(2);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(2, 3));
}

// Do forgotten states connect nothing later? States that were seen before are forgotten, not taken:
// flows that ended in them must still be removed.
TEST(RateChanges, FlowsThatEndedInForgottenStatesJoinNothing) {
  ThreeFlows three;
  for (int round = 0; round < 3; ++round) {
    three.changes.started(0);
    three.changes.forget();
    three.changes.ended(0);
    three.changes.forget();
  }
  three.changes.started(1);
  static_cast<void>(three.changes.take());
  three.changes.limited(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(1));
}

// Is a class active until its last flow ends? A class of links may carry two flows of a class.
TEST(RateChanges, AClassIsActiveUntilItsLastFlowEnds) {
  ThreeFlows three;
  three.changes.started(0);
  three.changes.started(0);
  three.changes.ended(0);
  static_cast<void>(three.changes.take());
  three.changes.started(1);
  EXPECT_THAT(three.changes.take(), UnorderedElementsAre(0, 1));
}

}  // namespace
}  // namespace trainyard
