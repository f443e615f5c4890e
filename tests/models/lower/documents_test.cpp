// Packed documents: the work of attention is the sum over their squares, and nothing else changes.
#include "models/documents.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "models/attention_pairs.hpp"
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
    for_each_kernel(workload, workload.programs[rank.program], [&](const Kernel& kernel) {
      if (std::holds_alternative<Attention>(kernel)) sum += flops(kernel).value();
    });
  return sum;
}

// Are the pairs of documents those of their causal squares?
TEST(Documents, PairsAreThoseOfTheirSquares) {
  EXPECT_EQ(document_pairs({8192}), 33'558'528);
  EXPECT_EQ(document_pairs({2048, 2048, 2048, 2048}), 8'392'704);
}

// Is the work of listed documents a sum of triangles?
TEST(Documents, ListedOnesAreASumOfTriangles) {
  const Documents listed{.kind = DocumentKind::List, .lengths = {64, 32, 16, 16}};
  const double pairs = 64 * 65 / 2.0 + 32 * 33 / 2.0 + 2 * 16 * 17 / 2.0;
  // Six sequences, four layers, 2 GEMMs of 256 columns forward and 2.5 times that backward.
  const double wanted = 6 * 4 * 3.5 * 4.0 * pairs * 256.0;
  EXPECT_NEAR(attention_flops(lower(packed(listed))), wanted, 1e-12 * wanted);
  const double whole = executed_flops(lower(packed({}))).value();
  const double saved = 6 * 4 * 3.5 * 4.0 * (128 * 129 / 2.0 - pairs) * 256.0;
  EXPECT_NEAR(executed_flops(lower(packed(listed))).value(), whole - saved, 1e-12 * whole);
}

// Do drawn documents fill every sequence?
TEST(Documents, DrawnOnesFillEverySequence) {
  const TrainingPlan plan =
      packed({.kind = DocumentKind::Lognormal, .mean_length = 20}, {.data = 3});
  std::set<std::vector<std::int64_t>> seen;
  for (const std::int64_t replica : {0, 1, 2}) {
    for (const std::int64_t microbatch : {0, 1, 2}) {
      const DocumentQuery of{.microbatch = microbatch, .replica = replica};
      const auto lengths = StepDocuments(plan).of(of);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 2 * 128);
      for (const std::int64_t length : lengths) EXPECT_GE(length, 1);
      EXPECT_EQ(lengths, StepDocuments(plan).of(of));
      seen.insert(lengths);
    }
  }
  EXPECT_EQ(seen.size(), 9U);
}

// Do drawn documents have the requested mean? Long streams of sequences have it, except for
// documents that are cut at the end.
TEST(Documents, DrawnOnesHaveTheirMean) {
  TrainingPlan plan = packed({.kind = DocumentKind::Lognormal, .mean_length = 200, .sigma = 0.5});
  plan.training.sequence_length = 1'000'000;
  const auto lengths = StepDocuments(plan).of({});
  const double mean = 2e6 / static_cast<double>(lengths.size());
  EXPECT_NEAR(mean, 200.0, 0.02 * 200.0);
}

// Does every replica compute its own drawn documents, and does the slowest set the pace?
TEST(Documents, ReplicasDrawTheirOwn) {
  const Documents drawn{.kind = DocumentKind::Lognormal, .mean_length = 30};
  const TrainingPlan plan = packed(drawn, {.data = 3});
  const Workload workload = lower(plan);
  const StepDocuments documents(plan);
  ASSERT_EQ(workload.programs.size(), 3U);
  double wanted = 0.0;
  for (const std::int64_t replica : {0, 1, 2})
    for (const std::int64_t microbatch : {0, 1, 2})
      wanted += 4 * 3.5 * 4.0 * 256.0 *
                static_cast<double>(
                    document_pairs(documents.of({.microbatch = microbatch, .replica = replica})));
  EXPECT_NEAR(attention_flops(workload), wanted, 1e-12 * wanted);
  const auto by_pairs = [](const Kernel& kernel) {
    const auto* attention = std::get_if<Attention>(&kernel);
    return attention == nullptr ? 0.0 : static_cast<double>(attention->pairs);
  };
  const Step step = replay(workload, free_model(), by_pairs);
  double slowest = 0.0;
  for (const std::int64_t replica : {0, 1, 2}) {
    double own = 0.0;
    for (const std::int64_t microbatch : {0, 1, 2})
      own += 2 * 4 *
             static_cast<double>(
                 document_pairs(documents.of({.microbatch = microbatch, .replica = replica})));
    slowest = std::max(slowest, own);
  }
  EXPECT_NEAR(step.timeline.makespan_s, slowest, 1e-9 * slowest);
}

