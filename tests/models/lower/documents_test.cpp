// Packed documents: attention's work is the sum of their squares, and nothing else notices.
#include "models/documents.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan packed(Documents documents, const Parallelism& parallelism = {}) {
  TrainingPlan plan = plan_of(small_llama(4), parallelism, 3);
  plan.training.micro_batch_size = 2;
  plan.training.global_batch_size *= 2;
  plan.documents = std::move(documents);
  return plan;
}

double attention_flops(const Workload& workload) {
  double sum = 0.0;
  for (const Rank& rank : workload.ranks)
    for (const Operation& op : workload.programs[rank.program].operations)
      if (op.kind == OpKind::Compute &&
          std::holds_alternative<Attention>(workload.kernels[op.payload]))
        sum += flops(workload.kernels[op.payload]).value();
  return sum;
}

TEST(Documents, PairsAreThoseOfTheirSquares) {
  EXPECT_EQ(document_pairs({8192}), 33'558'528);
  EXPECT_EQ(document_pairs({2048, 2048, 2048, 2048}), 8'392'704);
}

TEST(Documents, ListedOnesAreASumOfTriangles) {
  const Documents listed{.kind = DocumentKind::List, .lengths = {64, 32, 16, 16}};
  const double pairs = 64 * 65 / 2.0 + 32 * 33 / 2.0 + 2 * 16 * 17 / 2.0;
  // Six sequences, four layers, 2 products of 256 columns forward and 2.5 times that backward.
  const double wanted = 6 * 4 * 3.5 * 4.0 * pairs * 256.0;
  EXPECT_NEAR(attention_flops(lower(packed(listed))), wanted, 1e-12 * wanted);
  const double whole = executed_flops(lower(packed({}))).value();
  const double saved = 6 * 4 * 3.5 * 4.0 * (128 * 129 / 2.0 - pairs) * 256.0;
  EXPECT_NEAR(executed_flops(lower(packed(listed))).value(), whole - saved, 1e-12 * whole);
}

TEST(Documents, DrawnOnesFillEverySequence) {
  const TrainingPlan plan =
      packed({.kind = DocumentKind::Lognormal, .mean_length = 20}, {.data = 3});
  std::set<std::vector<std::int64_t>> seen;
  for (const std::int64_t replica : {0, 1, 2}) {
    for (const std::int64_t microbatch : {0, 1, 2}) {
      const DocumentsOf of{.microbatch = microbatch, .replica = replica};
      const auto lengths = microbatch_documents(plan, of);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 2 * 128);
      for (const std::int64_t length : lengths) EXPECT_GE(length, 1);
      EXPECT_EQ(lengths, microbatch_documents(plan, of));
      seen.insert(lengths);
    }
  }
  EXPECT_EQ(seen.size(), 9U);
}

// Long streams of sequences have the mean that was asked for, but for the documents cut at the end.
TEST(Documents, DrawnOnesHaveTheirMean) {
  TrainingPlan plan = packed({.kind = DocumentKind::Lognormal, .mean_length = 200, .sigma = 0.5});
  plan.training.sequence_length = 1'000'000;
  const auto lengths = microbatch_documents(plan, {});
  const double mean = 2e6 / static_cast<double>(lengths.size());
  EXPECT_NEAR(mean, 200.0, 0.02 * 200.0);
}

// What every replica draws is computed by it, and the slowest sets the pace.
TEST(Documents, ReplicasDrawTheirOwn) {
  const Documents drawn{.kind = DocumentKind::Lognormal, .mean_length = 30};
  const TrainingPlan plan = packed(drawn, {.data = 3});
  const Workload workload = lower(plan);
  ASSERT_EQ(workload.programs.size(), 3U);
  double wanted = 0.0;
  for (const std::int64_t replica : {0, 1, 2})
    for (const std::int64_t microbatch : {0, 1, 2})
      wanted += 4 * 3.5 * 4.0 * 256.0 *
                static_cast<double>(document_pairs(
                    microbatch_documents(plan, {.microbatch = microbatch, .replica = replica})));
  EXPECT_NEAR(attention_flops(workload), wanted, 1e-12 * wanted);
  const auto by_pairs = [](const Kernel& kernel) {
    const auto* attention = std::get_if<Attention>(&kernel);
    return attention == nullptr ? 0.0 : static_cast<double>(attention->pairs);
  };
  const Step step = replay(workload, free_transport(), by_pairs);
  double slowest = 0.0;
  for (const std::int64_t replica : {0, 1, 2}) {
    double own = 0.0;
    for (const std::int64_t microbatch : {0, 1, 2})
      own += 2 * 4 *
             static_cast<double>(document_pairs(
                 microbatch_documents(plan, {.microbatch = microbatch, .replica = replica})));
    slowest = std::max(slowest, own);
  }
  EXPECT_NEAR(step.timeline.makespan_s, slowest, 1e-9 * slowest);
}

// Ranks that trade heads for positions see whole documents: the work is divided evenly.
TEST(Documents, HeadsOfContextRanksShareTheWork) {
  const Documents listed{.kind = DocumentKind::List, .lengths = {96, 32}};
  const double alone = attention_flops(lower(packed(listed)));
  const double shared = attention_flops(
      lower(packed(listed, {.context = 4, .context_exchange = ContextExchange::AllToAll})));
  EXPECT_NEAR(shared, alone, 1e-12 * alone);
}

}  // namespace
}  // namespace trainyard
