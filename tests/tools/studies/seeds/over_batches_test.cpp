// The step over several seeded batches.
#include "tools/studies/seeds/over_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

Scenario packed(std::vector<Override> changes = {}) {
  changes.insert(changes.begin(), {"documents.preset", "wikipedia_en"});
  changes.push_back({"documents.kind", "preset"});
  changes.push_back({"engine", "ideal"});
  changes.push_back({"model.layers", "2"});
  return load_scenario(
      TRAINYARD_SOURCE_DIRECTORY "/scenarios/context/packed_llama3_8b_32xh100.json", changes);
}

// Is each batch the run with its seed, and the balanced one that with its balance?
TEST(OverBatches, EachBatchIsTheRunWithItsSeed) {
  const BatchTimes times = over_batches(packed({{"seed", "5"}}), {.batches = 3});
  ASSERT_EQ(times.step_s.size(), 3U);
  EXPECT_EQ(times.step_s, times.as_drawn_s);
  EXPECT_EQ(times.first_seed, 5U);
  EXPECT_EQ(times.balance, "documents");
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string seed = std::to_string(5 + i);
    EXPECT_EQ(times.as_drawn_s[i], simulate(packed({{"seed", seed}})).timeline.makespan_s);
    EXPECT_EQ(
        times.balanced_s[i],
        simulate(packed({{"seed", seed}, {"documents.balance", "documents"}})).timeline.makespan_s);
    EXPECT_LT(times.balanced_s[i], times.as_drawn_s[i]);
  }
  EXPECT_NE(times.step_s[0], times.step_s[1]);
}

// Is a scenario that balances compared with its documents as drawn?
TEST(OverBatches, ABalancedScenarioIsComparedWithItsDraw) {
  const BatchTimes times =
      over_batches(packed({{"documents.balance", "sequences"}}), {.batches = 2});
  EXPECT_EQ(times.step_s, times.balanced_s);
  EXPECT_EQ(times.balance, "sequences");
  EXPECT_EQ(times.as_drawn_s, over_batches(packed(), {.batches = 2}).as_drawn_s);
}

// Is a scenario refused in which nothing is drawn?
TEST(OverBatches, AScenarioWithoutDrawsIsRefused) {
  Scenario scenario = packed();
  scenario.plan.documents = {};
  EXPECT_THROW(static_cast<void>(over_batches(scenario, {.batches = 2})), InputError);
}

}  // namespace
}  // namespace trainyard
