// Are loads within a node found again in another of its pattern?
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
std::vector<LinkLoad> round(const GroupPlace& place, const GroupRanks& group_ranks) {
  LoadSum loads(place.cluster);
  for (std::size_t i = 0; i < group_ranks.size(); ++i)
    loads.add(hop_route(place, group_ranks[i], group_ranks[(i + 1) % group_ranks.size()]),
              1000.0 * static_cast<double>(i + 1));
  return loads.take().loads;
}

TEST(NodeMembers, LoadTheSameLinksOfAnotherNodeOfTheirPattern) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, {.kind = FatTree{}}));
  const GroupRanks gpus = gpus_of(32);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  const NodeMembers here(place, GroupRanks{1, 3, 4});
  const NodeMembers there(place, GroupRanks{17, 19, 20});
  const std::vector<LinkLoad> loads = round(place, {1, 3, 4});
  ASSERT_TRUE(here.holds(loads));
  ASSERT_TRUE(here.is_like(there));
  std::vector<LinkLoad> moved;
  here.append_moved(loads, there, moved);
  const std::vector<LinkLoad> asked = round(place, {17, 19, 20});
  ASSERT_EQ(moved.size(), asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(moved[i].link, asked[i].link) << i;
    EXPECT_EQ(moved[i].bytes, asked[i].bytes) << i;
  }
}

TEST(NodeMembers, AreNotLikeThoseInOtherPlacesOrInAnotherOrder) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, {.kind = FatTree{}}));
  const GroupRanks gpus = gpus_of(32);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  const NodeMembers here(place, GroupRanks{1, 3, 4});
  EXPECT_FALSE(here.is_like(NodeMembers(place, GroupRanks{17, 19, 21})));
  EXPECT_FALSE(here.is_like(NodeMembers(place, GroupRanks{17, 19})));
  EXPECT_FALSE(here.is_like(NodeMembers(place, GroupRanks{20, 19, 17})));
  EXPECT_FALSE(here.holds(round(place, {1, 3, 17})));
}

// Nodes drawn one by one are of no pattern.
TEST(NodeMembers, AreLikeNoneWhereNothingIsKnownOfTheirNode) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const GroupRanks gpus = gpus_of(8);
  const GroupPlace place{.cluster = cluster, .gpus = gpus};
  EXPECT_FALSE(NodeMembers(place, GroupRanks{0, 1}).is_like(NodeMembers(place, GroupRanks{4, 5})));
}

}  // namespace
}  // namespace trainyard
