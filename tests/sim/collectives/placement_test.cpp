// Loads within a node, mapped to another node of the same pattern.
#include "sim/collectives/placement.hpp"

#include <gtest/gtest.h>

#include "sim/collectives/loads.hpp"
#include "test_clusters.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using GroupRanks = std::vector<std::uint32_t>;

// Messages from each of the group ranks to the next, and from the last to the first.
std::vector<LinkLoad> round(const PlacedGroup& placed, const GroupRanks& group_ranks) {
  LoadSum loads(placed.cluster);
  for (std::size_t i = 0; i < group_ranks.size(); ++i)
    loads.add(hop_route(placed, group_ranks[i], group_ranks[(i + 1) % group_ranks.size()]),
              1000.0 * static_cast<double>(i + 1));
  return loads.take().loads;
}

// Do members load the corresponding links of another node of their pattern?
TEST(NodeMembers, LoadTheSameLinksOfAnotherNodeOfTheirPattern) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, {.kind = FatTree{}}));
  const GroupRanks gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const NodeMembers here(placed, GroupRanks{1, 3, 4});
  const NodeMembers there(placed, GroupRanks{17, 19, 20});
  const std::vector<LinkLoad> loads = round(placed, {1, 3, 4});
  ASSERT_TRUE(here.holds(loads));
  ASSERT_TRUE(here.is_like(there));
  std::vector<LinkLoad> moved;
  here.append_moved(loads, there, moved);
  const std::vector<LinkLoad> asked = round(placed, {17, 19, 20});
  ASSERT_EQ(moved.size(), asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(moved[i].link, asked[i].link) << i;
    EXPECT_EQ(moved[i].bytes, asked[i].bytes) << i;
  }
}

// Are members at other positions or in another order not equivalent?
TEST(NodeMembers, AreNotEquivalentAtOtherPositionsOrInAnotherOrder) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, {.kind = FatTree{}}));
  const GroupRanks gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const NodeMembers here(placed, GroupRanks{1, 3, 4});
  EXPECT_FALSE(here.is_like(NodeMembers(placed, GroupRanks{17, 19, 21})));
  EXPECT_FALSE(here.is_like(NodeMembers(placed, GroupRanks{17, 19})));
  EXPECT_FALSE(here.is_like(NodeMembers(placed, GroupRanks{20, 19, 17})));
  EXPECT_FALSE(here.holds(round(placed, {1, 3, 17})));
}

// Are members on nodes without a pattern equivalent to none? Nodes that are drawn one by one have
// no pattern.
TEST(NodeMembers, AreEquivalentToNoneWithoutAPattern) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const GroupRanks gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  EXPECT_FALSE(
      NodeMembers(placed, GroupRanks{0, 1}).is_like(NodeMembers(placed, GroupRanks{4, 5})));
}

}  // namespace
}  // namespace trainyard
