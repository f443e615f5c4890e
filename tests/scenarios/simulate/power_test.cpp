// Do energy and caps of whole steps keep their identities: the sum over kinds, folded and unfolded,
// the trace, and a lower cap that never shortens the step?

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/render/page/page.hpp"
#include "sim/render/traces/counter_groups.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/report/energy_figures.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "tests/agreement.hpp"

namespace trainyard {
namespace {

Scenario powered(const std::string& file, std::vector<Override> more) {
  more.push_back({"power.pue", "1.25"});
  return load_scenario(file, more);
}

constexpr const char* kLlama = "scenarios/llama3/llama3_8b_8xh100.json";

TEST(PoweredRun, HasNoEnergyWithoutTheBlock) {
  const Result result = simulate(load_scenario(kLlama, {}));
  EXPECT_FALSE(result.power.has_value());
  EXPECT_TRUE(energy_section(result.view()).empty());
  EXPECT_FALSE(result_json(result.view()).contains("energy"));
}

TEST(PoweredRun, PowerWithoutACapChangesNoTime) {
  EXPECT_EQ(simulate(powered(kLlama, {})).timeline.makespan_s,
            simulate(load_scenario(kLlama, {})).timeline.makespan_s);
}

TEST(PoweredRun, KindsTracesAndTracksSumToTheSameEnergy) {
  const Result result = simulate(powered(kLlama, {}));
  const RunView view = result.view();
  const double total = energy_figures(view).step.total();
  const auto json = energy_json(view);
  double sum = 0.0;
  for (const auto& [kind, joules] : json["by_kind_j"].items()) sum += joules.get<double>();
  EXPECT_NEAR(sum / json["step"]["energy_j"].get<double>(), 1.0, 1e-9);
  const auto tracks = counter_groups(view).front().tracks;
  ASSERT_GE(tracks.size(), 4U);  // cluster, a rack, a node, a GPU
  double trace_j = 0.0;
  const auto& points = tracks.front().points;
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    trace_j += points[i].value * 1e-9 * static_cast<double>(points[i + 1].at_ns - points[i].at_ns);
  EXPECT_NEAR(trace_j / total, 1.0, 1e-9);
  EXPECT_EQ(points.back().at_ns, trace_ns(result.timeline.makespan_s));
}

// One cluster of two kinds of nodes is described in two ways. Are the step, its energy and its
// peaks the same?
TEST(PoweredRun, OfMixedNodesDoesNotDependOnTheirDescription) {
  const char* kMixed = "scenarios/unequal/llama3_8b_replicas_h100_a100.json";
  std::vector<Figures> both;
  std::vector<double> joules;
  for (const char* cluster :
       {R"({"node": "dgx_h100", "nodes": 2, "fabric": {"kind": "rail_optimized"},
            "others": [{"nodes": [1], "node": "dgx_a100_80gb"}]})",
        R"({"node": "dgx_a100_80gb", "nodes": 2, "fabric": {"kind": "rail_optimized"},
            "others": [{"nodes": [0], "node": "dgx_h100"}]})"}) {
    const Result result = simulate(powered(
        kMixed, {{"cluster", cluster}, {"parallelism.balance", "equal"}, {"model.layers", "2"}}));
    both.push_back(figures(result.view()));
    joules.push_back(energy_figures(result.view()).step.total());
  }
  EXPECT_NEAR(both[0].step_time_s, both[1].step_time_s, kAgreement * both[0].step_time_s);
  EXPECT_NEAR(joules[0], joules[1], kAgreement * joules[0]);
}

// Does the page have the energy where the scenario has a block `power`, and only there?
TEST(PoweredRun, ThePageHasItsEnergy) {
  const std::string title = "What energy does it take?";
  const Result with = simulate(powered(kLlama, {}));
  EXPECT_THAT(report_page({.view = with.view(), .gains = {}}), testing::HasSubstr(title));
  const Result without = simulate(load_scenario(kLlama, {}));
  EXPECT_THAT(report_page({.view = without.view(), .gains = {}}),
              testing::Not(testing::HasSubstr(title)));
}

TEST(PoweredRun, FoldedAndUnfoldedRunsHaveTheSameEnergyAndPeaks) {
  const Scenario scenario =
      powered(kLlama, {{"parallelism.pipeline", "2"}, {"parallelism.data", "2"}});
  const Result folded = simulate(scenario);
  const Result unfolded = simulate(scenario, {.fold = false});
  ASSERT_LT(folded.partition->ranks.size(), unfolded.partition->ranks.size());
  const Energy few = energy_figures(folded.view()).step;
  const Energy all = energy_figures(unfolded.view()).step;
  for (std::size_t kind = 0; kind < kPowerKinds; ++kind)
    EXPECT_NEAR(few.joules[kind], all.joules[kind], 1e-9 * all.total()) << kind;
  EXPECT_NEAR(power_peaks(folded.view()).cluster_w / power_peaks(unfolded.view()).cluster_w, 1.0,
              1e-9);
}

