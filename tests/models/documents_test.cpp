// Measured lengths of documents, and documents divided by their work.
#include "models/documents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "models/document_lengths.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/random.hpp"

namespace trainyard {
namespace {

using Lengths = std::vector<std::int64_t>;

nlohmann::ordered_json file_of(const std::string& name) {
  return parse_unchecked_json(read_file(data_file("models/documents", name).string()));
}

// Are two quantiles a lognormal distribution? With a median of 1000 and sigma 1 the mean is
// 1000 exp(1/2) = 1648.7, and the length at two standard deviations 1000 e^2.
TEST(DocumentLengths, TwoQuantilesAreALognormalDistribution) {
  const DocumentLengths lengths{
      .quantiles = {{0.0, std::log(1000.0)}, {1.0, std::log(1000.0) + 1.0}},
      .tail_sigma = 1.0,
      .shortest = 1e-9,
      .longest = 1e12};
  EXPECT_NEAR(lengths.mean(), 1000.0 * std::exp(0.5), 1e-6);
  EXPECT_NEAR(lengths.at(2.0), 1000.0 * std::exp(2.0), 1e-9);
  EXPECT_NEAR(lengths.at(-1.0), 1000.0 * std::exp(-1.0), 1e-9);
}

// The mean length by the trapezoidal rule over the standard normal distribution.
double integrated_mean(const DocumentLengths& lengths) {
  constexpr double kStep = 1e-4;
  double sum = 0.0;
  for (double z = -8.0; z < 8.0; z += kStep)
    sum += lengths.at(z) * std::exp(-z * z / 2.0) / std::sqrt(2.0 * std::numbers::pi) * kStep;
  return sum;
}

// Do lengths beyond the longest and the shortest document count as these?
TEST(DocumentLengths, StayWithinTheShortestAndTheLongest) {
  const DocumentLengths lengths{.quantiles = {{-0.5, std::log(100.0)}, {0.5, std::log(500.0)}},
                                .tail_sigma = 3.0,
                                .shortest = 50.0,
                                .longest = 900.0};
  EXPECT_EQ(lengths.at(-3.0), 50.0);
  EXPECT_EQ(lengths.at(3.0), 900.0);
  EXPECT_NEAR(lengths.mean(), integrated_mean(lengths), 1e-3);
}

// Do presets reproduce what their sources print: the quantiles, and the mean to 5 %?
TEST(DocumentLengths, PresetsReproduceTheirSources) {
  std::size_t means = 0;
  const std::vector<std::string> names = data_names("models/documents");
  EXPECT_GE(names.size(), 5U);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const nlohmann::ordered_json file = file_of(name);
    const DocumentLengths lengths = load_document_lengths(name);
    ASSERT_EQ(lengths.quantiles.size(), file["quantiles"].size());
    for (std::size_t i = 0; i < lengths.quantiles.size(); ++i)
      EXPECT_NEAR(lengths.at(lengths.quantiles[i].normal),
                  file["quantiles"][i]["tokens"].get<double>(), 1e-6);
    EXPECT_NEAR(lengths.mean() / integrated_mean(lengths), 1.0, 1e-5);
    if (!file.contains("mean")) continue;
    ++means;
    const double mean = file["mean"].get<double>();
    EXPECT_NEAR(lengths.mean() / mean, 1.0, file.contains("tail_sigma") ? 1e-3 : 0.05);
  }
  EXPECT_EQ(means, 3U);
}

// Is the mean of drawn lengths the mean of the distribution? A million draws of a distribution
// whose standard deviation is 1.3 times its mean have it to 0.13 %.
TEST(DocumentLengths, DrawnLengthsHaveTheirMean) {
  const DocumentLengths lengths = load_document_lengths("txt360_web");
  Random random(7);
  double sum = 0.0;
  constexpr int kDraws = 1'000'000;
  for (int i = 0; i < kDraws; ++i) sum += lengths.at(random.gaussian());
  EXPECT_NEAR(sum / kDraws / lengths.mean(), 1.0, 4 * 0.0013);
}

// Does an unknown preset name those that exist?
TEST(DocumentLengths, AnUnknownPresetIsRefused) {
  EXPECT_THROW(static_cast<void>(load_document_lengths("wikipedia_e")), InputError);
}

// Is the longest-processing-time rule followed? 7 to A, 6 to B, 5 to B (6 < 7), 4 to A (7 < 11), 3
// to A (11 = 11), which then is full, 2 to B.
TEST(DocumentBalance, TheLargestLoadGoesFirstToTheLeastLoadedBin) {
  const std::vector<std::int64_t> loads = {2, 3, 4, 5, 6, 7};
  const auto bins = longest_first(loads, {.bins = 2, .slots = 3});
  EXPECT_EQ(bins, (std::vector<std::vector<std::size_t>>{{5, 2, 1}, {4, 3, 0}}));
}

// Is each document packed where the least work has room? Sequences of 8 tokens: 8 fills the first,
// 4 and 4 start the others, and the four of 2 alternate between them.
TEST(DocumentBalance, DocumentsArePackedByTheirWork) {
  EXPECT_EQ(packed_by_work({8, 4, 4, 2, 2, 2, 2}, {.bins = 3, .tokens = 8}),
            (std::vector<Lengths>{{8}, {4, 2, 2}, {4, 2, 2}}));
}

// Is a document cut that fits nowhere? 4, 4, 3 and 3 leave one token in each sequence for 2.
TEST(DocumentBalance, ADocumentThatFitsNowhereIsCut) {
  EXPECT_EQ(packed_by_work({4, 4, 3, 3, 2}, {.bins = 2, .tokens = 8}),
            (std::vector<Lengths>{{4, 3, 1}, {4, 3, 1}}));
}

// Does a sequence with little room wait for shorter documents? 6 leaves room for 2 only, so 3 and 3
// go to the second sequence after 2 was filled by neither.
TEST(DocumentBalance, LittleRoomWaitsForShortDocuments) {
  EXPECT_EQ(packed_by_work({6, 2, 3, 3, 1, 1}, {.bins = 2, .tokens = 8}),
            (std::vector<Lengths>{{6, 1, 1}, {3, 3, 2}}));
}

TrainingPlan plan_with(DocumentBalance balance) {
  TrainingPlan plan;
  plan.parallelism.data = 4;
  plan.training.micro_batch_size = 2;
  plan.training.sequence_length = 65536;
  plan.training.global_batch_size = 4 * 2 * 6;
  plan.seed = 3;
  plan.documents = {.kind = DocumentKind::Preset,
                    .preset = "txt360_web",
                    .measured = load_document_lengths("txt360_web"),
                    .balance = balance};
  return plan;
}

struct Balance {
  Lengths documents;      // of the whole step, sorted
  double replicas = 0.0;  // largest over mean, of the pairs of a replica
  double microbatches = 0.0;
};

Balance balance_of(const TrainingPlan& plan) {
  const StepDocuments documents(plan);
  Balance found;
  double all = 0.0;
  double replica_most = 0.0;
  double microbatch_most = 0.0;
  for (std::int64_t replica = 0; replica < 4; ++replica) {
    double sum = 0.0;
    for (std::int64_t microbatch = 0; microbatch < 6; ++microbatch) {
      const Lengths& lengths = documents.of({.microbatch = microbatch, .replica = replica});
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 2 * 65536);
      found.documents.insert(found.documents.end(), lengths.begin(), lengths.end());
      const auto pairs = static_cast<double>(document_pairs(lengths));
      microbatch_most = std::max(microbatch_most, pairs);
      sum += pairs;
    }
    all += sum;
    replica_most = std::max(replica_most, sum);
  }
  std::ranges::sort(found.documents);
  found.replicas = replica_most / (all / 4.0);
  found.microbatches = microbatch_most / (all / 24.0);
  return found;
}

// Does a balance keep the documents and even out the work?
TEST(DocumentBalance, KeepsTheDocumentsAndEvensOutTheirWork) {
  const Balance drawn = balance_of(plan_with(DocumentBalance::None));
  const Balance sequences = balance_of(plan_with(DocumentBalance::Sequences));
  const Balance documents = balance_of(plan_with(DocumentBalance::Documents));
  EXPECT_EQ(sequences.documents, drawn.documents);
  EXPECT_GT(drawn.replicas, 1.01);
  EXPECT_LT(sequences.replicas, 1.05);
  EXPECT_LT(sequences.microbatches, drawn.microbatches);
  EXPECT_LT(documents.replicas, 1.01);
  EXPECT_LT(documents.microbatches, sequences.microbatches);
}

}  // namespace
}  // namespace trainyard
