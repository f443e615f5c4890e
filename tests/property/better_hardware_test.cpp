// Better hardware must not make a step longer. A link's rate, its latency or a GPU's rate is
// improved in random scenarios, and the step may grow by at most 1 %.
//
// A schedule may become longer when one of its tasks becomes shorter (Graham 1969): a transfer that
// ends earlier may overlap transfers that it did not overlap before. Such a step becomes longer
// also with NCCL's choice fixed (every call with one algorithm and protocol). It is reported, and
// at most 1 % of the seeds may be such cases.
#include <gtest/gtest.h>

#include "random_scenario.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr double kGrowthMost = 1.01;
constexpr std::uint32_t kBetterSample = 60;

double step_s(const Document& document, const WhatIf& what_if) {
  return simulate(read_scenario_document("random", document), {.what_if = what_if})
      .timeline.makespan_s;
}

Document choice_held(Document document) {
  document["collectives"] = {{"nccl", {{"algo", "Ring"}, {"proto", "Simple"}}}};
  return document;
}

double growth(const Document& document, const Improvement& better) {
  return step_s(better.document, better.what_if) / step_s(document, {});
}

// Whether the step becomes longer also if NCCL has nothing to choose.
bool is_scheduling_anomaly(const Document& document, Improvement better) {
  better.document = choice_held(better.document);
  return growth(choice_held(document), better) > kGrowthMost;
}

// Does better hardware make no step longer?
TEST(BetterHardware, MakesNoStepLonger) {
  const std::uint32_t count = seeds(kBetterSample);
  std::uint32_t anomalies = 0;
  std::uint32_t shorter = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    Dice dice(seed);
    const Document document = random_document(dice);
    const Improvement better = random_improvement(dice, document);
    const double grown = growth(document, better);
    if (grown < 1.0 - 1e-6) ++shorter;
    if (grown <= kGrowthMost) continue;
    EXPECT_TRUE(is_scheduling_anomaly(document, better))
        << "seed " << seed << ": " << better.name << " makes the step " << grown
        << " times as long by another choice of NCCL";
    fmt::print("seed {}: {} makes the step {:.4f} times as long: a scheduling anomaly\n", seed,
               better.name, grown);
    ++anomalies;
  }
  EXPECT_LE(anomalies, count / 100);
  EXPECT_GT(shorter, count / 4) << "improvements reach the run";
}

}  // namespace
}  // namespace trainyard