TEST(PowerCap, ALowerCapNeverShortensTheStepAndIsKept) {
  double before_s = 0.0;
  int caps = 0;
  for (const char* cap : {"900", "700", "600", "500", "400", "300", "200"}) {
    const Result result = simulate(powered(kLlama, {{"power.gpu_cap_w", cap}}));
    EXPECT_GE(result.timeline.makespan_s, before_s) << cap;
    EXPECT_LE(power_peaks(result.view()).gpu_w, std::stod(cap) + 1e-9) << cap;
    before_s = result.timeline.makespan_s;
    ++caps;
  }
  EXPECT_EQ(caps, 7);
  EXPECT_GT(before_s, 1.3 * simulate(load_scenario(kLlama, {})).timeline.makespan_s);
}

TEST(PowerCap, OfANodeKeepsThePowerOfTheNode) {
  const Result result = simulate(powered(kLlama, {{"power.node_cap_w", "5000"}}));
  EXPECT_LE(power_peaks(result.view()).node_w, 5000.0 * (1 + 1e-9));
  EXPECT_GT(power_peaks(result.view()).node_w, 4900.0);
}

TEST(PowerCap, BelowTheStaticPowerIsRefused) {
  EXPECT_THROW(static_cast<void>(simulate(powered(kLlama, {{"power.gpu_cap_w", "100"}}))),
               InputError);
}

// 8 GPUs: rent of 2 an hour, or capital of 8766 over a year, which is 1 an hour, and electricity.
TEST(EnergyCost, IsRentOrCapitalAndElectricity) {
  const Result rented = simulate(powered(kLlama, {{"power.price_per_gpu_hour", "2"}}));
  const EnergyFigures rent = energy_figures(rented.view());
  EXPECT_NEAR(*rent.cost(1).money(), 2 * 8 * rent.step_s / 3600, 1e-12);
  const Result bought = simulate(powered(kLlama, {{"power.capital_per_gpu", "8766"},
                                                  {"power.capital_years", "1"},
                                                  {"power.price_per_kwh", "0.1"},
                                                  {"power.kg_co2_per_kwh", "0.4"}}));
  const EnergyFigures own = energy_figures(bought.view());
  const EnergyCost step = own.cost(1);
  EXPECT_NEAR(*step.money(), 8 * own.step_s / 3600 + 0.1 * step.joules / 3.6e6, 1e-12);
  EXPECT_NEAR(*step.kg_co2, 0.4 * step.kwh, 1e-12);
  const auto tokens = own.cost_of_tokens(2.0 * own.tokens_per_step);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_NEAR(tokens->joules, 2.0 * step.joules, 1e-9 * step.joules);
}

// Eight H100 at 12.29 and eight A100 at 5.12 cost 8.705 in the mean.
TEST(EnergyCost, OfSeveralKindsOfGpusIsThatOfTheirPresets) {
  const Result mixed =
      simulate(powered("scenarios/unequal/llama3_8b_replicas_h100_a100.json",
                       {{"parallelism.balance", "equal"},
                        {"power.price_preset", R"(["aws_p5_on_demand", "aws_p4de_on_demand"])"}}));
  const EnergyFigures cost = energy_figures(mixed.view());
  EXPECT_NEAR(*cost.cost(1).money(), 8 * (12.29 + 5.12) * cost.step_s / 3600, 1e-12);
  EXPECT_THAT(mixed.facts.gpu_hour_price_source,
              testing::AllOf(testing::HasSubstr("h100: 12.29 USD"),
                             testing::HasSubstr("; a100_80gb: 5.12 USD")));
}

// A preset of a GPU that the cluster does not have is for other nodes of a search.
TEST(EnergyCost, HasThePresetOfTheGpuAmongSeveral) {
  const Result one = simulate(
      powered(kLlama, {{"power.price_preset", R"(["aws_p4de_on_demand", "aws_p5_on_demand"])"}}));
  EXPECT_EQ(one.facts.gpu_hour_price, 12.29);
  EXPECT_EQ(one.facts.gpu_hour_price_source.find("a100"), std::string::npos);
}

}  // namespace
}  // namespace trainyard
