#include "sim/fold/fold.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "slow_fold.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using namespace test;

// A workload on a cluster, folded and checked by the slow definitions.
struct Folded {
  Cluster cluster;
  Workload workload;
  Partition folded;
  Partition unfolded;
};

Folded folded(const HandCluster& shape, Workload workload) {
  Cluster cluster = hand_cluster(shape);
  validate(workload, "");
  const RingModel communication(cluster);
  Partition joined = fold(cluster, workload, communication, {});
  Partition single = fold(cluster, workload, communication, {.enabled = false});
  check_equitable(cluster, workload, communication, joined);
  check_equitable(cluster, workload, communication, single);
  const SlowCounts slow = slow_counts(cluster, workload, communication);
  EXPECT_EQ(joined.ranks.size(), slow.ranks);
  EXPECT_EQ(joined.groups.size(), slow.groups);
  EXPECT_EQ(joined.links.size(), slow.links);
  return {std::move(cluster), std::move(workload), std::move(joined), std::move(single)};
}

std::vector<std::uint32_t> members_of(const Partition& partition) {
  std::vector<std::uint32_t> members;
  for (const RankClass& ranks : partition.ranks) members.push_back(ranks.members);
  return members;
}

// The bytes over all links that every class moves, once per call.
double bytes_moved(const Partition& partition) {
  double total = 0.0;
  for (const FlowClass& flow : partition.flows) {
    for (const auto& weight : flow.weights) total += flow.members * weight.bytes;
  }
  return total;
}

// Does a symmetric step have one class per stage?
TEST(Fold, ASymmetricStepHasOneClassPerStage) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 8}, training_step({.tensor = 4, .data = 2, .stages = 4, .buckets = 3}));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{8, 8, 8, 8}));
  EXPECT_EQ(single.ranks.size(), 32U);
  EXPECT_EQ(partition.ranks[1].representative, 8U);
  EXPECT_EQ(partition.ranks[1].program, 1U);
}

// Is plain data parallelism one class?
TEST(Fold, PlainDataParallelismIsOneClass) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4}, training_step({.data = 16}));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{
                                       16,
                                   }));
  ASSERT_EQ(partition.groups.size(), 1U);
  ASSERT_EQ(partition.groups[0].participants.size(), 1U);
  EXPECT_EQ(partition.groups[0].participants[0].count, 16U);
  // The ring in GPU order puts 2 * 15/16 of 64 MB on its busiest links.
  ASSERT_EQ(partition.flows.size(), 1U);
  EXPECT_DOUBLE_EQ(partition.flows[0].payload_bytes, 120e6);
}

// Four nodes of one GPU on a leaf each. Two spines join the first two leaves, three the other two,
// and a core switch joins the spines.
Cluster on_two_and_three_spines() {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  std::vector<DeviceId> leaves;
  for (std::int32_t node = 0; node < 4; ++node) {
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node}));
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node}));
    leaves.push_back(blueprint.add({.kind = DeviceKind::LeafSwitch, .index = node}));
    blueprint.cable(gpus.back(), nics.back(),
                    {.kind = LinkKind::Pcie, .capacity = BytesPerSecond{64e9}});
    blueprint.cable(nics.back(), leaves.back(),
                    {.kind = LinkKind::NicPort, .capacity = BytesPerSecond{50e9}});
  }
  const DeviceId core = blueprint.add({.kind = DeviceKind::CoreSwitch});
  for (std::int32_t spine = 0; spine < 5; ++spine) {
    const DeviceId id = blueprint.add({.kind = DeviceKind::SpineSwitch, .index = spine});
    blueprint.cable(id, core, {.kind = LinkKind::SpineCore, .capacity = BytesPerSecond{100e9}});
    for (const std::size_t leaf : spine < 2 ? std::array{0U, 1U} : std::array{2U, 3U})
      blueprint.cable(leaves[leaf], id,
                      {.kind = LinkKind::LeafSpine, .capacity = BytesPerSecond{100e9}});
  }
  return {{.nodes = 4, .gpus_per_node = 1}, std::move(blueprint).wiring(), gpus, nics};
}

