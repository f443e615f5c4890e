// The cost of grouped GEMMs of experts for each way of launching them.
#include "kernels/grouped_gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/profile.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

class GroupedGemms : public ::testing::Test {
 protected:
  [[nodiscard]] double seconds(const GroupedGemm& gemm) const {
    return grouped_cost(b200_.sheet, b200_.gemm, b200_.grouped, gemm).time.value();
  }
  [[nodiscard]] double alone(const Gemm& gemm) const {
    return gemm_cost(b200_.sheet, b200_.gemm, gemm).time.value();
  }
  GpuProfile b200_ = load_profile("b200");
};

// Do GEMMs launched one after another take the sum of their times?
TEST_F(GroupedGemms, OneAfterAnotherTakeTheSumOfTheirProducts) {
  GroupedGemm gemm{.rows = {4096, 0, 2048}, .n = 4096, .k = 7168, .per_expert = true};
  EXPECT_DOUBLE_EQ(seconds(gemm), alone({.m = 4096, .n = 4096, .k = 7168}) +
                                      alone({.m = 2048, .n = 4096, .k = 7168}));
  gemm.pass = GemmPass::WeightGrad;
  gemm.accumulate_fp32 = true;
  const auto weight = [&](std::int64_t rows) {
    return alone(
        {.m = 4096, .n = 7168, .k = rows, .pass = GemmPass::WeightGrad, .accumulate_fp32 = true});
  };
  EXPECT_DOUBLE_EQ(seconds(gemm), weight(4096) + weight(2048));
}

// Are small GEMMs limited by the host's launch rate?
TEST_F(GroupedGemms, SmallProductsFollowAtTheHostsPace) {
  const GroupedGemm gemm{
      .rows = std::vector<std::int64_t>(64, 8), .n = 512, .k = 512, .per_expert = true};
  ASSERT_LT(alone({.m = 8, .n = 512, .k = 512}), b200_.grouped.issue.value());
  EXPECT_DOUBLE_EQ(seconds(gemm), 64.0 * b200_.grouped.issue.value());
  GroupedGemm together = gemm;
  together.per_expert = false;
  EXPECT_LT(seconds(together), seconds(gemm) / 4.0);
}

// Does a grouped GEMM without rows cost one launch?
TEST_F(GroupedGemms, NoRowsCostALaunch) {
  GroupedGemm gemm{.rows = {0, 0}, .n = 512, .k = 512};
  for (const bool per_expert : {false, true}) {
    gemm.per_expert = per_expert;
    EXPECT_DOUBLE_EQ(seconds(gemm), b200_.gemm.tile.launch.value());
  }
}

// Has a grouped GEMM without rows, columns or depth no tiles to be priced by?
TEST_F(GroupedGemms, WithoutAnExtentHasNoTiles) {
  for (const GroupedGemm& gemm :
       {GroupedGemm{.rows = {0}, .n = 512, .k = 512}, GroupedGemm{.rows = {8}, .n = 0, .k = 512},
        GroupedGemm{.rows = {8}, .n = 512, .k = 0}})
    EXPECT_THROW((void)tile_model_time(b200_.sheet, b200_.gemm.tile, gemm), InternalError);
}

// Is the cost close to that of a training framework? Transformer Engine on B200, 160 experts of 154
// rows, 3072 x 5120, 210.72 TFLOP/s accumulating in fp32 gradients and 449.29 forward (SimuMax
// b200_bf16_ceperm.json).
TEST_F(GroupedGemms, IsNearWhatATrainingFrameworkTakes) {
  GroupedGemm gemm{
      .rows = std::vector<std::int64_t>(160, 154), .n = 3072, .k = 5120, .per_expert = true};
  const double work = 2.0 * 160 * 154 * 3072 * 5120;
  EXPECT_NEAR(seconds(gemm) / (work / 449.29e12), 1.0, 0.15);
  gemm.pass = GemmPass::WeightGrad;
  gemm.accumulate_fp32 = true;
  EXPECT_NEAR(seconds(gemm) / (work / 210.72e12), 1.0, 0.15);
}

}  // namespace
}  // namespace trainyard