double grouped_flops(const Workload& workload) {
  double sum = 0.0;
  for (const Rank& rank : workload.ranks)
    for_each_kernel(workload, workload.programs[rank.program], [&](const Kernel& kernel) {
      if (std::holds_alternative<GroupedGemm>(kernel)) sum += flops(kernel).value();
    });
  return sum;
}

// Are documents combined with uneven experts? There is a program for every combination of replica
// and EP rank that occurs; experts have the work of the same tokens, attention that of each
// replica's documents.
TEST(Documents, BesideUnevenExperts) {
  for (const std::int64_t tensor : {1, 2}) {
    TrainingPlan plan = packed({.kind = DocumentKind::Lognormal, .mean_length = 30},
                               {.tensor = tensor,
                                .sequence_parallel = tensor > 1,
                                .data = 4,
                                .expert = 2,
                                .expert_tensor = 1});
    plan.architecture = small_moe(4);
    plan.experts.routing = RoutingKind::Zipf;
    const Workload both = lower(plan);
    const StepDocuments documents(plan);
    // The EP rank follows from the replica on one tensor rank; on two ranks each replica has both.
    EXPECT_EQ(both.programs.size(), static_cast<std::size_t>(4 * tensor));
    double pairs = 0.0;
    for (const std::int64_t replica : {0, 1, 2, 3})
      for (const std::int64_t microbatch : {0, 1, 2})
        pairs += static_cast<double>(
            document_pairs(documents.of({.microbatch = microbatch, .replica = replica})));
    const double wanted = 4 * 3.5 * 4.0 * 256.0 * pairs;
    EXPECT_NEAR(attention_flops(both), wanted, 1e-12 * wanted);
    const double folded = timed_step(plan).timeline.makespan_s;
    EXPECT_NEAR(timed_step(plan, false).timeline.makespan_s, folded, 1e-9 * folded);
    plan.documents = {};
    const double experts = grouped_flops(lower(plan));
    EXPECT_NEAR(grouped_flops(both), experts, 1e-12 * experts);
    EXPECT_NO_THROW(validate(both, ""));
  }
}

std::vector<Parallelism> shared_sequences() {
  std::vector<Parallelism> all = {{.context = 4, .context_exchange = ContextExchange::AllToAll}};
  for (const ContextSplit split : {ContextSplit::Zigzag, ContextSplit::Contiguous}) {
    all.push_back({.context = 4, .context_split = split});
    all.push_back(
        {.context = 4, .context_exchange = ContextExchange::AllGather, .context_split = split});
    all.push_back({.context = 4,
                   .context_exchange = ContextExchange::Hierarchical,
                   .context_split = split,
                   .context_all_to_all = 2});
  }
  return all;
}

// Do context ranks together do the work of one rank? However a sequence is divided, its documents
// are computed once: documents of whole chunks to the last pair, others except for the rounding of
// each block.
TEST(Documents, ContextRanksTogetherDoTheWorkOfOne) {
  for (const Parallelism& parallelism : shared_sequences()) {
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{128}, {96, 32}, {64, 32, 16, 16}}) {
      const Documents listed{.kind = DocumentKind::List, .lengths = lengths};
      const double alone = attention_flops(lower(packed(listed)));
      const double shared = attention_flops(lower(packed(listed, parallelism)));
      EXPECT_NEAR(shared, alone, 1e-12 * alone);
    }
    const Documents drawn{.kind = DocumentKind::Lognormal, .mean_length = 30};
    const double alone = attention_flops(lower(packed(drawn)));
    EXPECT_NEAR(attention_flops(lower(packed(drawn, parallelism))), alone, 5e-3 * alone);
  }
}