// Messages that put all their bytes on every link of their route.
class WholeOnEveryLink final : public CommunicationModel {
 public:
  explicit WholeOnEveryLink(const Cluster& cluster) : cluster_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    MultiLinkFlow message;
    for (const RouteHop& hop : cluster_.router().route(gpus[0], gpus[1]))
      message.loads.push_back({hop.link, static_cast<double>(bytes_of(call))});
    return {{Seconds{1e-6}, {message}}};
  }

 private:
  const Cluster& cluster_;
};

// Are sets of parallel links of different sizes not alike, though each link carries the same? The
// classes of the senders and of the receivers part by the two and three spines between them.
TEST(Fold, SetsOfTwoAndOfThreeParallelLinksAreNotAlike) {
  const Cluster cluster = on_two_and_three_spines();
  Workload workload = empty_workload();
  ProgramWriter sender(workload, "sender");
  sender.send("network", "to", 1'000'000);
  ProgramWriter receiver(workload, "receiver");
  receiver.receive("network", "from", 1'000'000);
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) add_rank(workload, gpu % 2, gpu);
  for (RankId rank = 0; rank < 4; rank = RankId{rank + 2U})
    add_group(workload, GroupKind::Pipeline, {rank, RankId{rank + 1U}}, {"to", "from"});
  const Partition partition = fold(cluster, workload, WholeOnEveryLink(cluster), {});
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{1, 1, 1, 1}));
}

// Do weights add up the members of a class?
TEST(Fold, WeightsAddUpTheMembers) {
  // Two tensor rings of four around the switch of a node of eight. All 16 wires are one class; each
  // ring loads 8 of them, and on any one wire the two rings together put one payload.
  const auto [cluster, workload, partition, single] = folded(
      {.nodes = 1, .gpus_per_node = 8}, training_step({.tensor = 4, .data = 2, .buckets = 0}));
  ASSERT_EQ(partition.flows.size(), 1U);
  const FlowClass& flow = partition.flows[0];
  EXPECT_EQ(flow.members, 2U);
  EXPECT_DOUBLE_EQ(flow.payload_bytes, 12e6);  // 2 * 3/4 of 8 MB
  ASSERT_EQ(flow.weights.size(), 1U);
  EXPECT_EQ(partition.links[flow.weights[0].link_class].members, 16U);
  EXPECT_DOUBLE_EQ(flow.weights[0].weight, 1.0);
  EXPECT_DOUBLE_EQ(flow.weights[0].bytes, 8 * 12e6);
}

// Can many flows share one link of a class?
TEST(Fold, ManyFlowsShareOneLinkOfAClass) {
  // Four GPUs of each node send to the next node over one pair of spines: eight sends share every
  // leaf-spine link, half of each.
  Workload workload = empty_workload();
  ProgramWriter sender(workload, "sender");
  sender.send("network", "to", 1'000'000);
  ProgramWriter receiver(workload, "receiver");
  receiver.receive("network", "from", 1'000'000);
  for (std::uint32_t gpu = 0; gpu < 16; ++gpu) add_rank(workload, gpu < 8 ? 0 : 1, gpu);
  for (RankId rank = 0; rank < 8; ++rank) {
    add_group(workload, GroupKind::Pipeline, {rank, rank + 8}, {"to", "from"});
  }
  const auto [cluster, kept, partition, single] =
      folded({.nodes = 4, .nodes_per_leaf = 2}, std::move(workload));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{8, 8}));
  ASSERT_EQ(partition.flows.size(), 1U);
  EXPECT_EQ(partition.flows[0].members, 8U);
  for (const auto& weight : partition.flows[0].weights) {
    const bool spine =
        cluster.link(partition.links[weight.link_class].representative).kind == LinkKind::LeafSpine;
    EXPECT_DOUBLE_EQ(weight.weight, spine ? 4.0 : 1.0);
    EXPECT_DOUBLE_EQ(weight.flow_load, spine ? 0.5 : 1.0);
    EXPECT_DOUBLE_EQ(weight.bytes, 2e6);  // up at the sender, down at the receiver
  }
}

