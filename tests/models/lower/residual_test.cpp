// What does it cost that a layer's input also goes round its blocks?
#include <gtest/gtest.h>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// Backwards of norms in front of blocks, with the sums of the gradient that came through them and
// the one that went round the block.
Traffic norms_of(const TrainingPlan& plan) {
  const Workload step = lower(plan);
  const Traffic attention = traffic_of(step, "attention_norm_backward");
  const Traffic ffn = traffic_of(step, "ffn_norm_backward");
  return {attention.kernels + ffn.kernels, attention.bytes + ffn.bytes};
}

// A norm's backward reads two and writes one, and so does the sum: 2 bytes each, round attention
// and round the feed-forward block of 4 layers in 3 microbatches.
TEST(Residual, GradientsThatMeetAreAdded) {
  const TrainingPlan plan = plan_of(small_llama(4), {}, 3);
  const std::int64_t stream = 2 * plan.training.sequence_length * plan.architecture.hidden;
  EXPECT_EQ(norms_of(plan), (Traffic{2 * 4 * 3, 2 * 4 * 3 * (3 + 3) * stream}));
}

TEST(Residual, ASplitSequenceIsAddedInParts) {
  TrainingPlan plan = plan_of(small_llama(4), {.tensor = 2, .sequence_parallel = false}, 3);
  const Traffic whole = norms_of(plan);
  plan.parallelism.sequence_parallel = true;
  EXPECT_EQ(norms_of(plan), (Traffic{whole.kernels, whole.bytes / 2}));
}

// Weight gradients that run later meet nobody.
TEST(Residual, IsAddedOnceInABackwardOfTwoParts) {
  const TrainingPlan one = plan_of(small_llama(4), {.pipeline = 2}, 4);
  TrainingPlan two = one;
  two.parallelism.schedule = "zb_h1";
  EXPECT_EQ(norms_of(two), norms_of(one));
}

}  // namespace
}  // namespace trainyard
