// Collectives that meet on links, where max-min fairness has an answer on paper.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine_run.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

struct Traffic {
  CollectiveOp op = CollectiveOp::AllReduce;
  double bytes = 0.0;
  const char* algorithm = "ring";
  std::vector<std::uint32_t> gpus;
};

// All of it from time 0, each on a stream of its own; rank = GPU. Every rank has its own program,
// whose i-th operation belongs to the i-th traffic that the rank has part in.
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
    workload.calls.push_back({.op = traffic.op,
                              .bytes = static_cast<std::int64_t>(traffic.bytes),
                              .algorithm = traffic.algorithm});
    workload.groups.push_back({.members = traffic.gpus});
    for (std::uint32_t role = 0; role < traffic.gpus.size(); ++role) {
      Rank& rank = workload.ranks[traffic.gpus[role]];
      rank.slots.resize(std::size_t{i} + 1);
      rank.slots[i] = {.group = i, .role = role};
      const OpKind kind = !sends ? OpKind::Collective : role == 0 ? OpKind::Send : OpKind::Recv;
      workload.programs[rank.program].operations.push_back(
          {.kind = kind, .stream = static_cast<std::uint8_t>(i + 1), .slot = i, .payload = i});
    }
  }
  for (Rank& rank : workload.ranks) rank.slots.resize(all.size());
  return workload;
}

// Microseconds until each traffic has ended, as its first member sees it.
std::vector<double> ends(const Cluster& cluster, const std::vector<Traffic>& all,
                         const FoldOptions& fold) {
  const Workload workload = at_once(all, static_cast<std::uint32_t>(cluster.gpus().size()));
  const EngineRun run = run_engine(cluster, workload, {.engine = "simgrid", .fold = fold});
  std::vector<double> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RankId rank = all[i].gpus.front();
    const std::vector<Operation>& ops = workload.programs[rank].operations;
    const auto op = std::ranges::find(ops, static_cast<std::uint16_t>(i), &Operation::slot);
    ends.push_back(end_us(run, rank, static_cast<OpIndex>(op - ops.begin())));
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

constexpr double kUs = kGibibyte / 1e11 * 1e6;  // of a GiB over one port

// Two rings over the same ports: half the rate each until the shorter has ended.
TEST(Contention, TwoRingsShareEveryPort) {
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const double short_us = 2.0 * 7.0 / 8.0 * kUs;
  expect_ends(eager_star(8),
              {{.bytes = kGibibyte, .gpus = gpus}, {.bytes = 3.0 * kGibibyte, .gpus = gpus}},
              {2.0 * short_us, 4.0 * short_us});
}

// A ring of four and one of two of them: the ports that both use hold the larger one back, all
// round. 3/4 S at half rate takes 1.5 S/B; of the other's S then a quarter is left.
TEST(Contention, ASharedPortSlowsTheWholeRing) {
  expect_ends(eager_star(4),
              {{.op = CollectiveOp::AllGather, .bytes = kGibibyte, .gpus = {0, 1, 2, 3}},
               {.op = CollectiveOp::AllReduce, .bytes = kGibibyte, .gpus = {0, 1}}},
              {1.5 * kUs, 1.75 * kUs});
}

// 0 to 2, 1 to 2 and 0 to 3: two share the way out of 0, two the way into 2, so all have half.
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

// Four rails over the one cable between two leaves: a quarter of it each.
TEST(Contention, RailsShareAnOversubscribedTrunk) {
  const Cluster cluster =
      make_cluster({.nodes = 2, .gpus = 4, .inter_us = 0.0, .nodes_per_leaf = 1, .trunk = 1e11});
  std::vector<Traffic> rails;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    rails.push_back({.op = CollectiveOp::AllGather, .bytes = kGibibyte, .gpus = {gpu, gpu + 4}});
  const double wanted = 4.0 * kUs / 2.0;
  expect_ends(cluster, rails, {wanted, wanted, wanted, wanted});
}

}  // namespace
}  // namespace trainyard