// Are senders and receivers distinguished by their group ranks?
TEST(Fold, SendersAndReceiversAreTheirGroupRanks) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4}, training_step({.tensor = 4, .data = 1, .stages = 4}));
  std::size_t classes = 0;
  for (const GroupClass& group : partition.groups) {
    if (workload.groups[group.representative].kind != GroupKind::Pipeline) continue;
    ASSERT_EQ(group.participants.size(), 2U);
    EXPECT_EQ(group.participants[0].group_rank, 0U);
    EXPECT_EQ(group.participants[1].group_rank, 1U);
    EXPECT_EQ(group.participants[0].count, 1U);
    ++classes;
  }
  EXPECT_GE(classes, 3U) << "four stages have three borders";
}

// Is a ring of sends one class with two participants?
TEST(Fold, ARingOfSendsIsOneClassWithTwoParticipants) {
  // Every rank sends to the next and receives from the previous one: all are equivalent.
  Workload workload = empty_workload();
  ProgramWriter program(workload, "ring");
  program.send("out", "to", 1'000'000);
  program.receive("in", "from", 1'000'000);
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu) add_rank(workload, 0, gpu);
  for (RankId rank = 0; rank < 8; ++rank) {
    add_group(workload, GroupKind::Context, {rank, RankId{(rank + 1) % 8}}, {"to", "from"});
  }
  const auto [cluster, kept, partition, single] =
      folded({.nodes = 1, .gpus_per_node = 8}, std::move(workload));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{8}));
  ASSERT_EQ(partition.groups.size(), 1U);
  ASSERT_EQ(partition.groups[0].participants.size(), 2U);
  EXPECT_NE(partition.places[0][0].participant, partition.places[0][1].participant);
}

// Does a slow link split the rings that cross it?
TEST(Fold, ASlowLinkSplitsTheRingsThatCrossIt) {
  // One wire of node 2 is slow. Its tensor ring differs from the other three; the four ranks of the
  // ring stay equivalent, since a ring moves as one.
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4, .speed = {{{"node 2 gpu 1", "node 2 nvswitch"}, 0.5}}},
             training_step({.tensor = 4, .data = 4}));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{12, 4}));
}

// Does a slow port split one pair of many, and the pairs that share its links?
TEST(Fold, ASlowPortSplitsItsPairAndThoseThatShareItsLinks) {
  // Eight pairs of neighbours exchange messages across nodes; the port of GPU 1 of node 0 is slow.
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4, .nodes_per_leaf = 4, .speed = {{{"node 0 nic 1", "leaf 0"}, 0.5}}},
             training_step({.tensor = 1, .data = 8, .stages = 2, .buckets = 0}));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{7, 1, 7, 1}));
}

// Does a slow link that nothing uses split nothing?
TEST(Fold, ASlowLinkThatNothingUsesSplitsNothing) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 2, .speed = {{{"leaf 0", "spine 1"}, 0.5}}},
             training_step({.tensor = 4, .data = 2}));
  EXPECT_EQ(partition.ranks.size(), 1U);
}

// Does an uneven placement split only as far as needed?
TEST(Fold, AnUnevenPlacementSplitsAsFarAsNeeded) {
  // Groups of two on nodes of four GPUs, one group across nodes.
  const auto [cluster, workload, partition, single] = folded(
      {.nodes = 2}, training_step({.tensor = 2, .data = 4, .placement = {0, 1, 2, 4, 3, 5, 6, 7}}));
  EXPECT_GT(partition.ranks.size(), 1U);
  EXPECT_LT(partition.ranks.size(), 8U);
}

// Is a different program a different class?
TEST(Fold, ADifferentProgramIsADifferentClass) {
  Workload workload = empty_workload();
  for (const std::int64_t m : {1024, 2048}) {
    ProgramWriter program(workload, "m " + std::to_string(m));
    const OpIndex op = program.compute("work", m);
    program.collective("data", "data",
                       CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1'000'000}, {op});
  }
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) add_rank(workload, gpu == 2 ? 1 : 0, gpu);
  add_group(workload, GroupKind::Data, {0, 1, 2, 3}, {"data"});
  const auto [cluster, kept, partition, single] = folded({.nodes = 1}, std::move(workload));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{3, 1}));
  ASSERT_EQ(partition.groups.size(), 1U);
  EXPECT_EQ(partition.groups[0].participants.size(), 2U);
  // All wires carry the same load and are one class.
  EXPECT_EQ(partition.links.size(), 1U);
}

