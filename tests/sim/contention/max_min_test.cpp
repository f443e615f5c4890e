// Max-min fair rates of flows that start together, until each has ended.
#include "sim/contention/max_min.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Are rates shared anew after a flow has ended? This is the example of max_min.hpp.
TEST(MaxMinFlows, ShareRatesAnewAfterAFlowEnds) {
  MaxMinFlows flows;
  const std::size_t link = flows.add_link(2e9);
  flows.add({.payload = 1e9, .loads = {{link, 1.0}}});
  flows.add({.payload = 3e9, .loads = {{link, 1.0}}});
  ASSERT_TRUE(flows.share());
  EXPECT_DOUBLE_EQ(flows.rate(0), 1e9);
  EXPECT_DOUBLE_EQ(flows.fills()[0], 1.0);
  flows.advance(0.25);
  EXPECT_DOUBLE_EQ(flows.left(0), 0.75e9);
  while (flows.share()) flows.advance(flows.until_next_end());
  EXPECT_DOUBLE_EQ(flows.end_s(0), 1.0);
  EXPECT_DOUBLE_EQ(flows.end_s(1), 2.0);
}

// Do rates rise until a link is full or a cap is reached? Three flows over links of 10 and 4: two
// cross both or the second, one the first. The second link gives 2 to each of its flows; the first
// has 8 left, of which the third flow takes its cap of 5. A load of 2 counts twice.
TEST(MaxMinFlows, RiseUntilALinkIsFullOrTheirCapIsReached) {
  MaxMinFlows flows;
  const std::size_t wide = flows.add_link(10.0);
  const std::size_t narrow = flows.add_link(4.0);
  flows.add({.payload = 100.0, .loads = {{wide, 1.0}, {narrow, 1.0}}});
  flows.add({.payload = 100.0, .loads = {{narrow, 1.0}}});
  flows.add({.payload = 100.0, .cap = 5.0, .loads = {{wide, 1.0}}});
  ASSERT_TRUE(flows.share());
  EXPECT_DOUBLE_EQ(flows.rate(0), 2.0);
  EXPECT_DOUBLE_EQ(flows.rate(1), 2.0);
  EXPECT_DOUBLE_EQ(flows.rate(2), 5.0);
  EXPECT_DOUBLE_EQ(flows.fills()[wide], 0.7);

  MaxMinFlows heavy;
  const std::size_t link = heavy.add_link(6.0);
  heavy.add({.payload = 1.0, .loads = {{link, 2.0}}});
  heavy.add({.payload = 1.0, .loads = {{link, 1.0}}});
  ASSERT_TRUE(heavy.share());
  EXPECT_DOUBLE_EQ(heavy.rate(0), 2.0);
  EXPECT_DOUBLE_EQ(heavy.rate(1), 2.0);
}

// Is there nothing to share without flows?
TEST(MaxMinFlows, ShareNothingWithoutFlows) {
  MaxMinFlows none;
  EXPECT_FALSE(none.share());
}

}  // namespace
}  // namespace trainyard
