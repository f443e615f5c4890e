// Concurrent collectives on shared links, for which max-min fairness has a solution on paper.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine_run.hpp"
#include "test_clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using namespace testing;

struct Traffic {
  CollectiveOp op = CollectiveOp::AllReduce;
  double bytes = 0.0;
  const char* algorithm = "ring";
  std::vector<std::uint32_t> gpus;
};

// All traffic starts at time 0, each on a separate stream; rank = GPU. Every rank has its own
// program, whose i-th operation belongs to the i-th traffic of this rank.
Workload at_once(const std::vector<Traffic>& all, std::uint32_t ranks) {
  Workload workload{.streams = {"compute"}, .names = {"traffic"}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    workload.programs.push_back({.name = "rank " + std::to_string(rank)});
    workload.ranks.push_back({.program = rank, .gpu = rank});
  }
  for (std::uint16_t i = 0; i < all.size(); ++i) {
    const Traffic& traffic = all[i];
    const bool sends = traffic.op == CollectiveOp::SendRecv;
    workload.streams.push_back("stream " + std::to_string(i));
    workload.slots.push_back("group " + std::to_string(i));
    workload.calls.push_back(make_call(traffic.op, static_cast<std::int64_t>(traffic.bytes),
                                       DataType::Bf16, traffic.algorithm));
    workload.groups.push_back({.members = {traffic.gpus.begin(), traffic.gpus.end()}});
    for (std::uint32_t group_rank = 0; group_rank < traffic.gpus.size(); ++group_rank) {
      Rank& rank = workload.ranks[traffic.gpus[group_rank]];
      rank.slots.resize(std::size_t{i} + 1);
      rank.slots[i] = {.group = GroupId{i}, .group_rank = group_rank};
      const OpKind kind = !sends            ? OpKind::Collective
                          : group_rank == 0 ? OpKind::Send
                                            : OpKind::Recv;
      workload.programs[rank.program].operations.push_back(
          {.kind = kind, .stream = static_cast<std::uint8_t>(i + 1), .slot = i, .payload = i});
    }
  }
  for (Rank& rank : workload.ranks) rank.slots.resize(all.size());
  return workload;
}

// The microseconds until each traffic has ended, as its first member sees it.
std::vector<double> ends(const Cluster& cluster, const std::vector<Traffic>& all,
                         const FoldOptions& fold) {
  const Workload workload = at_once(all, static_cast<std::uint32_t>(cluster.gpus().size()));
  const EngineRun run = run_engine(cluster, workload, {.engine = "simgrid", .fold = fold});
  std::vector<double> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RankId rank{all[i].gpus.front()};
    const OperationList& ops = workload.programs[rank].operations;
    const auto op = std::ranges::find(ops, static_cast<std::uint16_t>(i), &Operation::slot);
    ends.push_back(end_us(run, rank, static_cast<OpIndex>(std::ranges::distance(ops.begin(), op))));
  }
  return ends;
}

void expect_ends(const Cluster& cluster, const std::vector<Traffic>& all,
                 const std::vector<double>& wanted_us) {
  for (const FoldOptions& fold : {FoldOptions{.enabled = false}, FoldOptions{.enabled = true},
                                  FoldOptions{.enabled = true, .drop_uncontended = true}}) {
    const std::vector<double> found = ends(cluster, all, fold);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_RELATIVE(found[i], wanted_us[i]) << i;
  }
}

Cluster eager_star(std::uint32_t gpus) { return make_cluster({.gpus = gpus, .intra_us = 0.0}); }

constexpr double kUs = kGibibyte / 1e11 * 1e6;  // the time of a GiB over one port

// Do two rings over the same ports share every port? Each has half the rate until the shorter one
// has ended.
TEST(Contention, TwoRingsShareEveryPort) {
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const double short_us = 2.0 * 7.0 / 8.0 * kUs;
  expect_ends(eager_star(8),
              {{.bytes = kGibibyte, .gpus = gpus}, {.bytes = 3.0 * kGibibyte, .gpus = gpus}},
              {2.0 * short_us, 4.0 * short_us});
}

// Does a shared port slow the whole ring? A ring of four and one of two of its members share ports,
// which slow the larger ring everywhere. 3/4 S at half rate takes 1.5 S/B; then a quarter of the
// other's S is left.
TEST(Contention, ASharedPortSlowsTheWholeRing) {
  expect_ends(eager_star(4),
              {{.op = CollectiveOp::AllGather, .bytes = kGibibyte, .gpus = {0, 1, 2, 3}},
               {.op = CollectiveOp::AllReduce, .bytes = kGibibyte, .gpus = {0, 1}}},
              {1.5 * kUs, 1.75 * kUs});
}

// Do messages share senders and receivers? Of 0 to 2, 1 to 2 and 0 to 3, two share the port out of
// 0, two the port into 2, so all have half the rate.
TEST(Contention, MessagesShareSendersAndReceivers) {
  const auto message = [](double bytes, std::uint32_t from, std::uint32_t to) {
    return Traffic{
        .op = CollectiveOp::SendRecv, .bytes = bytes, .algorithm = "direct", .gpus = {from, to}};
  };
  expect_ends(
      eager_star(4),
      {message(kGibibyte, 0, 2), message(kGibibyte / 2, 1, 2), message(2.0 * kGibibyte, 0, 3)},
      {2.0 * kUs, 1.0 * kUs, 3.0 * kUs});
}

