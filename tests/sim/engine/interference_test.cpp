// Does communication slow the computation beside it, by as much and as long as it should?
#include <gtest/gtest.h>

#include "builders.hpp"

namespace trainyard::test {
namespace {

// Two ranks that compute for `compute_s` and meanwhile all_reduce for `communication_s`, then
// compute for `tail_s`.
struct Overlap {
  double compute_s = 0.0;
  double communication_s = 0.0;
  double tail_s = 0.0;
};

Script overlap_script(const Overlap& overlap) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce,
                                {phase(0.0, {chain({{0, overlap.communication_s * 1e9}})})});
  const auto program = script.program("both");
  script.compute(program, overlap.compute_s);
  script.communicate(program, OpKind::Collective, 0, call, {.stream = 1});
  if (overlap.tail_s > 0.0) script.compute(program, overlap.tail_s);
  const RankId first = script.rank(program);
  const RankId second = script.rank(program);
  script.group({{first, 0}, {second, 0}});
  return script;
}

Timeline run_with_loss(Script& script, const Engine& engine, double loss, bool folded = true) {
  const Partition partition = script.fold_it(folded);
  std::vector<std::vector<double>> losses;
  for (const auto& calls : partition.phases) losses.emplace_back(calls.size(), loss);
  EngineInput input{.cluster = script.cluster(),
                    .workload = script.workload(),
                    .partition = partition,
                    .kernel_seconds = script.kernel_seconds(),
                    .progress = {},
                    .compute_loss = losses};
  return engine.run(input);
}

// Oracle 65: rates 1 mean max(compute, communication); rates of one half each mean one after the
// other. The communication's half rate is in its bytes here: 2 s stand for 1 s at full speed.
TEST(Interference, NoLossIsPerfectOverlapAndHalfEachIsSerial) {
  for (const EngineEntry& entry : engines()) {
    const auto engine = entry.make();
    for (const double compute : {1.0, 1.5, 4.0}) {
      Script full = overlap_script({.compute_s = compute, .communication_s = 1.0});
      EXPECT_NEAR(run_with_loss(full, *engine, 0.0).makespan_s, std::max(compute, 1.0), 1e-9);
      Script half = overlap_script({.compute_s = compute, .communication_s = 2.0});
      EXPECT_NEAR(run_with_loss(half, *engine, 0.5).makespan_s, compute + 1.0, 1e-9) << entry.name;
    }
  }
}

// 10 s of work lose a quarter of the speed for 4 s: 3 s of it are done then, and 7 s follow.
TEST(Interference, OnlyTheOverlappedPartIsSlowed) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 10.0, .communication_s = 4.0, .tail_s = 1.0});
    const Timeline timeline = run_with_loss(script, *entry.make(), 0.25);
    EXPECT_NEAR(timeline.classes[0].end_s[0], 11.0, 1e-9);
    EXPECT_NEAR(timeline.makespan_s, 12.0, 1e-9);
  }
}

// A kernel that starts under communication is slow from its start, and an announced end that no
// longer holds does not lengthen the step.
TEST(Interference, LaterKernelsAreSlowedTooAndStaleEndsDoNotCount) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 1.0, .communication_s = 3.0, .tail_s = 1.0});
    const Timeline timeline = run_with_loss(script, *entry.make(), 0.5);
    // The first kernel takes 2 s; the second has half a second done at 3 s and half a second left.
    EXPECT_NEAR(timeline.classes[0].end_s[0], 2.0, 1e-9);
    EXPECT_NEAR(timeline.classes[0].end_s[2], 3.5, 1e-9);
    EXPECT_NEAR(timeline.makespan_s, 3.5, 1e-9);
  }
}

TEST(Interference, FoldedAndUnfoldedAgree) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 1.3, .communication_s = 0.7, .tail_s = 0.4});
    const auto engine = entry.make();
    const double folded = run_with_loss(script, *engine, 0.222, true).makespan_s;
    const double unfolded = run_with_loss(script, *engine, 0.222, false).makespan_s;
    EXPECT_NEAR(folded, unfolded, kAgreement * folded);
  }
}

}  // namespace
}  // namespace trainyard::test
