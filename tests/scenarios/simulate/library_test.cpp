// simulate() as a library function: repeatable, cancellable, and safe from several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "runs.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

Scenario pipeline() {
  return small_scenario({.tensor = 2, .pipeline = 2, .data = 4, .microbatches = 8});
}

// Does a memo change no digit of a result?
TEST(Library, AMemoChangesNoDigitOfAResult) {
  const Scenario scenario = pipeline();
  Memo memo;
  const Result first = simulate(scenario, {}, memo);
  const Result again = simulate(scenario, {}, memo);
  EXPECT_EQ(first.workload, again.workload);
  EXPECT_EQ(first.partition, again.partition);
  EXPECT_NEAR(again.timeline.makespan_s, first.timeline.makespan_s,
              1e-12 * first.timeline.makespan_s);
  EXPECT_EQ(first.memory_peaks.front().bytes, again.memory_peaks.front().bytes);
}

// Is a step time alone that of the whole result?
TEST(Library, AStepTimeAloneIsThatOfAWholeResult) {
  const Scenario scenario = pipeline();
  const Result whole = simulate(scenario);
  const Result alone = simulate(scenario, {.figures = false});
  EXPECT_NEAR(alone.timeline.makespan_s, whole.timeline.makespan_s,
              1e-12 * whole.timeline.makespan_s);
  EXPECT_EQ(alone.timeline.counters.operations, whole.timeline.counters.operations);
  EXPECT_FALSE(whole.timeline.flows.empty());
  EXPECT_FALSE(whole.timeline.classes.empty());
  EXPECT_TRUE(alone.timeline.flows.empty());
  EXPECT_TRUE(alone.timeline.links.empty());
  EXPECT_TRUE(alone.timeline.classes.empty());
  EXPECT_TRUE(alone.memory_peaks.empty());
}

// Is a changed scenario simulated anew?
TEST(Library, AChangedScenarioIsSimulatedAnew) {
  Scenario scenario = pipeline();
  Memo memo;
  const Result before = simulate(scenario, {}, memo);
  scenario.plan.training.sequence_length *= 2;
  const Result after = simulate(scenario, {}, memo);
  EXPECT_GT(after.timeline.makespan_s, 1.5 * before.timeline.makespan_s);
  EXPECT_EQ(after.timeline.makespan_s, simulate(scenario).timeline.makespan_s);
}

// Are other numbers of microbatches folded only once? Folding depends on which ranks call what in
// which order, but not on how often.
TEST(Library, OtherNumbersOfMicrobatchesAreFoldedOnce) {
  const Scenario scenario = pipeline();
  Memo memo;
  const Result first = simulate(scenario, {}, memo);
  for (const int more : {1, 2, 3, 5}) {
    Scenario changed = scenario;
    changed.plan.training.global_batch_size +=
        more * changed.plan.training.micro_batch_size * changed.plan.parallelism.data;
    const Result kept = simulate(changed, {}, memo);
    const Result fresh = simulate(changed);
    EXPECT_EQ(kept.partition, first.partition) << more;
    EXPECT_GT(kept.timeline.counters.operations, first.timeline.counters.operations) << more;
    EXPECT_NEAR(kept.timeline.makespan_s, fresh.timeline.makespan_s,
                1e-12 * fresh.timeline.makespan_s)
        << more;
    EXPECT_EQ(kept.memory_peaks.front().bytes, fresh.memory_peaks.front().bytes) << more;
  }
}

Scenario with_microbatches(Scenario scenario, std::int64_t count) {
  Training& training = scenario.plan.training;
  training.global_batch_size = count * training.micro_batch_size * scenario.plan.parallelism.data;
  return scenario;
}

void expect_as_afresh(const Scenario& scenario, Memo& memo) {
  const Result kept = simulate(scenario, {}, memo);
  const Result fresh = simulate(scenario);
  EXPECT_EQ(kept.workload->kernels, fresh.workload->kernels);
  EXPECT_EQ(kept.workload->names, fresh.workload->names);
  EXPECT_EQ(kept.workload->calls, fresh.workload->calls);
  ASSERT_EQ(kept.timeline.classes.size(), fresh.timeline.classes.size());
  for (std::size_t i = 0; i < fresh.timeline.classes.size(); ++i) {
    const std::vector<double>& ends = fresh.timeline.classes[i].end_s;
    ASSERT_EQ(kept.timeline.classes[i].end_s.size(), ends.size());
    for (std::size_t op = 0; op < ends.size(); ++op)
      ASSERT_NEAR(kept.timeline.classes[i].end_s[op], ends[op], 1e-12 * ends[op]) << op;
  }
  EXPECT_NEAR(kept.timeline.makespan_s, fresh.timeline.makespan_s,
              1e-12 * fresh.timeline.makespan_s);
  ASSERT_EQ(kept.memory_peaks.size(), fresh.memory_peaks.size());
  for (std::size_t i = 0; i < fresh.memory_peaks.size(); ++i)
    EXPECT_EQ(kept.memory_peaks[i].bytes, fresh.memory_peaks[i].bytes);
}

