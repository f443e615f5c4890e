// The fit of kernel models on synthetic measurements with a known model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/fit/attention_fit.hpp"
#include "kernels/fit/gemm_fit.hpp"
#include "kernels/fit/samples.hpp"
#include "kernels/fit/single_fit.hpp"
#include "kernels/gpu.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::fit {
namespace {

// GEMMs timed by a known tile model, times a smooth factor that no tile explains.
std::vector<Sample> known_samples(const GpuSheet& sheet, const TileModel& truth) {
  std::vector<Sample> samples;
  for (const std::int64_t m : {64, 256, 1024, 4096, 16384})
    for (const std::int64_t n : {512, 1024, 4096, 8192, 16384})
      for (const std::int64_t k : {512, 2048, 4096, 16384}) {
        const Seconds time = tile_model_time(sheet, truth, {.m = m, .n = n, .k = k});
        const double factor = 1.0 + 0.02 * std::log2(static_cast<double>(n) / 512.0);
        samples.push_back({{m, n, k}, time.value() * factor});
      }
  return samples;
}

// Does the fit recover a known model between its nodes?
TEST(Fit, RecoversAKnownModelBetweenItsNodes) {
  const GpuSheet sheet = load_gpu_sheet("h100");
  const TileModel truth{.launch = Seconds{3e-6}, .largest_tile = 0.8};
  const auto samples = known_samples(sheet, truth);
  const TileModel tile = fit_tile_model(sheet, DataType::Bf16, samples);
  const GemmFit fit = fit_gemm_table(sheet, DataType::Bf16, tile, samples, grid_of(samples));
  const GemmModel model{.tile = fit.tile, .tables = {table_of(sheet, DataType::Bf16, fit)}};
  const Gemm between{.m = 2048, .n = 2048, .k = 8192};
  const double expected = tile_model_time(sheet, truth, between).value() * 1.04;
  EXPECT_NEAR(gemm_cost(sheet, model, between).time.value() / expected, 1.0, 0.05);
  for (const Sample& sample : samples) {
    const Gemm gemm{.m = sample.shape[0], .n = sample.shape[1], .k = sample.shape[2]};
    EXPECT_NEAR(gemm_cost(sheet, model, gemm).time.value() / sample.seconds, 1.0, 1e-9);
  }
}

// Does a held-out draw select the same shapes for the same seed?
TEST(Fit, HoldsOutTheSameShapesEveryTime) {
  const auto a = draw(1000, {.share = 0.2, .seed = 7});
  EXPECT_EQ(a, draw(1000, {.share = 0.2, .seed = 7}));
  EXPECT_NE(a, draw(1000, {.share = 0.2, .seed = 8}));
  const auto out = std::count(a.begin(), a.end(), true);
  EXPECT_GT(out, 150);
  EXPECT_LT(out, 250);
}

// Are errors relative, and is the bias signed?
TEST(Fit, ErrorsAreRelativeAndBiasIsSigned) {
  const Errors errors = errors_of({1.1, 0.8, 1.0, 1.0, 1.2});
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.bias, 0.0, 1e-12);
  EXPECT_NEAR(errors_of({0.9, 0.9, 0.9}).bias, -0.1, 1e-12);
}

// Is the median of an even number of ratios geometric?
TEST(Fit, MedianOfAnEvenNumberIsGeometric) {
  EXPECT_DOUBLE_EQ(median({4.0, 1.0}), 2.0);
  EXPECT_DOUBLE_EQ(median({5.0, 1.0, 3.0}), 3.0);
}

// GEMMs of a training framework: 1.3 times as long as the model if they are long enough for the
// clock to settle, and as long as the model otherwise. Weight gradients take another factor 1.1, in
// addition to the traffic of accumulating in fp32, which does not depend on the clock.
Published known_gemms(const GpuSheet& sheet, const GemmModel& model) {
  Published rows;
  for (const std::int64_t n : {1024, 2048, 8192, 16384, 32768})
    for (const GemmPass pass : {GemmPass::Forward, GemmPass::WeightGrad}) {
      Gemm gemm{.m = 4096, .n = n, .k = 16384, .pass = pass};
      const double alone = gemm_cost(sheet, model, gemm).time.value();
      gemm.accumulate_fp32 = pass == GemmPass::WeightGrad;
      const double adding = gemm_cost(sheet, model, gemm).time.value() - alone;
      const double slowed = n < 8192 ? 1.0 : 1.3 * (gemm.accumulate_fp32 ? 1.1 : 1.0);
      rows.gemms.push_back(
          {.gpu = "known", .source = "", .gemm = gemm, .seconds = slowed * alone + adding});
    }
  return rows;
}

// Are weight gradients compared with forward GEMMs at the settled clock?
TEST(Fit, GradientsAreHeldAgainstForwardProductsAtTheSettledClock) {
  const GpuSheet sheet = load_gpu_sheet("b200");
  const GemmModel model{.tile = {.launch = Seconds{3e-6}, .largest_tile = 0.7},
                        .accumulation_exposed = 0.9};
  const Published rows = known_gemms(sheet, model);
  ASSERT_LT(rows.gemms[2].seconds, 0.5e-3);
  ASSERT_GT(rows.gemms[4].seconds, 0.5e-3);
  const Figure weight = pass_time(sheet, model, rows, "known", GemmPass::WeightGrad);
  EXPECT_NEAR(weight.value, 1.1, 1e-12);
  EXPECT_TRUE(weight.source.starts_with("3 wgrad against 3 forward")) << weight.source;
  EXPECT_FALSE(pass_time(sheet, model, rows, "another", GemmPass::WeightGrad).measured);
}

