// The number of layers of each virtual stage, and the splits that are refused.
#include <gtest/gtest.h>

#include <numeric>

#include "models/pipeline_shape.hpp"
#include "models/plan.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

using Layers = std::vector<std::int64_t>;

Layers split(std::int64_t layers, const Parallelism& parallelism) {
  TrainingPlan plan;
  plan.architecture.layers = layers;
  plan.parallelism = parallelism;
  return layer_split(plan);
}

// The single problem of a split that is refused.
Problem refusal(std::int64_t layers, const Parallelism& parallelism) {
  try {
    (void)split(layers, parallelism);
  } catch (const InputError& error) {
    return error.problems().front();
  }
  ADD_FAILURE() << "no refusal";
  return {};
}

// Are layers divided evenly?
TEST(LayerSplit, Even) {
  EXPECT_EQ(split(96, {.pipeline = 8}), Layers(8, 12));
  EXPECT_EQ(split(96, {.pipeline = 8, .interleave = 3}), Layers(24, 4));
  EXPECT_EQ(split(7, {}), Layers{7});
}

// Does Llama 405B have shorter first and last stages (Grattafiori et al. 2024, section 3.3: 126
// layers on 16 stages, one fewer at either end)?
TEST(LayerSplit, Llama405BHasShorterEnds) {
  Layers expected(16, 8);
  expected.front() = expected.back() = 7;
  EXPECT_EQ(split(126, {.pipeline = 16, .first_stage_layers = 7, .last_stage_layers = 7}),
            expected);
  EXPECT_EQ(split(126, {.pipeline = 16, .embedding_in_split = true, .loss_in_split = true}),
            expected);
  const Layers interleaved = split(
      126, {.pipeline = 16, .interleave = 8, .embedding_in_split = true, .loss_in_split = true});
  EXPECT_EQ(interleaved.size(), 128U);
  EXPECT_EQ(interleaved.front(), 0) << "the first chunk holds the embedding alone";
  EXPECT_EQ(interleaved.back(), 0);
  EXPECT_EQ(std::accumulate(interleaved.begin(), interleaved.end(), std::int64_t{0}), 126);
}

// Is the rest divided evenly if only one end is given?
TEST(LayerSplit, OneEndGiven) {
  EXPECT_EQ(split(10, {.pipeline = 4, .first_stage_layers = 1}), (Layers{1, 3, 3, 3}));
  EXPECT_EQ(split(10, {.pipeline = 4, .last_stage_layers = 4}), (Layers{2, 2, 2, 4}));
  EXPECT_EQ(split(7, {.pipeline = 4, .loss_in_split = true}), (Layers{2, 2, 2, 1}));
}

// Are the ends given by rank and not by chunk? Element [chunk * pipeline + rank]; the layers of a
// rank are divided over its chunks.
TEST(LayerSplit, EndsAreByRankNotByChunk) {
  EXPECT_EQ(split(12, {.pipeline = 2, .interleave = 2, .first_stage_layers = 4}),
            (Layers{2, 4, 2, 4}));
}

// Are invalid splits refused with their field?
TEST(LayerSplit, Refusals) {
  const Problem uneven = refusal(10, {.pipeline = 4});
  EXPECT_EQ(uneven.pointer, "/parallelism/pipeline");
  EXPECT_NE(uneven.problem.find("10 layers do not divide over 4"), std::string::npos);
  const Problem rest =
      refusal(10, {.pipeline = 4, .first_stage_layers = 2, .last_stage_layers = 1});
  EXPECT_EQ(rest.pointer, "/parallelism/first_stage_layers");
  EXPECT_NE(rest.problem.find("7 layers remain for 2 stages"), std::string::npos);
  EXPECT_EQ(refusal(4, {.pipeline = 4, .first_stage_layers = 9}).pointer,
            "/parallelism/first_stage_layers");
  const Problem chunks = refusal(12, {.pipeline = 2, .interleave = 2, .first_stage_layers = 5});
  EXPECT_EQ(chunks.pointer, "/parallelism/interleave");
  EXPECT_NE(chunks.problem.find("5 layers does not divide into 2 chunks"), std::string::npos);
}

// Is every layer on exactly one stage? A split with more or fewer layers would train another model.
TEST(LayerSplit, EveryLayerIsSomewhereExactlyOnce) {
  std::size_t splits = 0;
  for (std::int64_t layers = 1; layers <= 24; ++layers) {
    for (std::int64_t stages = 1; stages <= 6; ++stages) {
      for (const std::int64_t chunks : {1, 2, 3}) {
        const Parallelism p{.pipeline = stages, .interleave = chunks, .first_stage_layers = 2};
        try {
          const Layers result = split(layers, p);
          EXPECT_EQ(std::accumulate(result.begin(), result.end(), std::int64_t{0}), layers);
          EXPECT_EQ(std::ssize(result), stages * chunks);
          ++splits;
        } catch (const InputError&) {
          continue;
        }
      }
    }
  }
  EXPECT_EQ(splits, 84U) << "the others do not divide";
}

// Does one stage accept only one number of layers? It is the first and the last stage, so two
// numbers would drop layers silently.
TEST(LayerSplit, OneStageHasNoTwoEnds) {
  const Problem both = refusal(6, {.pipeline = 1, .first_stage_layers = 2, .last_stage_layers = 2});
  EXPECT_EQ(both.pointer, "/parallelism/last_stage_layers");
  EXPECT_EQ(split(6, {.pipeline = 1, .first_stage_layers = 6}), Layers{6});
  EXPECT_EQ(split(6, {.pipeline = 2, .first_stage_layers = 2, .last_stage_layers = 4}),
            (Layers{2, 4}));
}

}  // namespace
}  // namespace trainyard