// Does one document per sequence equal an unpacked sequence, with the same operations and work?
TEST(Documents, OneIsThePlainSequence) {
  const Documents one{.kind = DocumentKind::List, .lengths = {128}};
  for (const Parallelism& parallelism : shared_sequences()) {
    const Workload plain = lower(packed({}, parallelism));
    const Workload listed = lower(packed(one, parallelism));
    ASSERT_EQ(plain.programs.size(), listed.programs.size());
    for (std::size_t i = 0; i < plain.programs.size(); ++i) {
      const auto& before = plain.programs[i].operations;
      const auto& after = listed.programs[i].operations;
      ASSERT_EQ(before.size(), after.size());
      std::size_t kernels = 0;
      for (std::size_t op = 0; op < before.size(); ++op) {
        if (before[op].kind != OpKind::Compute) continue;
        EXPECT_EQ(flops(plain.kernels[plain.programs[i].kernel_of(before[op])]).value(),
                  flops(listed.kernels[listed.programs[i].kernel_of(after[op])]).value())
            << plain.names[before[op].name];
        ++kernels;
      }
      // Attention of four layers and three microbatches, forward and backward.
      EXPECT_GE(kernels, 4U * 3U * 2U);
    }
  }
}

// Is a zigzag even, and are contiguous parts uneven? A zigzag through every document gives all
// ranks the same work. Contiguous parts differ by the documents in them: 32 + 32 + 32 + 32
// positions of one document of 96 and one of 32.
TEST(Documents, AZigzagIsEvenAndPartsAreNot) {
  const auto pairs = [](ContextSplit split, std::int64_t rank) {
    const SequenceCut cut{.sequence = 128, .ranks = 4, .split = split, .documents = {96, 32}};
    std::int64_t sum = 0;
    for (std::int64_t source = 0; source < 4; ++source)
      if (const auto block = ring_block(cut, {.rank = rank, .source = source})) sum += block->pairs;
    EXPECT_EQ(gathered_block(cut, rank).pairs, sum);
    return sum;
  };
  for (const std::int64_t rank : {0, 1, 2, 3})
    EXPECT_EQ(pairs(ContextSplit::Zigzag, rank), (96 * 97 / 2 + 32 * 33 / 2) / 4);
  EXPECT_EQ(pairs(ContextSplit::Contiguous, 0), 32 * 33 / 2);
  EXPECT_EQ(pairs(ContextSplit::Contiguous, 1), 32 * 33 / 2 + 32 * 32);
  EXPECT_EQ(pairs(ContextSplit::Contiguous, 2), 32 * 33 / 2 + 2 * 32 * 32);
  EXPECT_EQ(pairs(ContextSplit::Contiguous, 3), 32 * 33 / 2);
}

// Is the traffic of context ranks that of all tokens, whatever their documents are?
TEST(Documents, TrafficOfContextRanksIsThatOfAllTokens) {
  const auto sent_bytes = [](const Documents& documents, const Parallelism& parallelism) {
    const Workload workload = lower(packed(documents, parallelism));
    std::int64_t bytes = 0;
    for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
      if (view.op.kind != OpKind::Compute) bytes += bytes_of(workload.calls[view.op.payload]);
    });
    return bytes;
  };
  const Documents listed{.kind = DocumentKind::List, .lengths = {64, 32, 16, 16}};
  for (const Parallelism& parallelism : shared_sequences())
    EXPECT_EQ(sent_bytes(listed, parallelism), sent_bytes({}, parallelism));
}

// Do context ranks that exchange heads share the work evenly? They see whole documents.
TEST(Documents, HeadsOfContextRanksShareTheWork) {
  const Documents listed{.kind = DocumentKind::List, .lengths = {96, 32}};
  const double alone = attention_flops(lower(packed(listed)));
  const double shared = attention_flops(
      lower(packed(listed, {.context = 4, .context_exchange = ContextExchange::AllToAll})));
  EXPECT_NEAR(shared, alone, 1e-12 * alone);
}

}  // namespace
}  // namespace trainyard
