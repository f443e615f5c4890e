// The default batch: that of published runs, in sequences that the replicas can share.
#include "models/architecture/published_batch.hpp"

#include <gtest/gtest.h>

#include "models/architecture/architecture.hpp"

namespace trainyard {
namespace {

double tokens_of(const char* model) {
  return published_tokens(static_cast<double>(parameter_count(load_architecture(model))));
}

// Is the default batch that of published runs of the same size?
TEST(PublishedBatch, IsThatOfRunsOfItsSize) {
  EXPECT_DOUBLE_EQ(tokens_of("llama3-8b"), 4e6);
  EXPECT_DOUBLE_EQ(tokens_of("llama3-70b"), 4e6);
  EXPECT_DOUBLE_EQ(tokens_of("gpt3-175b"), 4194304.0);
  // Nemotron-4 340B, Llama 3 405B, MT-NLG, PaLM and Gopher.
  EXPECT_DOUBLE_EQ(tokens_of("llama3-405b"), 6e6);
}

// Is the batch of any model size between the smallest and the largest published one?
TEST(PublishedBatch, HoldsForAnySize) {
  for (double parameters = 1e6; parameters < 1e13; parameters *= 2.0) {
    EXPECT_GE(published_tokens(parameters), 0.5e6) << parameters;
    EXPECT_LE(published_tokens(parameters), 62914560.0) << parameters;
  }
}

// Can the replicas share the sequences of the batch evenly?
TEST(PublishedBatch, InSequencesThatReplicasShare) {
  EXPECT_EQ(sequences_of_step({.tokens = 4e6, .sequence_length = 8192, .gpus = 8}), 512);
  EXPECT_EQ(sequences_of_step({.tokens = 4e6, .sequence_length = 8192, .gpus = 256}), 512);
  EXPECT_EQ(sequences_of_step({.tokens = 4e6, .sequence_length = 8192, .gpus = 1024}), 512);
  EXPECT_EQ(sequences_of_step({.tokens = 4e6, .sequence_length = 8192, .gpus = 600}), 600);
  EXPECT_EQ(sequences_of_step({.tokens = 1.0, .sequence_length = 8192, .gpus = 7}), 1);
}

}  // namespace
}  // namespace trainyard
