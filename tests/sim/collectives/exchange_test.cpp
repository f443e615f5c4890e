#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/pipeline.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

double all_reduce_us(std::string_view name, std::uint32_t n, double bytes) {
  return microseconds(star(n), CollectiveOp::AllReduce, name, gpus_of(n), bytes);
}

double flow_us(std::uint32_t chunks) {
  const Cluster cluster = star(8);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const auto messages = chain_messages(placed, Bytes{kGibibyte}, {.chunks = chunks});
  return 1e6 * time_of(cluster, phases_by_step(placed, messages, FlowOf::Message));
}

// Do the all_reduces take their closed forms (oracle 4, n = 8)?
TEST(Exchange, AllReducesTakeTheirClosedForms) {
  EXPECT_RELATIVE(all_reduce_us("halving_doubling", 8, kGibibyte), 18820.481920);
  EXPECT_RELATIVE(all_reduce_us("recursive_doubling", 8, kGibibyte), 32227.254720);
  EXPECT_RELATIVE(all_reduce_us("one_shot", 8, kGibibyte), 75166.927680);
  EXPECT_RELATIVE(all_reduce_us("two_shot", 8, kGibibyte), 18800.481920);
}

// Is recursive doubling as fast as the ring at the crossover (oracle 5: S = 11 alpha B / 1.25 = 4
// 400 000 B)?
TEST(Exchange, RecursiveDoublingMeetsTheRingWhereTheyCross) {
  EXPECT_RELATIVE(all_reduce_us("recursive_doubling", 8, 4.4e6), all_reduce_us("ring", 8, 4.4e6));
  EXPECT_LT(all_reduce_us("recursive_doubling", 8, 4.3e6), all_reduce_us("ring", 8, 4.3e6));
  EXPECT_GT(all_reduce_us("recursive_doubling", 8, 4.5e6), all_reduce_us("ring", 8, 4.5e6));
}

// Do the all_to_alls take their closed forms (oracle 6)?
TEST(Exchange, AllToAllsTakeTheirClosedForms) {
  EXPECT_RELATIVE(microseconds(star(8), CollectiveOp::AllToAll, "pairwise", gpus_of(8), kGibibyte),
                  9430.240960);
  EXPECT_RELATIVE(microseconds(star(8), CollectiveOp::AllToAll, "direct", gpus_of(8), kGibibyte),
                  9400.240960);
}

// Does the chain broadcast take its closed form (oracle 7: (n-2+C)(alpha + S/(CB)), printed to 1e-6
// us)?
TEST(Exchange, ChainBroadcastTakesItsClosedForm) {
  EXPECT_RELATIVE(flow_us(1), 75196.927680);
  EXPECT_RELATIVE(flow_us(64), 12094.051200);
  EXPECT_NEAR(flow_us(113), 11902.546642, 5e-7);
  EXPECT_NEAR(flow_us(114), 11902.545516, 5e-7);
  EXPECT_GT(flow_us(115), flow_us(114));
  for (const CollectiveOp op : {CollectiveOp::Broadcast, CollectiveOp::Reduce})
    EXPECT_RELATIVE(microseconds(star(8), op, "chain", gpus_of(8), kGibibyte), 12094.051200);
}

// Are the bytes of a sender added in the order of its messages, whatever others send in between?
// Doubles have no 2^53 + 1, so 2^53 + 1 + 1 bytes are 2^53, while 1 + 1 + 2^53 would be 2^53 + 2.
TEST(Exchange, TheBytesOfASenderAreAddedInTheOrderOfItsMessages) {
  const Cluster cluster = star(4);
  const std::vector<std::uint32_t> gpus = gpus_of(4);
  const double most = std::ldexp(1.0, 53);
  const std::vector<Message> messages{{.from = 1, .to = 0, .bytes = 5.0},
                                      {.from = 0, .to = 1, .bytes = most},
                                      {.from = 1, .to = 2, .bytes = 5.0},
                                      {.from = 0, .to = 2, .bytes = 1.0},
                                      {.from = 0, .to = 3, .bytes = 1.0}};
  const auto phases = phases_by_step({.cluster = cluster, .gpus = gpus}, messages, FlowOf::Sender);
  ASSERT_EQ(phases.size(), 1U);
  ASSERT_EQ(phases[0].flows.size(), 2U);
  EXPECT_EQ(payload(phases[0].flows[0]), most);
  EXPECT_EQ(payload(phases[0].flows[1]), 10.0);
}

