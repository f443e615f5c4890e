// Kernels that a user measured, of any GPU, beside a profile.
#include "kernels/bench/judge_rows.hpp"

#include <gtest/gtest.h>

#include "kernels/gpu.hpp"

namespace trainyard::bench {
namespace {

// A product whose shape no profile holds as measured.
Gemm odd_product(std::int64_t m) { return {.m = m, .n = 5056, .k = 3136, .dtype = DataType::Bf16}; }

MeasuredProfile rows_of(const std::string& gpu, double over) {
  const auto model = load_cost_model(gpu, Clock::Burst);
  MeasuredProfile profile{.provenance = {{"gpu", "somebody's"}}, .rows = {}};
  for (const std::int64_t m : {1111, 2222, 3333}) {
    const double us = over * model->cost(odd_product(m)).time.value() * 1e6;
    profile.rows.push_back({odd_product(m), {us, us, us}, ""});
  }
  profile.rows.push_back({Launches{.count = 10}, {1.0, 1.0, 1.0}, ""});
  return profile;
}

// Rows of a GPU that no table was ever shipped for are judged, and nothing is fitted on them: all
// twice as slow are all 50 % off.
TEST(JudgeRows, TakesAnyGpuAndFitsNothing) {
  for (const char* gpu : {"h200", "h100", "l40s"}) {
    const std::vector<fit::Judgement> found = judge_rows(rows_of(gpu, 2.0), gpu);
    ASSERT_EQ(found.size(), 1U) << gpu;
    EXPECT_EQ(found[0].gpu, gpu);
    EXPECT_EQ(found[0].what, "gemm bf16");
    EXPECT_EQ(found[0].errors.count, 3U);
    EXPECT_NEAR(found[0].errors.bias, -0.5, 1e-9);
    EXPECT_NEAR(found[0].errors.median, 0.5, 1e-9);
  }
}

TEST(JudgeRows, RefusesRowsOfNoKernel) {
  MeasuredProfile rows = rows_of("h100", 1.0);
  rows.rows.erase(rows.rows.begin(), rows.rows.begin() + 3);
  EXPECT_THROW((void)judge_rows(rows, "h100"), InputError);
}

}  // namespace
}  // namespace trainyard::bench