// Does the fit of attention exclude the time of storing the keys?
TEST(Fit, AttentionTakesTheStoringOfKeysOut) {
  const GpuSheet sheet = load_gpu_sheet("h100");
  const AttentionModel truth{.launch = Seconds{8e-6}, .forward_efficiency = 0.55};
  const BytesPerSecond append{1e12};
  std::vector<AttentionSample> samples;
  for (const std::int64_t sequence : {512, 2048, 8192})
    for (const std::int64_t heads : {8, 32, 64})
      for (const std::int64_t kv : {1, 8}) {
        AttentionSample s{1, sequence, heads, kv, 128, 0.0};
        s.seconds = table_time(sheet, truth, append, s).value();
        samples.push_back(s);
      }
  const AttentionFit fit = fit_attention(sheet, samples);
  EXPECT_LT(attention_errors(sheet, fit, samples).median, 0.02);
  const Attention a = table_attention(8192, 64, 128);
  EXPECT_NEAR(attention_cost(sheet, fit.model, a).time / attention_model_time(sheet, truth, a), 1.0,
              0.05);
}

// Is the quantisation removed from fp8 rows? GEMMs take 2 us and n * m * k at a known rate; fp8 is
// twice as fast, after 5 us and 2 ps for each element of x.
TEST(Fit, QuantisationIsTakenOutOfFp8Rows) {
  constexpr double constant = 5e-6, element = 2e-12;
  const auto gemm = [](double m, double n, double k, double rate) {
    return 2e-6 + 2 * m * n * k / rate;
  };
  std::string text = "backend,version,dtype,m,n,k,time_us\n";
  for (int m = 64; m <= 16384; m *= 2)
    for (int n = 256; n <= 8192; n *= 2)
      for (int k = 256; k <= 8192; k *= 2) {
        const double quantising = constant + element * m * k;
        text += fmt::format("x,1,bf16,{},{},{},{}\n", m, n, k, gemm(m, n, k, 7e14) * 1e6);
        text += fmt::format("x,1,fp8,{},{},{},{}\n", m, n, k,
                            (gemm(m, n, k, 14e14) + quantising) * 1e6);
      }
  const std::string file = testing::TempDir() + "trainyard_quantised.csv";
  write_file(file, text);
  const auto found = quantisations(CsvTable(file));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found.at("x").constant_s / constant, 1.0, 0.05);
  EXPECT_NEAR(found.at("x").element_s / element, 1.0, 0.01);
  const GemmSamples samples = read_gemm_samples(file, "fp8");
  EXPECT_GT(samples.left_out, 0U);
  EXPECT_GT(samples.medians.size(), 100U);
  for (const Sample& s : samples.medians)
    EXPECT_NEAR(s.seconds / gemm(static_cast<double>(s.shape[0]), static_cast<double>(s.shape[1]),
                                 static_cast<double>(s.shape[2]), 14e14),
                1.0, 0.1);
  EXPECT_EQ(read_gemm_samples(file, "bf16").taken_out.size(), 0U);
}

// Is the quantisation of judged rows taken from elsewhere? It comes from the profile's record, or
// from rows that are not judged.
TEST(Fit, JudgedRowsTellNothingOfTheirOwnQuantisation) {
  std::string text = "backend,version,dtype,m,n,k,time_us\n";
  std::set<std::array<std::int64_t, 3>> judged;
  for (std::int64_t m = 64; m <= 16384; m *= 2)
    for (std::int64_t n = 256; n <= 8192; n += 256)
      for (std::int64_t k = 256; k <= 8192; k *= 2) {
        const double time_us = 2 + 2e-9 * static_cast<double>(m * n * k);
        const double beside_us = 5 + 2e-6 * static_cast<double>(m * k);
        const bool left_out = n % 512 != 0;  // and these are four times as slow
        if (left_out) judged.insert({m, n, k});
        text += fmt::format("x,1,bf16,{},{},{},{}\n", m, n, k, time_us);
        text += fmt::format("x,1,fp8,{},{},{},{}\n", m, n, k,
                            (left_out ? 4 : 1) * (time_us / 2 + beside_us));
      }
  const std::string file = testing::TempDir() + "trainyard_judged.csv";
  write_file(file, text);
  const Quantisations without = quantisations(CsvTable(file), judged);
  EXPECT_NEAR(without.at("x").element_s, 2e-12, 4e-14);
  EXPECT_GT(quantisations(CsvTable(file)).at("x").element_s, 2.3e-12);
  EXPECT_EQ(read_gemm_samples(file, "fp8", {}).left_out, 0U);
  EXPECT_GT(recorded_quantisations("h100").at("sglang").element_s, 1e-12);
  EXPECT_TRUE(recorded_quantisations("a100_80gb").empty());
}

// Are tables with incomplete lines refused?
TEST(Fit, TablesWithRaggedLinesAreRefused) {
  const std::string file = testing::TempDir() + "trainyard_ragged.csv";
  write_file(file, "backend,version,dtype,m,n,k,time_us\nx,1,bf16,1,2\n");
  EXPECT_THROW((void)read_gemm_samples(file, "bf16"), InputError);
}

}  // namespace
}  // namespace trainyard::fit
