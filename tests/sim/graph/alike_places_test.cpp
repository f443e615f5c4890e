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
  return places.of_node_mates(gpus).value().number;
}

TEST(AlikePlaces, NodesAreAlikeUnlessALinkDiffers) {
  const Cluster cluster = hand_cluster(
      {.nodes = 3, .gpus_per_node = 2, .speed = {{{"node 2 gpu 0", "node 2 nvswitch"}, 0.5}}});
  AlikePlaces places(cluster);
  EXPECT_EQ(number_of_mates(places, {0, 1}), number_of_mates(places, {2, 3}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {4, 5}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {3, 2}));
  EXPECT_FALSE(places.of_node_mates(Gpus{1, 2}).has_value());
}

TEST(AlikePlaces, MessagesAreAlikeOverEquallyManyEqualLinks) {
  const Cluster cluster = hand_cluster({.nodes = 6,
                                        .gpus_per_node = 2,
                                        .nodes_per_leaf = 2,
                                        .speed = {{{"leaf 2", "node 5 nic 0"}, 0.5}}});
  AlikePlaces places(cluster);
  const auto number = [&](std::uint32_t from, std::uint32_t to) {
    return places.of_message(from, to).value().number;
  };
  EXPECT_EQ(number(0, 2), number(4, 6));   // both under one leaf
  EXPECT_NE(number(0, 2), number(0, 4));   // over the spines
  EXPECT_EQ(number(0, 4), number(6, 2));   // and back
  EXPECT_NE(number(0, 4), number(1, 5));   // of another GPU of the node
  EXPECT_NE(number(0, 4), number(0, 10));  // into a slow port
  EXPECT_FALSE(places.of_message(0, 1).has_value());
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
          if (joint.bundle_of[load.link] == load.link) loads[{made.call, load.link}] += load.bytes;
  return loads;
}

// Every GPU sends to the one in its place of the next node, and all of a node meet.
Workload messages_and_mates(std::uint32_t nodes, std::uint32_t gpus_per_node) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  program.collective("sum", "tensor", {.op = CollectiveOp::AllReduce, .bytes = 1'000'000});
  program.collective("pass", "pipeline", {.op = CollectiveOp::SendRecv, .bytes = 3'000'000});
  for (RankId rank = 0; rank < nodes * gpus_per_node; ++rank)
    workload.ranks.push_back({.program = 0, .gpu = rank, .slots = {}});
  const auto join = [&](const Gpus& members) {
    const auto group = static_cast<GroupId>(workload.groups.size());
    const auto slot = members.size() == 2 ? 1U : 0U;
    workload.groups.push_back({.members = members});
    for (std::uint32_t role = 0; role < members.size(); ++role) {
      std::vector<SlotBinding>& slots = workload.ranks[members[role]].slots;
      slots.resize(2);
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