// Do rails share an oversubscribed link? Four rails over the one cable between two leaves have a
// quarter of it each.
TEST(Contention, RailsShareAnOversubscribedTrunk) {
  const Cluster cluster =
      make_cluster({.nodes = 2, .gpus = 4, .inter_us = 0.0, .nodes_per_leaf = 1, .trunk = 1e11});
  std::vector<Traffic> rails;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    rails.push_back({.op = CollectiveOp::AllGather, .bytes = kGibibyte, .gpus = {gpu, gpu + 4}});
  const double wanted = 4.0 * kUs / 2.0;
  expect_ends(cluster, rails, {wanted, wanted, wanted, wanted});
}

// Eight rings, one per rail, over four nodes on one leaf. They share no link, so each takes 2 * 3/4
// S/B as if it were alone.
std::vector<Traffic> ring_on_every_rail(double bytes) {
  std::vector<Traffic> rails;
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu)
    rails.push_back({.bytes = bytes, .gpus = {gpu, gpu + 8, gpu + 16, gpu + 24}});
  return rails;
}

// Do eight rings on eight rails not affect each other?
TEST(Contention, EightRingsOnEightRailsShareNoLink) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8, .inter_us = 0.0});
  expect_ends(cluster, ring_on_every_rail(kGibibyte), std::vector<double>(8, 1.5 * kUs));
}

// Does an oversubscribed leaf halve the rate of eight rings? Each node has a leaf whose uplink has
// half the capacity of its eight NICs, so all take twice as long: the uplink carries 8 * 1.5 S at 4
// B.
TEST(Contention, AnOversubscribedLeafHalvesEightRings) {
  const Cluster cluster =
      make_cluster({.nodes = 4, .gpus = 8, .inter_us = 0.0, .nodes_per_leaf = 1, .trunk = 4e11});
  expect_ends(cluster, ring_on_every_rail(kGibibyte), std::vector<double>(8, 3.0 * kUs));
}

// Does traffic on a leaf use the capacity that the uplink leaves? Two pairs cross the one cable
// between two leaves at half rate; the rest of the NICs is for the pair that stays on a leaf. Half
// a GiB in each direction: 1 S/B for all, then the larger one alone.
TEST(Contention, TrafficOnALeafTakesWhatTheUplinkLeaves) {
  const Cluster cluster =
      make_cluster({.nodes = 4, .gpus = 1, .inter_us = 0.0, .nodes_per_leaf = 2, .trunk = 1e11});
  const auto gather = [](double bytes, std::uint32_t a, std::uint32_t b) {
    return Traffic{.op = CollectiveOp::AllGather, .bytes = bytes, .gpus = {a, b}};
  };
  expect_ends(cluster,
              {gather(kGibibyte, 0, 2), gather(kGibibyte, 1, 3), gather(2.0 * kGibibyte, 0, 1)},
              {1.0 * kUs, 1.0 * kUs, 1.5 * kUs});
}

// Does an all_to_all concurrent with an all_reduce halve both? A sender of the all_to_all is one
// flow that fills its port and a third of each other one, the ring is one flow over all ports: each
// has half of every port. 3/4 S at half rate; then half of the ring's 3/2 S is left.
TEST(Contention, AConcurrentAllToAllAndAllReduceHaveHalfEach) {
  const std::vector<std::uint32_t> gpus = gpus_of(4);
  expect_ends(
      eager_star(4),
      {{.op = CollectiveOp::AllToAll, .bytes = kGibibyte, .algorithm = "direct", .gpus = gpus},
       {.bytes = kGibibyte, .gpus = gpus}},
      {1.5 * kUs, 2.25 * kUs});
}

// Does a dead rail slow only itself and the rail whose NIC it uses? The GPUs of a dead rail share
// the NIC of another one, whose PCIe link (48 GB/s) both rings cross: those two take twice as long,
// the other six as long as before.
TEST(Contention, ADeadRailSlowsItselfAndItsHost) {
  ClusterSpec spec{.node = load_node("dgx_h100"), .nodes = 4, .fabric = {.kind = RailOptimized{}}};
  spec.node.latency = {};
  spec.faults = {{.part = Fault::Part::Rail, .rail = 2}};
  const Cluster cluster = build_cluster(spec);
  const DeviceId nic = cluster.nic_of_gpu()[2];
  const double alone_us = 1e6 * 1.5 * kGibibyte / 48e9;
  std::vector<double> wanted;
  std::size_t sharing = 0;
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu) {
    const bool shares = cluster.nic_of_gpu()[gpu] == nic;
    sharing += shares ? 1 : 0;
    wanted.push_back(shares ? 2.0 * alone_us : alone_us);
  }
  EXPECT_EQ(sharing, 2U);
  expect_ends(cluster, ring_on_every_rail(kGibibyte), wanted);
}

}  // namespace
}  // namespace trainyard