// Do phases that are computed without messages load every flow as the messages do, to the digit?
TEST(Exchange, PhasesWrittenWithoutMessagesAreThoseOfTheMessages) {
  struct Row {
    CollectiveOp op;
    const char* name;
    FlowOf flow_of;
  };
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> some{0, 1, 2, 8, 9, 11, 30};
  for (const Row& row : {Row{CollectiveOp::Broadcast, "chain", FlowOf::Message},
                         Row{CollectiveOp::Reduce, "chain", FlowOf::Message},
                         Row{CollectiveOp::AllReduce, "one_shot", FlowOf::Sender},
                         Row{CollectiveOp::AllReduce, "two_shot", FlowOf::Sender},
                         Row{CollectiveOp::AllGather, "direct", FlowOf::Sender},
                         Row{CollectiveOp::ReduceScatter, "direct", FlowOf::Sender}}) {
    const CollectiveAlgorithm* algorithm = find_algorithm(row.op, row.name);
    for (const std::vector<std::uint32_t>& gpus : {gpus_of(32), some}) {
      for (const double bytes : {0.0, 1e5, 1e8}) {
        const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
        const std::vector<Phase> phases = algorithm->phases(placed, Bytes{bytes});
        const std::vector<Phase> expected =
            phases_by_step(placed, algorithm->messages(placed, Bytes{bytes}), row.flow_of);
        ASSERT_EQ(phases.size(), expected.size()) << row.name;
        for (std::size_t i = 0; i < phases.size(); ++i) {
          ASSERT_EQ(phases[i].flows.size(), expected[i].flows.size()) << row.name << i;
          for (std::size_t k = 0; k < phases[i].flows.size(); ++k)
            EXPECT_TRUE(std::ranges::equal(
                phases[i].flows[k].loads, expected[i].flows[k].loads, [](auto& a, auto& b) {
                  return a.link == b.link && a.parallel_count == b.parallel_count &&
                         a.bytes == b.bytes;
                }));
        }
      }
    }
  }
}

// Does halving exchange the largest parts with the nearest ranks? In a node of eight an eighth is
// left, of which halves and quarters cross to the other nodes and back: S/16 + S/32 of each rank.
TEST(Exchange, HalvingSwapsTheLargestPartsWithTheNearest) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const CollectiveAlgorithm* algorithm =
      find_algorithm(CollectiveOp::AllReduce, "halving_doubling");
  const std::vector<double> bytes = bytes_on_links(
      cluster, algorithm->phases({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte}));
  for (const Link& link : cluster.links()) {
    const double share = link.kind == LinkKind::NvLink ? 7.0 / 8.0 : 3.0 / 32.0;
    EXPECT_RELATIVE(bytes[link.id], 2.0 * share * kGibibyte);
  }
}

// Do numbers of ranks other than powers of two take two more steps? Of six ranks two give their
// data to two of the other four first, and get the sum last.
TEST(Exchange, OtherThanPowersOfTwoTakeTwoMoreSteps) {
  const double whole = 5.0 + kGibibyte / 1e5;
  EXPECT_RELATIVE(all_reduce_us("recursive_doubling", 6, kGibibyte), 4.0 * whole);
  EXPECT_RELATIVE(all_reduce_us("halving_doubling", 6, kGibibyte),
                  2.0 * whole + 4.0 * 5.0 + 2.0 * 3.0 / 4.0 * kGibibyte / 1e5);
}

// Do the two more steps stay on the nodes? Of 24 ranks on three nodes of eight, 16 take part, and
// each of the other eight gives its data to the rank before it.
TEST(Exchange, TheStepsOfExtraRanksStayOnTheirNodes) {
  const Cluster cluster = make_cluster({.nodes = 3, .gpus = 8});
  const std::vector<std::uint32_t> gpus = gpus_of(24);
  for (const char* name : {"recursive_doubling", "halving_doubling"}) {
    const std::vector<Message> messages =
        find_algorithm(CollectiveOp::AllReduce, name)
            ->messages({.cluster = cluster, .gpus = gpus}, Bytes{1024.0});
    const std::uint32_t last = messages.back().step;
    int extra = 0;
    for (const Message& message : messages) {
      if (message.step != 0 && message.step != last) continue;
      EXPECT_EQ(message.from / 2, message.to / 2) << name;
      ++extra;
    }
    EXPECT_EQ(extra, 16) << name;
  }
}

// Are steps numbered from 0 without a gap? Lists of messages that are printed or exported show
// them.
TEST(Exchange, StepsAreNumberedWithoutAGap) {
  const Cluster cluster = make_cluster({.nodes = 1, .gpus = 8});
  for (const auto& [op, name] : {std::pair{CollectiveOp::AllReduce, "recursive_doubling"},
                                 {CollectiveOp::AllReduce, "halving_doubling"},
                                 {CollectiveOp::Broadcast, "tree"},
                                 {CollectiveOp::Reduce, "tree"}}) {
    const CollectiveAlgorithm* algorithm = find_algorithm(op, name);
    for (std::uint32_t ranks = 2; ranks <= 8; ++ranks) {
      const std::vector<std::uint32_t> gpus = gpus_of(ranks);
      std::uint32_t next = 0;
      for (const Message& message :
           algorithm->messages({.cluster = cluster, .gpus = gpus}, Bytes{kGibibyte})) {
        if (message.step + 1 == next) continue;
        EXPECT_EQ(message.step, next) << name << " " << ranks;
        next = message.step + 1;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard
