// Which places of groups are alike, and whether groups in them load what they would if each were
// asked for by itself.
#include "sim/graph/alike_places.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "hand_cluster.hpp"
#include "hand_workload.hpp"
#include "sim/graph/joint_graph.hpp"

namespace trainyard::test {
namespace {

using Gpus = std::vector<std::uint32_t>;

std::uint32_t number_of_mates(AlikePlaces& places, const Gpus& gpus) {
  return places.of_group(gpus).value();
}

TEST(AlikePlaces, NodesAreAlikeUnlessALinkDiffers) {
  const Cluster cluster = hand_cluster(
      {.nodes = 3, .gpus_per_node = 2, .speed = {{{"node 2 gpu 0", "node 2 nvswitch"}, 0.5}}});
  AlikePlaces places(cluster);
  EXPECT_EQ(number_of_mates(places, {0, 1}), number_of_mates(places, {2, 3}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {4, 5}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {3, 2}));
}

TEST(AlikePlaces, MessagesAreAlikeOverEquallyManyEqualLinks) {
  const Cluster cluster = hand_cluster({.nodes = 6,
                                        .gpus_per_node = 2,
                                        .nodes_per_leaf = 2,
                                        .speed = {{{"leaf 2", "node 5 nic 0"}, 0.5}}});
  AlikePlaces places(cluster);
  const auto number = [&](std::uint32_t from, std::uint32_t to) {
    return places.of_message(from, to).value();
  };
  EXPECT_EQ(number(0, 2), number(4, 6));   // both under one leaf
  EXPECT_NE(number(0, 2), number(0, 4));   // over the spines
  EXPECT_EQ(number(0, 4), number(6, 2));   // and back
  EXPECT_NE(number(0, 4), number(1, 5));   // of another GPU of the node
  EXPECT_NE(number(0, 4), number(0, 10));  // into a slow port
  EXPECT_FALSE(places.of_message(0, 1).has_value());
}

TEST(AlikePlaces, GroupsOverATreeAreAlikeWhereTheirLeavesAreShared) {
  const Cluster cluster = hand_cluster({.nodes = 12, .gpus_per_node = 2, .nodes_per_leaf = 3});
  AlikePlaces places(cluster);
  const auto number = [&](const Gpus& gpus) { return places.of_group(gpus).value(); };
  // By node: two under the first leaf and one under the second; GPUs 0 and 1 of a node.
  EXPECT_EQ(number({0, 2, 6}), number({12, 14, 18}));
  EXPECT_EQ(number({0, 2, 6}), number({2, 4, 12}));
  EXPECT_NE(number({0, 2, 6}), number({0, 6, 8}));  // one, then two
  EXPECT_NE(number({0, 2, 6}), number({0, 2, 4}));  // all under one
  EXPECT_NE(number({0, 2, 6}), number({1, 3, 7}));  // of another GPU of the node
  EXPECT_NE(number({0, 2, 6}), number({6, 2, 0}));  // the other way round
  EXPECT_NE(number({0, 2, 6}), number({0, 2, 6, 12}));
  EXPECT_EQ(number({0, 1, 6, 7}), number({2, 3, 12, 13}));  // two of each node
  EXPECT_NE(number({0, 1, 6, 7}), number({0, 1, 2, 3}));
}

TEST(AlikePlaces, WeakerCablesSetASwitchApart) {
  const Cluster cluster =
      hand_cluster({.nodes = 12,
                    .gpus_per_node = 2,
                    .nodes_per_leaf = 3,
                    .speed = {{{"spine 0", "leaf 1"}, 0.5}, {{"spine 1", "leaf 1"}, 0.5}}});
  AlikePlaces places(cluster);
  EXPECT_EQ(places.of_group(Gpus{0, 12}).value(), places.of_group(Gpus{2, 18}).value());
  EXPECT_NE(places.of_group(Gpus{0, 12}).value(), places.of_group(Gpus{0, 6}).value());
}

// The two spines of all leaves are then two ways up.
TEST(AlikePlaces, OneWeakerCableOfTwoLeavesNoTree) {
  const Cluster cluster = hand_cluster({.nodes = 12,
                                        .gpus_per_node = 2,
                                        .nodes_per_leaf = 3,
                                        .speed = {{{"spine 0", "leaf 1"}, 0.5}}});
  AlikePlaces places(cluster);
  EXPECT_FALSE(places.of_group(Gpus{0, 12}).has_value());
  EXPECT_TRUE(places.of_group(Gpus{0, 1}).has_value());
  EXPECT_TRUE(places.of_message(0, 12).has_value());
}

TEST(AlikePlaces, ALinkOfAPlaceIsFoundAgainInOneAlike) {
  const Cluster cluster = hand_cluster({.nodes = 12, .gpus_per_node = 2, .nodes_per_leaf = 3});
  AlikePlaces places(cluster);
  const Gpus here{0, 2, 6};
  const Gpus there{12, 14, 18};
  for (const auto& [from, to] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {1, 2}, {2, 0}}) {
    const Route way = cluster.route(here[from], here[to], RouteDetail::Bundles);
    const Route moved = cluster.route(there[from], there[to], RouteDetail::Bundles);
    ASSERT_EQ(way.size(), moved.size());
    for (std::size_t hop = 0; hop < way.size(); ++hop) {
      ASSERT_TRUE(places.of_group(here).has_value());
      const auto spot = places.spot_of(way[hop].link);
      ASSERT_TRUE(spot.has_value()) << hop;
      ASSERT_TRUE(places.of_group(there).has_value());
      EXPECT_EQ(places.hop_at(*spot).link, moved[hop].link) << hop;
      EXPECT_EQ(places.hop_at(*spot).alike, moved[hop].alike) << hop;
    }
  }
  ASSERT_TRUE(places.of_group(here).has_value());
  const Route elsewhere = cluster.route(12, 18, RouteDetail::Bundles);
  EXPECT_FALSE(places.spot_of(elsewhere.front().link).has_value());
}

// What a group's chains put on links, by call, in all.
using Loads = std::map<std::pair<std::uint32_t, LinkId>, double>;

Loads joined_loads(const JointGraph& joint, GroupId group) {
  Loads loads;
  for (const GroupCall& made : joint.calls_of(group))
    for (const ShapedPhase& phase : made.phases)
      for (const ShapedChain& chain : phase.chains)
        for (const auto& [link, load] : joint.shape(joint.first_shape[group] + chain.shape))
          loads[{made.call, link}] += chain.count * chain.payload_bytes * joint.loads[load];
  return loads;
}

Loads asked_loads(const JointGraph& joint, const Workload& workload, const Transport& transport,
                  GroupId group) {
  Gpus gpus;
  for (const RankId rank : workload.groups[group].members) gpus.push_back(workload.ranks[rank].gpu);
  Loads loads;
  for (const GroupCall& made : joint.calls_of(group))
    for (const Phase& phase : transport.phases(workload.calls[made.call], gpus))
      for (const Chain& chain : phase.chains)
        for (const LinkLoad& load : chain.loads)
          if (joint.row_of[joint.bundle_of[load.link]] == load.link)
            loads[{made.call, load.link}] += load.bytes;
  return loads;
}

// Every GPU sends to the one in its place of the next node, all of a node meet, and so do those in
// one place of the lower and of the upper half of the nodes.
Workload messages_and_mates(std::uint32_t nodes, std::uint32_t gpus_per_node) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  program.collective("sum", "tensor", {.op = CollectiveOp::AllReduce, .bytes = 1'000'000});
  program.collective("pass", "pipeline", {.op = CollectiveOp::SendRecv, .bytes = 3'000'000});
  program.collective("gather", "data", {.op = CollectiveOp::AllGather, .bytes = 5'000'000});
  for (RankId rank = 0; rank < nodes * gpus_per_node; ++rank)
    workload.ranks.push_back({.program = 0, .gpu = rank, .slots = {}});
  const auto join = [&](const Gpus& members) {
    const auto group = static_cast<GroupId>(workload.groups.size());
    const auto slot = members.size() == 2 ? 1U : members[1] == members[0] + 1 ? 0U : 2U;
    workload.groups.push_back({.members = members});
    for (std::uint32_t role = 0; role < members.size(); ++role) {
      std::vector<SlotBinding>& slots = workload.ranks[members[role]].slots;
      slots.resize(3);
      if (slots[slot].group == kNone) slots[slot] = {.group = group, .role = role};
    }
  };
  for (std::uint32_t node = 0; node < nodes; ++node) {
    Gpus mates;
    for (std::uint32_t i = 0; i < gpus_per_node; ++i) mates.push_back(node * gpus_per_node + i);
    join(mates);
    for (const std::uint32_t gpu : mates)
      if (node % 2 == 0 && node + 1 < nodes) join({gpu, gpu + gpus_per_node});
  }
  for (std::uint32_t first = 0; first < nodes; first += nodes / 2) {
    for (std::uint32_t i = 0; i < gpus_per_node; ++i) {
      Gpus replicas;
      for (std::uint32_t node = first; node < first + nodes / 2; ++node)
        replicas.push_back(node * gpus_per_node + i);
      join(replicas);
    }
  }
  return workload;
}

TEST(AlikePlaces, GroupsInThemLoadWhatEachWouldByItself) {
  const Cluster cluster = hand_cluster(
      {.nodes = 12, .nodes_per_leaf = 5, .speed = {{{"node 4 nic 1", "leaf 0"}, 0.5}}});
  const RingTransport transport(cluster);
  const Workload workload = messages_and_mates(12, 4);
  const JointGraph joint = join(cluster, workload, transport);
  std::size_t loaded = 0;
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    const Loads loads = joined_loads(joint, group);
    EXPECT_EQ(loads, asked_loads(joint, workload, transport, group)) << group;
    if (!loads.empty()) ++loaded;
  }
  EXPECT_EQ(loaded, workload.groups.size());
  EXPECT_LT(joint.traffic.size(), workload.groups.size() / 2);
}

}  // namespace
}  // namespace trainyard::test