// Steps that are arranged from the blocks of a first one, and others that cannot be.
std::vector<Scenario> kinds_of_steps() {
  std::vector<Scenario> scenarios;
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_h2"}) {
    scenarios.push_back(small_scenario({.tensor = 2, .pipeline = 2, .data = 2}));
    scenarios.back().plan.parallelism.schedule = schedule;
  }
  for (const char* schedule : {"interleaved_1f1b", "zb_v", "dualpipe", "dualpipe_v"}) {
    scenarios.push_back(small_scenario({.pipeline = 2, .interleave = 2, .data = 4}));
    scenarios.back().plan.parallelism.schedule = schedule;
  }
  for (const int zero : {1, 2, 3})
    scenarios.push_back(small_scenario({.pipeline = 2, .data = 4, .zero_stage = zero}));
  for (const Recompute recompute : {Recompute::Full, Recompute::Selective}) {
    scenarios.push_back(small_scenario({.tensor = 2, .pipeline = 2, .data = 2}));
    scenarios.back().plan.training.recompute = recompute;
  }
  auto experts = small_document({.pipeline = 2, .data = 4});
  experts["model"].update({{"experts", 8}, {"experts_per_token", 2}, {"expert_ffn", 512}});
  experts["parallelism"]["expert"] = 4;
  scenarios.push_back(load(experts));
  return scenarios;
}

// Are other numbers of microbatches the same as simulated anew?
TEST(Library, OtherNumbersOfMicrobatchesAreAsAfresh) {
  std::size_t number = 0;
  for (const Scenario& scenario : kinds_of_steps()) {
    SCOPED_TRACE(number++);
    Memo memo;
    for (const std::int64_t count : {8, 12, 10, 24, 8, 4})
      expect_as_afresh(with_microbatches(scenario, count), memo);
  }
}

// Are blocks taken only from the same plan? Whatever else of a plan differs, it uses no block of
// another one.
TEST(Library, BlocksAreThoseOfTheSamePlan) {
  const Scenario scenario = pipeline();
  std::vector<Scenario> others(6, with_microbatches(scenario, 10));
  others[0].plan.architecture.ffn *= 2;
  others[1].plan.training.recompute = Recompute::Full;
  others[2].plan.training.sequence_length /= 2;
  others[3].plan.parallelism.zero_stage = 1;
  others[4].plan.parallelism.schedule = "gpipe";
  others[5].plan.parallelism.overlap_grad_reduce = !scenario.plan.parallelism.overlap_grad_reduce;
  Memo memo;
  expect_as_afresh(scenario, memo);
  expect_as_afresh(with_microbatches(scenario, 10), memo);
  for (const Scenario& other : others) expect_as_afresh(other, memo);
  for (const Scenario& other : others) expect_as_afresh(with_microbatches(other, 11), memo);
}

// By flow class: its rate cap, and the number of link classes on which it may share capacity.
std::vector<std::pair<double, std::ptrdiff_t>> limits_of(const Partition& partition) {
  std::vector<std::pair<double, std::ptrdiff_t>> limits;
  for (const FlowClass& flow : partition.flows)
    limits.emplace_back(flow.rate_cap_bytes_per_s,
                        std::ranges::count_if(flow.weights, &FlowClass::Weight::contended));
  return limits;
}

