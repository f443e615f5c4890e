// Loads of experts: the distributed rows add up, none is lost, and a seed always gives the same
// rows.
#include "models/expert_routing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace trainyard {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

// Does apportionment add up, within the limit?
TEST(Apportion, AddsUpAndKeepsToTheMost) {
  EXPECT_EQ(apportion(std::vector{1.0, 1.0, 1.0}, 10, 100), (std::vector<std::int64_t>{4, 3, 3}));
  EXPECT_EQ(apportion(std::vector{5.0, 3.0, 2.0}, 10, 100), (std::vector<std::int64_t>{5, 3, 2}));
  // The first would get 8 of 10, but takes 4; the rest share as 1 to 1.
  EXPECT_EQ(apportion(std::vector{8.0, 1.0, 1.0}, 10, 4), (std::vector<std::int64_t>{4, 3, 3}));
  EXPECT_EQ(apportion(std::vector{1.0, 0.0}, 3, 2), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(sum(apportion(std::vector{1.0, 1.0}, 100, 4)), 8);
  Random random(3);
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<double> shares(1 + random.word() % 40);
    for (double& share : shares) share = random.gamma(0.2);
    const auto total = static_cast<std::int64_t>(random.word() % 5000);
    const auto most = static_cast<std::int64_t>(random.word() % 500);
    const auto rows = apportion(shares, total, most);
    EXPECT_EQ(sum(rows), std::min(total, most * static_cast<std::int64_t>(shares.size())));
    EXPECT_LE(*std::max_element(rows.begin(), rows.end()), most);
  }
}

// Does a random stream depend only on its names?
TEST(Random, StreamsDependOnTheirNamesAlone) {
  Random root(7);
  Random a = root.split("routing").split(3);
  (void)root.word();
  EXPECT_NE(Random(7).split("routing").split(4).word(), Random(7).split("routing").split(3).word());
  EXPECT_EQ(a.word(), Random(7).split("routing").split(3).word());
  // SplitMix64's published first outputs for seed 0.
  Random zero(0);
  EXPECT_EQ(zero.word(), 0xe220a8397b1dcdafU);
  EXPECT_EQ(zero.word(), 0x6e789e6aa1b965f4U);
  for (const double alpha : {0.3, 1.0, 4.0}) {
    double mean = 0.0;
    for (int i = 0; i < 20000; ++i) mean += a.gamma(alpha) / 20000.0;
    EXPECT_NEAR(mean, alpha, 4.0 * std::sqrt(alpha / 20000.0)) << alpha;
  }
}

TrainingPlan mixtral() {
  TrainingPlan plan;
  plan.architecture = load_architecture("mixtral-8x7b");
  plan.parallelism = {.data = 8, .expert = 4, .expert_tensor = 1};
  plan.training.sequence_length = 4096;
  plan.training.global_batch_size = 8;
  return plan;
}

// Does a capacity drop or pad tokens?
TEST(Routing, CapacityDropsOrPads) {
  TrainingPlan plan = mixtral();
  plan.experts.routing = RoutingKind::Zipf;
  const auto free = ExpertRouting(plan).rows_by_expert({.layer = 2});
  EXPECT_EQ(sum(free), 8192);
  EXPECT_LE(*std::max_element(free.begin(), free.end()), 4096) << "a token goes there once";
  plan.experts.capacity_factor = 1.25;
  EXPECT_EQ(ExpertRouting(plan).capacity(), 1280);
  const auto dropped = ExpertRouting(plan).rows_by_expert({.layer = 2});
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(dropped[i], std::min<std::int64_t>(free[i], 1280));
  plan.experts.pad_to_capacity = true;
  EXPECT_EQ(ExpertRouting(plan).rows_by_expert({.layer = 2}), std::vector<std::int64_t>(8, 1280));
}

// Are the shares seeded by layer?
TEST(Routing, SharesAreSeededByLayer) {
  TrainingPlan plan = mixtral();
  plan.experts.routing = RoutingKind::Zipf;
  const ExpertRouting routing(plan);
  EXPECT_EQ(routing.rows_by_expert({.layer = 1}),
            routing.rows_by_expert({.layer = 1, .microbatch = 5, .replica = 1}));
  EXPECT_NE(routing.rows_by_expert({.layer = 1}), routing.rows_by_expert({.layer = 2}));
  plan.experts.independent_replicas = true;
  EXPECT_NE(ExpertRouting(plan).rows_by_expert({.layer = 1}),
            ExpertRouting(plan).rows_by_expert({.layer = 1, .replica = 1}));
}

// Is an answer independent of earlier queries?
TEST(Routing, RemembersNothingButWhatItDealt) {
  TrainingPlan plan = mixtral();
  for (const RoutingKind kind : {RoutingKind::Zipf, RoutingKind::Dirichlet}) {
    for (const bool by_replica : {false, true}) {
      plan.experts.routing = kind;
      plan.experts.independent_replicas = by_replica;
      const ExpertRouting routing(plan);
      std::size_t dealt_afresh = 0;
      for (std::int64_t number = 0; number < 5000; ++number) {
        const RoutingQuery query{.layer = number % 3,
                                 .microbatch = number % 2500,
                                 .replica = number % 2,
                                 .place = number % 4};
        const ExpertRows first = routing.of(query);
        const ExpertRows rows = routing.of(query);
        EXPECT_EQ(rows.received, first.received);
        if (number % 50 != 0 && number < 4990) continue;
        const ExpertRouting fresh(plan);
        EXPECT_EQ(rows.received, fresh.of(query).received);
        EXPECT_EQ(routing.between(query), fresh.between(query));
        ++dealt_afresh;
      }
      EXPECT_EQ(dealt_afresh, 100U + 10U);
    }
  }
}

// Are recorded counts distributed in proportion?
TEST(Routing, RecordedCountsAreDealtInProportion) {
  const auto file = std::filesystem::temp_directory_path() / "trainyard_expert_counts.json";
  TrainingPlan plan = mixtral();
  plan.architecture.layers = 2;
  plan.experts.routing = RoutingKind::Recorded;
  plan.experts.counts = file.string();
  std::ofstream(file) << R"({"source": "test",
    "counts": [[1, 1, 1, 1, 1, 1, 1, 1], [4, 4, 2, 2, 1, 1, 1, 1]]})";
  EXPECT_EQ(ExpertRouting(plan).rows_by_expert({.layer = 1}),
            (std::vector<std::int64_t>{2048, 2048, 1024, 1024, 512, 512, 512, 512}));
  std::ofstream(file) << R"({"counts": [[1, 2, 3]]})";
  EXPECT_THROW(ExpertRouting{plan}, InputError);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace trainyard