// Are two slots to one group one participant?
TEST(Fold, TwoSlotsToOneGroupAreOneParticipant) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "both");
  program.collective("data", "first",
                     CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1'000'000});
  program.collective("data", "second",
                     CollectiveCall{.op = CollectiveOp::AllGather, .bytes = 1'000'000});
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) add_rank(workload, 0, gpu);
  add_group(workload, GroupKind::Data, {0, 1, 2, 3}, {"first"});
  for (Rank& rank : workload.ranks) rank.slots[1] = rank.slots[0];
  const auto [cluster, kept, partition, single] = folded({.nodes = 1}, std::move(workload));
  ASSERT_EQ(partition.groups[0].participants.size(), 1U);
  EXPECT_EQ(partition.places[0][0].participant, partition.places[0][1].participant);
  EXPECT_EQ(partition.phases[0][0].size(), 1U);
  EXPECT_EQ(partition.phases[0][1].size(), 1U);
}

// Do unused slots not matter?
TEST(Fold, UnusedSlotsDoNotMatter) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "alone");
  program.compute("work", 1024);
  workload.slots = {"unused"};
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) add_rank(workload, 0, gpu);
  add_group(workload, GroupKind::Data, {1, 2}, {"unused"});
  const auto [cluster, kept, partition, single] = folded({.nodes = 1}, std::move(workload));
  EXPECT_EQ(members_of(partition), (std::vector<std::uint32_t>{4}));
  EXPECT_EQ(partition.places[0][0].group_class, kNone);
  EXPECT_TRUE(partition.links.empty());
}

// Are phases kept in order?
TEST(Fold, PhasesAreKeptInOrder) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4}, training_step({.data = 16, .algorithm = "two_phases"}));
  ASSERT_EQ(partition.phases.size(), 1U);
  ASSERT_EQ(partition.phases[0][0].size(), 2U);
  EXPECT_EQ(partition.phases[0][0][0].flows, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(partition.phases[0][0][1].flows, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(partition.flows[1].phase, 1U);
}

// Are the two directions of a ring one flow?
TEST(Fold, TheTwoDirectionsOfARingAreOneFlow) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 4}, training_step({.data = 16, .algorithm = "two_rings"}));
  ASSERT_EQ(partition.phases[0][0].size(), 1U);
  ASSERT_EQ(partition.phases[0][0][0].flows.size(), 1U);
  EXPECT_EQ(partition.flows[0].members, 2U);
  EXPECT_EQ(single.phases[0][0][0].flows.size(), 2U);
}

// Do folded and unfolded partitions move the same bytes?
TEST(Fold, FoldedAndUnfoldedMoveTheSameBytes) {
  const auto [cluster, workload, partition, single] =
      folded({.nodes = 8, .nodes_per_leaf = 2, .spines = 3},
             training_step({.tensor = 2, .data = 8, .stages = 2, .algorithm = "two_rings"}));
  EXPECT_NEAR(bytes_moved(partition), bytes_moved(single), 1e-9 * bytes_moved(single));
  EXPECT_LT(partition.flows.size(), single.flows.size());
}

// Are random placements folded to the coarsest equitable partition?
TEST(Fold, RandomPlacementsAreTheCoarsestEquitablePartition) {
  std::uint64_t state = 12345;
  const auto random = [&](std::uint64_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33U) % bound;
  };
  for (int i = 0; i < 20; ++i) {
    StepShape shape{.tensor = 1U << random(3), .data = 1U << random(3), .stages = 1U << random(3)};
    const std::uint32_t world = shape.tensor * shape.data * shape.stages;
    const std::uint32_t nodes = std::max(2U, (world + 3) / 4);
    shape.placement.resize(std::size_t{nodes} * 4);
    std::iota(shape.placement.begin(), shape.placement.end(), 0U);
    // A few swaps: mostly regular, like real placements.
    for (std::uint64_t swaps = random(4); swaps > 0; --swaps) {
      std::swap(shape.placement[random(shape.placement.size())],
                shape.placement[random(shape.placement.size())]);
    }
    SCOPED_TRACE("case " + std::to_string(i));
    folded({.nodes = nodes, .nodes_per_leaf = 2, .spines = 2}, training_step(shape));
  }
}

}  // namespace
}  // namespace trainyard
