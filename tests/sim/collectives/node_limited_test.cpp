// The all_to_all in which a token crosses to a node only once: the number of nodes of its experts,
// bytes and times (DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.2; oracle 69).
#include "sim/collectives/algorithms/node_limited.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/collectives/collective.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

// Is the expected number of distinct nodes the closed form?
TEST(DistinctUnits, ClosedForms) {
  // One of 2 in each of 2 halves of 4: 2 (1 - C(2,2)/C(4,2)) = 2 (1 - 1/6).
  EXPECT_DOUBLE_EQ(distinct_units({.picks = 2, .experts = 4}, 2), 2.0 * 5.0 / 6.0);
  EXPECT_NEAR(distinct_units({.picks = 8, .experts = 256}, 256), 8.0, 1e-9);
  EXPECT_DOUBLE_EQ(distinct_units({.picks = 8, .experts = 8}, 4), 4.0);
  EXPECT_DOUBLE_EQ(distinct_units({.picks = 3, .experts = 64}, 1), 1.0);
}

// Do expert groups limit the number of nodes?
TEST(DistinctUnits, GroupsLimitNodes) {
  const TokenChoice v3{.picks = 8, .experts = 256, .reached = 4, .groups = 8};
  EXPECT_NEAR(distinct_units(v3, 8), 3.63, 0.005);
  EXPECT_LT(distinct_units(v3, 8), distinct_units({.picks = 8, .experts = 256}, 8));
  // Two groups per node: with both of a token's groups on one node, half of the other draws are
  // left.
  const TokenChoice two{.picks = 2, .experts = 8, .reached = 1, .groups = 4};
  EXPECT_DOUBLE_EQ(distinct_units(two, 2), 1.0);
  EXPECT_DOUBLE_EQ(distinct_units(two, 4), 1.0);
}

// Does DeepSeek-V3 send fewer than four copies between nodes? EP 64 on 8 nodes, fp8: at most 4096
// tokens x 4 nodes x 7168 B cross.
TEST(NodeLimited, DeepSeekV3CrossesLessThanFourCopies) {
  const Cluster cluster = make_cluster({.nodes = 8, .gpus = 8, .nvlink = 1e12, .nic = 5e10});
  const auto gpus = gpus_of(64);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const double bytes = 234'881'024.0;
  const auto* limited = find_algorithm(CollectiveOp::AllToAll, "node_limited:8-256-4-8");
  ASSERT_NE(limited, nullptr);
  const auto crossing = [&](const CollectiveAlgorithm& algorithm) {
    double sum = 0.0;
    for (const Message& message : algorithm.messages(placed, Bytes{bytes}))
      if (message.from == 0 && message.to >= 8) sum += message.bytes;
    return sum;
  };
  const double copies = crossing(*limited) / (4096.0 * 7168.0);
  EXPECT_LE(crossing(*limited), 117'440'512.0);
  EXPECT_NEAR(
      copies,
      distinct_units({.picks = 8, .experts = 256, .reached = 4, .groups = 8}, 8) * 7.0 / 8.0, 1e-9);
  const auto* plain = find_algorithm(CollectiveOp::AllToAll, "node_limited");
  EXPECT_NEAR(crossing(*plain), bytes * 7.0 / 8.0, 1e-3);
}

// Does every message of a sender have a channel of its own, so that none waits for another? With
// three nodes of two GPUs, GPU 0 sends to GPU 0 of the two other nodes and forwards to GPU 1 of its
// own.
TEST(NodeLimited, MessagesOfASenderHaveChannelsOfTheirOwn) {
  const Cluster cluster = make_cluster({.nodes = 3, .gpus = 2});
  const auto gpus = gpus_of(6);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sent;  // receiver and channel
  for (const Message& message : find_algorithm(CollectiveOp::AllToAll, "node_limited")
                                    ->messages({.cluster = cluster, .gpus = gpus}, Bytes{600.0}))
    if (message.from == 0) sent.emplace_back(message.to, message.channel);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted{{2, 0}, {4, 1}, {1, 2}};
  EXPECT_EQ(sent, wanted);
}