// Does a memo of other steps change no result? A scenario gives the same result as with a new memo.
TEST(Library, AMemoOfOtherStepsChangesNoResult) {
  std::vector<Scenario> scenarios;
  const std::vector<SmallShape> shapes = {
      {.tensor = 2, .pipeline = 2, .data = 4, .microbatches = 6},
      {.pipeline = 4, .data = 2, .microbatches = 6},
      {.pipeline = 2, .data = 2, .microbatches = 6, .context = 2},
      {.tensor = 2, .pipeline = 2, .data = 2, .zero_stage = 3, .microbatches = 6}};
  for (const SmallShape& shape : shapes) {
    for (const bool overlaps : {false, true}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        Scenario scenario = small_scenario(shape);
        scenario.plan.parallelism.schedule = schedule;
        scenario.plan.parallelism.overlap_grad_reduce = overlaps;
        scenario.plan.parallelism.overlap_p2p = overlaps;
        scenarios.push_back(scenario);
      }
    }
  }
  ASSERT_EQ(scenarios.size(), 16U);
  Memo memo;
  for (int turn = 0; turn < 2; ++turn) {
    for (const Scenario& scenario : scenarios) {
      const Result kept = simulate(scenario, {}, memo);
      const Result fresh = simulate(scenario);
      EXPECT_NEAR(kept.timeline.makespan_s, fresh.timeline.makespan_s,
                  1e-12 * fresh.timeline.makespan_s);
      EXPECT_EQ(kept.partition->ranks.size(), fresh.partition->ranks.size());
      EXPECT_EQ(limits_of(*kept.partition), limits_of(*fresh.partition));
    }
  }
}

// Does a stop request end a simulation with Cancelled?
TEST(Library, AStopEndsASimulationByCancelled) {
  std::stop_source stop;
  stop.request_stop();
  Memo memo;
  EXPECT_THROW((void)simulate(pipeline(), {.stop = stop.get_token()}, memo), Cancelled);
}

// Does a stop request in the middle leave the memo and the engine usable? Every operation is a
// separate event, so progress is reported during the run.
TEST(Library, AStopInTheMiddleLeavesTheMemoAndTheEngineUsable) {
  for (const char* engine : {"simgrid", "ideal"}) {
    Scenario scenario =
        small_scenario({.tensor = 2, .pipeline = 2, .data = 4, .microbatches = 128});
    scenario.engine = engine;
    Memo memo;
    std::stop_source stop;
    int told = 0;
    const auto progress = [&](double fraction) {
      ++told;
      EXPECT_LT(fraction, 1.0);
      stop.request_stop();
    };
    const SimulateOptions cancelled{
        .fold = false, .contract = false, .progress = progress, .stop = stop.get_token()};
    EXPECT_THROW((void)simulate(scenario, cancelled, memo), Cancelled) << engine;
    EXPECT_EQ(told, 1) << engine;
    const double kept = simulate(scenario, {}, memo).timeline.makespan_s;
    const double alone = simulate(scenario).timeline.makespan_s;
    EXPECT_NEAR(kept, alone, 1e-12 * alone) << engine;
  }
}

// Do threads get the results of sequential runs?
TEST(Library, ThreadsGetTheResultsOfRunsOneByOne) {
  const Scenario scenario = pipeline();
  std::vector<WhatIf> asked;
  for (const double factor : {1.0, 0.5, 2.0, 0.25}) asked.push_back({.network = factor});
  std::vector<double> alone;
  for (const WhatIf& what_if : asked)
    alone.push_back(simulate(scenario, {.what_if = what_if}).timeline.makespan_s);
  Memo memo;
  std::vector<double> together(asked.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < asked.size(); ++i)
      threads.emplace_back([&, i] {
        together[i] = simulate(scenario, {.what_if = asked[i]}, memo).timeline.makespan_s;
      });
  }
  for (std::size_t i = 0; i < asked.size(); ++i)
    EXPECT_NEAR(together[i], alone[i], 1e-9 * alone[i]) << i;
}

// Can threads simulate other numbers of microbatches at the same time? The first one lowers, and
// the others arrange its blocks while it runs.
TEST(Library, ThreadsMayAskForOtherNumbersOfMicrobatchesAtOnce) {
  const Scenario first = pipeline();
  const std::vector<std::int64_t> counts = {8, 9, 12, 8, 16, 5};
  for (int turn = 0; turn < 5; ++turn) {
    Memo memo;
    std::vector<double> together(counts.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < counts.size(); ++i)
        threads.emplace_back([&, i] {
          const Scenario scenario = with_microbatches(first, counts[i]);
          together[i] = simulate(scenario, {.figures = false}, memo).timeline.makespan_s;
        });
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double alone = simulate(with_microbatches(first, counts[i])).timeline.makespan_s;
      EXPECT_NEAR(together[i], alone, 1e-12 * alone) << i;
    }
  }
}

}  // namespace
}  // namespace trainyard
