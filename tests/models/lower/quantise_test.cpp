// The memory traffic that quantises the operands of 8-bit GEMMs.
#include <gtest/gtest.h>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan plan_in_8_bits(const Parallelism& parallelism, Fp8Scaling scaling) {
  TrainingPlan plan = plan_of(small_llama(4), parallelism, 1);
  plan.recipe = load_recipe("fp8_cached");
  plan.training.fp8_scaling = scaling;
  return plan;
}

// Does a tensor's own maximum cost one more read of it? Delayed scaling reads 2 bytes and writes 2,
// one of them transposed; current scaling reads 2 more. ffn_down has 512 inputs in each of 4
// layers; forward and backward quantise its input and its output's gradient.
TEST(Quantise, CurrentScalingReadsEveryOperandOnceMore) {
  for (const auto& [scaling, each] :
       {std::pair{Fp8Scaling::Delayed, 4}, std::pair{Fp8Scaling::Current, 6}}) {
    const TrainingPlan plan = plan_in_8_bits({}, scaling);
    const std::int64_t tokens = plan.training.sequence_length;
    EXPECT_EQ(traffic_of(lower(plan), "ffn_down_quantise"),
              (Traffic{2 * 4, 4 * each * tokens * (512 + 256)}));
  }
}

// Does each rank find the maximum of its own rows only, where the operand is gathered in 8 bits? It
// reads its share twice and writes it once; all rows are transposed, with 2 bytes a number.
TEST(Quantise, GatheredOperandsAreReadOnceMoreByTheirOwner) {
  for (const auto& [scaling, each] :
       {std::pair{Fp8Scaling::Delayed, 3}, std::pair{Fp8Scaling::Current, 5}}) {
    const TrainingPlan plan = plan_in_8_bits({.tensor = 2, .sequence_parallel = true}, scaling);
    const std::int64_t numbers = plan.training.sequence_length * 256;
    const std::int64_t input = numbers / 2 * each + 2 * numbers;
    const std::int64_t gradient = numbers * 2 * (each + 1);  // gate and up: 2 x 512 columns over 2
    EXPECT_EQ(traffic_of(lower(plan), "ffn_up_quantise"), (Traffic{2 * 4, 4 * (input + gradient)}));
  }
}

// Do the tokens of experts cost one more read too?
TEST(Quantise, CurrentScalingReadsRoutedTokensOnceMore) {
  TrainingPlan plan = plan_of(small_moe(2), {.data = 4, .expert = 4, .expert_tensor = 1}, 2);
  plan.recipe = load_recipe("fp8_cached");
  for (const char* name : {"expert_up_quantise", "expert_down_input_quantise",
                           "expert_down_quantise", "expert_up_gradient_quantise"}) {
    plan.training.fp8_scaling = Fp8Scaling::Delayed;
    const Traffic delayed = traffic_of(lower(plan), name);
    plan.training.fp8_scaling = Fp8Scaling::Current;
    EXPECT_GT(delayed.bytes, 0) << name;
    EXPECT_EQ(traffic_of(lower(plan), name), (Traffic{delayed.kernels, delayed.bytes / 4 * 6}))
        << name;
  }
}

}  // namespace
}  // namespace trainyard