// Is the dispatch no faster than its SMs can copy? 8 H100s, 4 096 tokens of 7 168 fp8 numbers and
// their scales: measured 491 us; NVLink alone would take 310 us.
TEST(NodeLimited, IsNoFasterThanTheCopiesOfItsSms) {
  const Cluster cluster = make_cluster({.nodes = 1, .gpus = 8, .nvlink = 4.5e11, .nic = 5e10});
  const auto gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const double rows = 4096.0 * 8 * 7168 * (1.0 + 4.0 / 128);
  const auto* algorithm = find_algorithm(CollectiveOp::AllToAll, "node_limited:8-256-1-1");
  ASSERT_NE(algorithm, nullptr);
  const std::vector<Phase> phases = algorithm->phases(placed, Bytes{rows});
  ASSERT_EQ(phases.size(), 1U);
  const ExchangePace pace = exchange_pace(exchange_constants(kDeepEp), 1);
  EXPECT_EQ(phases[0].latency, pace.start);
  const double handed_on = rows / 8 * distinct_units({.picks = 8, .experts = 256}, 8) * 7.0 / 8.0;
  double slowest = 0.0;
  for (const MultiLinkFlow& link_flow : phases[0].flows)
    for (const LinkLoad& load : link_flow.loads)
      slowest = std::max(slowest, load.bytes / link_flow.rate_cap_bytes_per_s);
  EXPECT_NEAR(slowest, handed_on / pace.rate.value(), 1e-9);
  EXPECT_NEAR(slowest + pace.start.value(), 491e-6, 0.1 * 491e-6);
}

// Does the dispatch start later across nodes? An SM also forwards at a lower rate there.
TEST(NodeLimited, TakesLongerToBeginAcrossNodes) {
  const ExchangeConstants constants = exchange_constants(kDeepEp);
  EXPECT_GT(exchange_pace(constants, 2).start, exchange_pace(constants, 1).start);
  EXPECT_LT(exchange_pace(constants, 2).rate, exchange_pace(constants, 1).rate);
  EXPECT_EQ(exchange_pace(constants, 4).rate, exchange_pace(constants, 2).rate);
}

// Does HybridEP send a token once to each GPU of an NVLink domain that has experts of it? 36 GPUs,
// 8 of 288 experts: 36 (1 - C(280, 8) / C(288, 8)) = 7.244 copies, 35/36 of them to others.
TEST(HybridEp, SendsATokenOnceToEachGpuOfADomain) {
  const Cluster cluster = make_cluster({.nodes = 1, .gpus = 36, .nvlink = 7e11, .nic = 5e10});
  const auto gpus = gpus_of(36);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const double token = 14'336.0;
  const auto* algorithm = find_algorithm(CollectiveOp::AllToAll, "hybrid_ep:8-288-1-1");
  ASSERT_NE(algorithm, nullptr);
  double sent = 0.0;
  for (const Message& message : algorithm->messages(placed, Bytes{4096.0 * 8 * token}))
    if (message.from == 0) sent += message.bytes;
  double none = 1.0;
  for (int i = 0; i < 8; ++i) none *= (280.0 - i) / (288.0 - i);
  EXPECT_NEAR(sent / (4096.0 * token), 36.0 * (1.0 - none) * 35.0 / 36.0, 1e-9);
  EXPECT_EQ(algorithm->phases(placed, Bytes{4096.0 * 8 * token}).front().latency,
            exchange_constants(kHybridEp).in_node.start);
}

// Do algorithms name the library whose kernels they stand for?
TEST(HybridEp, IsALibraryOfItsOwn) {
  EXPECT_EQ(exchange_library_of("node_limited:8-256-4-8"), &exchange_constants(kDeepEp));
  EXPECT_EQ(exchange_library_of("hybrid_ep"), &exchange_constants(kHybridEp));
  EXPECT_EQ(exchange_library_of("pairwise"), nullptr);
}

// Is a meaningless argument refused?
TEST(NodeLimited, RefusesAMeaninglessArgument) {
  for (const char* name : {"node_limited:8", "node_limited:8-256-9-8", "node_limited:8-100-1-8",
                           "node_limited:a-b-c-d", "node_limited:9-16-4-8",
                           "node_limited:8-16-4-8-", "node_limited:8-16--4-8"})
    EXPECT_THROW((void)find_algorithm(CollectiveOp::AllToAll, name), InputError) << name;
  // Four groups of two experts have the eight that a token chooses.
  EXPECT_NE(find_algorithm(CollectiveOp::AllToAll, "node_limited:8-16-4-8"), nullptr);
}

}  // namespace
}  // namespace trainyard
