// Kriging on values with a known prediction, and the expert modules whose costs use it.
#include "kernels/kriging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/expert_module.hpp"

namespace trainyard {
namespace {

Observation at(double x, std::size_t family, double value) {
  return {{.place = {x}, .family = family, .along = x}, value};
}

// Is the prediction zero without observations?
TEST(Kriging, NothingSeenIsNothingKnown) { EXPECT_EQ(kriged({}, {}), 0.0); }

// Does an observation count by its covariance?
TEST(Kriging, OneObservationCountsByItsCovariance) {
  // The mean is the median of the close observations: the observation itself.
  const std::vector<Observation> one = {at(3.0, 0, 0.3)};
  EXPECT_DOUBLE_EQ(kriged(one, one[0].spot), 0.3);
  // Two observations with a large distance: mean 1, the closer one 0. The 2x2 system is solved by
  // hand.
  const KrigingRule rule{.place_length = 1.0, .family_variance = 0.0, .noise = 0.0};
  const std::vector<Observation> two = {at(0.0, 0, 0.0), at(1.0, 1, 1.0)};
  const double c = std::exp(-1.0);
  const double h = std::exp(-0.5);
  // weights of the deviations (-1, 0): C^-1 y = (-1, c) / (1 - c^2).
  const double expected = 1.0 + h * (-1.0 + c) / (1.0 - c * c);
  EXPECT_NEAR(kriged(two, {.place = {0.5}, .family = 2, .along = 0.5}, rule), expected, 1e-12);
}

// Does a family of observations keep its offset?
TEST(Kriging, AFamilyKeepsItsOffset) {
  std::vector<Observation> seen;
  for (int x = 0; x < 8; ++x) {
    seen.push_back(at(x, 0, 0.0));
    if (x != 4) seen.push_back(at(x, 1, 0.7));
  }
  const double own = kriged(seen, {.place = {4.0}, .family = 1, .along = 4.0});
  EXPECT_GT(own, 0.55);
  EXPECT_LT(own, 0.71);
  EXPECT_LT(kriged(seen, {.place = {4.0}, .family = 9, .along = 4.0}), 0.5);
}

ExpertModule known_module(const ExpertTable& table) {
  for (const auto& [kind, series] : table.series)
    if (series.size() >= 3) return module_of(kind, series[1].first);
  return {};
}

// Are measured expert modules returned exactly, and their neighbours interpolated?
TEST(ExpertModules, MeasuredOnesAreGivenBackAndTheirNeighboursInterpolated) {
  for (const char* gpu : {"a100_80gb", "h100", "b200"}) {
    const GpuProfile profile = load_profile(gpu);
    const ExpertTable table = load_expert_table(profile);
    EXPECT_GT(table.series.size(), 200U) << gpu;
    ExpertModule module = known_module(table);
    const ModuleSeries& series = table.series.at(kind_of(module));
    const Cost exact = module_cost(profile, table, module);
    EXPECT_EQ(exact.provenance, Provenance::Measured) << gpu;
    EXPECT_DOUBLE_EQ(exact.time.value(), series[1].second) << gpu;
    module.tokens = series[1].first + 100;
    const Cost near = module_cost(profile, table, module);
    EXPECT_EQ(near.provenance, Provenance::Interpolated) << gpu;
    EXPECT_NEAR(std::log(near.time / exact.time), 0.0, 0.4) << gpu;
    module.topk += 1;
    EXPECT_EQ(module_cost(profile, table, module).provenance, Provenance::Extrapolated) << gpu;
  }
}

// Is a table of modules written in the form in which it is read?
TEST(ExpertModules, ATableIsWrittenAsItIsRead) {
  const GpuProfile profile = load_profile("h100");
  const ExpertTable table = load_expert_table(profile);
  const std::vector<std::int64_t> tokens = {256, 1024, 2048, 4096, 8192, 16384};
  const auto lines = table_lines(table, tokens, "bf16", "balanced");
  EXPECT_GT(lines.size(), 400U);
  EXPECT_THAT(lines.front(), testing::ContainsRegex("^[0-9 ]+ : [~0-9. ]+$"));
}

// Is a GPU without a table priced by the model?
TEST(ExpertModules, AGpuWithoutATableIsModelled) {
  const GpuProfile profile = load_profile("h200");
  const ExpertModule module{
      .tokens = 4096, .topk = 8, .experts = 256, .hidden = 3072, .inner = 1024};
  const Cost cost = module_cost(profile, load_expert_table(profile), module);
  EXPECT_EQ(cost.provenance, Provenance::Extrapolated);
  EXPECT_DOUBLE_EQ(cost.time.value(), module_model_time(profile, module).value());
  // 20 us, 6 * 32768 * 3072 * 1024 FLOP at 0.6 of the peak, 5.822 GB at 0.8 of the bandwidth.
  EXPECT_NEAR(module_trend_time(load_gpu_sheet("h100"), module).value(), 3234.1e-6, 0.1e-6);
}

}  // namespace
}  // namespace trainyard
