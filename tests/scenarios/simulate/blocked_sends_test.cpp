// A step that deadlocks because its messages block is bad input, and the error names the setting.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runs.hpp"
#include "scenarios/simulate/refusals.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

// A host that waits for every kernel, on a schedule, with or without overlapped messages.
Scenario blocking_scenario(const std::string& schedule, int interleave, bool overlap) {
  auto document =
      small_document({.pipeline = 4, .interleave = interleave, .data = 2, .microbatches = 8});
  document["parallelism"]["schedule"] = schedule;
  document["parallelism"]["overlap_p2p"] = overlap;
  document["host"] = "deepspeed_blocking";
  return load(document);
}

std::vector<Problem> said_of(const Scenario& scenario) {
  try {
    expect_sound(simulate(scenario, {}));
  } catch (const InputError& refusal) {
    return refusal.problems();
  }
  return {};
}

// Are blocking messages refused if the step deadlocks?
TEST(BlockedSends, AreRefusedWhereAStepHangs) {
  const Scenario scenario = blocking_scenario("zb_h2", 1, false);
  const std::vector<Problem> problems = said_of(scenario);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].file, scenario.file);
  EXPECT_EQ(problems[0].pointer, "/parallelism/overlap_p2p");
  EXPECT_EQ(problems[0].problem.find("zb_h2 cannot go on where false lets messages hold up "), 0U);
  EXPECT_NE(problems[0].problem.find(" waits for stage "), std::string::npos)
      << problems[0].problem;
  EXPECT_EQ(problems[0].problem.find('\n'), std::string::npos);
  EXPECT_EQ(problems[0].hint, "set overlap_p2p to true");
  EXPECT_TRUE(said_of(blocking_scenario("zb_h2", 1, true)).empty());
}

// Do paired messages run without deadlock? Megatron-LM's paired messages of interleaved stages do
// not deadlock, and neither do those of 1f1b.
TEST(BlockedSends, EndWhereExchangesArePaired) {
  EXPECT_TRUE(said_of(blocking_scenario("1f1b", 1, false)).empty());
  EXPECT_TRUE(said_of(blocking_scenario("interleaved_1f1b", 2, false)).empty());
}

// Are blocking messages not named for other deadlocks? If messages overlap, blocking cannot be the
// reason.
TEST(BlockedSends, AreNotBlamedForOtherDeadlocks) {
  const Deadlock deadlock("deadlock after 1 s: ...");
  refuse_blocked_sends(blocking_scenario("zb_h2", 1, true), deadlock);
  EXPECT_THROW(refuse_blocked_sends(blocking_scenario("zb_h2", 1, false), deadlock), InputError);
}

}  // namespace
}  // namespace trainyard
