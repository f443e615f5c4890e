// Groups with isomorphic placements share their flow shapes. Their loads must equal those of each
// group priced separately.
#include "sim/contention/group_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {
namespace {

using Gpus = std::vector<std::uint32_t>;

// The bytes that a group's flows put on links, summed by call.
using Loads = std::map<std::pair<std::uint32_t, LinkId>, double>;

Loads joined_loads(const Joined& joined, GroupId group) {
  const JointGraph& joint = *joined.graph;
  Loads loads;
  for (const GroupCall& made : joined.traffic.of(group))
    for (const ShapedPhase& phase : made.phases)
      for (const ShapedFlow& link_flow : phase.flows)
        for (const auto& [link, load] : joint.shape(joint.first_shape[group] + link_flow.shape))
          loads[{made.call, link}] += link_flow.count * link_flow.payload_bytes * joint.loads[load];
  return loads;
}

Loads asked_loads(const Joined& joined, const Workload& workload,
                  const CommunicationModel& communication, GroupId group) {
  Gpus gpus;
  for (const RankId rank : workload.groups[group].members) gpus.push_back(workload.ranks[rank].gpu);
  Loads loads;
  for (const GroupCall& made : joined.traffic.of(group))
    for (const Phase& phase : communication.phases(workload.calls[made.call], gpus))
      for (const MultiLinkFlow& link_flow : phase.flows)
        for (const LinkLoad& load : link_flow.loads)
          if (joined.graph->placed->parallel->lowest[load.link] == load.link)
            loads[{made.call, load.link}] += load.bytes;
  return loads;
}

// Every GPU sends to the GPU with the same index of the next node. All GPUs of a node form a group,
// so do those with the same index in the lower and in the upper half of the nodes, and at the end
// all GPUs.
Workload messages_and_mates(std::uint32_t nodes, std::uint32_t gpus_per_node) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  program.collective("sum", "tensor",
                     CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1'000'000});
  program.collective("pass", "pipeline", TransferCall{.bytes = 3'000'000});
  program.collective("gather", "data",
                     CollectiveCall{.op = CollectiveOp::AllGather, .bytes = 5'000'000});
  program.collective("norm", "world",
                     CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 7'000'000});
  for (RankId rank = 0; rank < nodes * gpus_per_node; ++rank)
    workload.ranks.push_back({.program = 0, .gpu = rank, .slots = {}});
  const auto join = [&](const Gpus& members) {
    const auto group = static_cast<GroupId>(workload.groups.size());
    const auto slot = members.size() == 2               ? 1U
                      : members[1] != members[0] + 1    ? 2U
                      : members.size() == gpus_per_node ? 0U
                                                        : 3U;
    workload.groups.push_back({.members = {members.begin(), members.end()}});
    for (std::uint32_t group_rank = 0; group_rank < members.size(); ++group_rank) {
      std::vector<SlotBinding>& slots = workload.ranks[members[group_rank]].slots;
      slots.resize(4);
      if (slots[slot].group == kNone) slots[slot] = {.group = group, .group_rank = group_rank};
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
  Gpus all(std::size_t{nodes} * gpus_per_node);
  std::iota(all.begin(), all.end(), 0U);
  join(all);
  return workload;
}

// Do groups with isomorphic placements load what each would by itself?
TEST(GroupShapes, IsomorphicGroupsHaveTheLoadsOfEachByItself) {
  const Cluster cluster = hand_cluster(
      {.nodes = 12, .nodes_per_leaf = 5, .speed = {{{"node 4 nic 1", "leaf 0"}, 0.5}}});
  const RingModel communication(cluster);
  const Workload workload = messages_and_mates(12, 4);
  const Joined joined = join(cluster, workload, communication);
  std::size_t loaded = 0;
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    const Loads loads = joined_loads(joined, group);
    EXPECT_EQ(loads, asked_loads(joined, workload, communication, group)) << group;
    if (!loads.empty()) ++loaded;
  }
  EXPECT_EQ(loaded, workload.groups.size());
  EXPECT_LT(joined.traffic.calls.size(), workload.groups.size() / 2);
}

// Is a flow of one byte a flow? In a ring of two each GPU sends the byte of an all_reduce once.
TEST(GroupShapes, AFlowOfOneByteIsAFlow) {
  const Cluster cluster = hand_cluster({.nodes = 1, .gpus_per_node = 2});
  const RingModel communication(cluster);
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  program.collective("sum", "both", CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1});
  for (RankId rank = 0; rank < 2; ++rank)
    workload.ranks.push_back(
        {.program = 0, .gpu = rank, .slots = {{.group = 0, .group_rank = rank}}});
  workload.groups.push_back({.members = {0, 1}});
  const Joined joined = join(cluster, workload, communication);
  const Loads loads = joined_loads(joined, 0);
  EXPECT_EQ(loads, asked_loads(joined, workload, communication, 0));
  EXPECT_EQ(loads.size(), 4U);  // two GPUs, to the switch and from it
}

// Does this hold on a large cluster too? From 100 000 links on, the group of all GPUs is priced
// concurrently with the others, by two threads.
TEST(GroupShapes, TwoThreadsFindTheSameOnALargeCluster) {
  const Cluster cluster = hand_cluster({.nodes = 2200,
                                        .gpus_per_node = 8,
                                        .nodes_per_leaf = 40,
                                        .speed = {{{"node 5 nic 1", "leaf 0"}, 0.5}}});
  ASSERT_TRUE(is_large(cluster));
  const RingModel communication(cluster);
  const Workload workload = messages_and_mates(2200, 8);
  const Joined joined = join(cluster, workload, communication);
  const auto groups = static_cast<GroupId>(workload.groups.size());
  const JointGraph& joint = *joined.graph;
  EXPECT_EQ(joint.first_shape.back(), joint.group_of_shape.size());
  EXPECT_EQ(joint.shape_offsets.back(), joint.shape_loads.size());
  for (GroupId group = 0; group < groups;
       group = group + 1 < groups ? std::min(group + 101, GroupId{groups - 1}) : groups) {
    const Loads loads = joined_loads(joined, group);
    EXPECT_FALSE(loads.empty()) << group;
    EXPECT_EQ(loads, asked_loads(joined, workload, communication, group)) << group;
  }
  EXPECT_LT(joined.traffic.calls.size(), 60U);
}

}  // namespace
}  // namespace trainyard::test
