// The steady state of a pipeline, found in times that are written by hand. Whole runs are compared
// in tests/cross/contract_agreement_test.cpp.
#include "sim/engine/steady_state.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "sim/fold/fold.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kMicrobatches = 60;
constexpr double kBytes = 100.0;

// One rank: a first operation, `microbatches` times two operations, a last one. The two of a
// microbatch wait for those of the one before and for the first operation; the last operation waits
// for `awaited` operations before itself.
Workload one_rank(std::uint32_t microbatches, OpIndex awaited = 1) {
  enum : std::uint32_t { First, Work, Last };
  OperationList::Content content;
  content.operations = {{},
                        {.microbatch = 0, .dependencies_end = 2},
                        {.microbatch = 0, .dependencies_begin = 2, .dependencies_end = 3},
                        {.dependencies_begin = 3, .dependencies_end = 5}};
  content.dependencies = {kBlockInput, kBlockInput + 1, 0, kBlockInput, kBlockInput + 1};
  content.blocks = {{0, 1, 0}, {1, 2, 2}, {3, 1, 2}};
  content.instances.push_back({.first = 0, .block = First});
  OpIndex next = 1;
  for (std::uint32_t number = 0; number < microbatches; ++number) {
    content.instances.push_back({.first = next,
                                 .block = Work,
                                 .microbatch = static_cast<std::int32_t>(number),
                                 .bindings = static_cast<std::uint32_t>(content.bindings.size())});
    content.bindings.insert(content.bindings.end(), {next - 1, 0});
    next += 2;
  }
  content.instances.push_back({.first = next,
                               .block = Last,
                               .bindings = static_cast<std::uint32_t>(content.bindings.size())});
  content.bindings.insert(content.bindings.end(), {next - awaited, 0});
  Workload workload;
  workload.programs.push_back({.name = "only", .operations = OperationList(std::move(content))});
  workload.ranks.push_back({.program = 0});
  return workload;
}

Partition one_class() {
  Partition partition;
  partition.ranks = {{.program = 0}};
  partition.links.resize(1);
  partition.flows = {{.payload_bytes = kBytes, .weights = {{.link_class = 0, .weight = 2.0}}}};
  return partition;
}

// The first operation takes 1 s, and each of the others 1 s after that. A flow of a quarter of a
// second starts with the first operation of each microbatch.
Timeline played(std::uint32_t microbatches) {
  Timeline timeline;
  OpTimes& times = timeline.classes.emplace_back();
  for (std::uint32_t op = 0; op < 2 * microbatches + 2; ++op) {
    times.ready_s.push_back(op);
    times.start_s.push_back(op);
    times.end_s.push_back(op + 1.0);
  }
  for (std::uint32_t number = 0; number < microbatches; ++number)
    timeline.flows.push_back({0, 2.0 * number + 1.0, 2.0 * number + 1.25});
  timeline.links = {{.bytes = 2.0 * kBytes * microbatches, .busy_s = 0.25 * microbatches}};
  timeline.makespan_s = 2.0 * microbatches + 2.0;
  timeline.counters.operations = 2 * microbatches + 2;
  return timeline;
}

struct Short {
  Workload whole = one_rank(kMicrobatches);
  Partition partition = one_class();
  std::unique_ptr<ShortStep> step = shortened(whole);
  std::uint32_t microbatches = kMicrobatches - step->left_out;
  Timeline timeline = played(microbatches);

  [[nodiscard]] std::optional<Timeline> lengthened() const {
    return trainyard::lengthened(whole, partition, *step, timeline);
  }
};

// Does the whole step have the times that it has if all of it is played?
TEST(SteadyState, TheWholeStepHasTheTimesOfAllItsMicrobatches) {
  const Short run;
  EXPECT_EQ(run.step->workload.programs[0].operations.size(), 2 * run.microbatches + 2);
  EXPECT_LT(run.microbatches, kMicrobatches / 2);
  const std::optional<Timeline> whole = run.lengthened();
  ASSERT_TRUE(whole);
  const Timeline expected = played(kMicrobatches);
  EXPECT_EQ(whole->classes[0].ready_s, expected.classes[0].ready_s);
  EXPECT_EQ(whole->classes[0].start_s, expected.classes[0].start_s);
  EXPECT_EQ(whole->classes[0].end_s, expected.classes[0].end_s);
  ASSERT_EQ(whole->flows.size(), expected.flows.size());
  for (std::size_t flow = 0; flow < expected.flows.size(); ++flow) {
    EXPECT_EQ(whole->flows[flow].start_s, expected.flows[flow].start_s) << flow;
    EXPECT_EQ(whole->flows[flow].end_s, expected.flows[flow].end_s) << flow;
  }
  EXPECT_EQ(whole->links[0].bytes, expected.links[0].bytes);
  EXPECT_EQ(whole->links[0].busy_s, expected.links[0].busy_s);
  EXPECT_EQ(whole->makespan_s, expected.makespan_s);
  EXPECT_EQ(whole->counters.operations, expected.counters.operations);
  EXPECT_EQ(whole->counters.repeated, 2 * run.step->left_out);
}

// Is the whole step played where the last two periods differ in a date, in a flow, or in what is
// alive?
TEST(SteadyState, DifferentPeriodsAreNotRepeated) {
  using Change = std::function<void(Timeline&, std::uint32_t last)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"an operation starts later",
       [](Timeline& it, std::uint32_t last) { it.classes[0].start_s[2 * last - 2] += 0.01; }},
      {"an operation starts before the first period",
       [](Timeline& it, std::uint32_t last) { it.classes[0].start_s[2 * last - 3] -= 0.1; }},
      {"an operation ends later",
       [](Timeline& it, std::uint32_t last) { it.classes[0].end_s[2 * last - 3] += 0.01; }},
      {"every operation takes longer than two periods",
       [](Timeline& it, std::uint32_t) {
         for (std::size_t op = 1; op + 1 < it.classes[0].end_s.size(); ++op)
           it.classes[0].end_s[op] += 4.5;
       }},
      {"the first operation is alive until the end",
       [](Timeline& it, std::uint32_t last) { it.classes[0].end_s[0] = 2.0 * last + 0.5; }},
      {"the first operation ends in between",
       [](Timeline& it, std::uint32_t last) { it.classes[0].end_s[0] = 2.0 * last - 1.5; }},
      {"a flow starts later",
       [](Timeline& it, std::uint32_t last) { it.flows[last - 1].start_s += 0.01; }},
      {"a flow is missing",
       [](Timeline& it, std::uint32_t last) { it.flows.erase(it.flows.begin() + last - 1); }},
      {"a flow is alive after the end",
       [](Timeline& it, std::uint32_t last) { it.flows[1].end_s = 2.0 * last + 1.5; }}};
  for (const auto& [name, change] : changes) {
    Short run;
    change(run.timeline, run.microbatches);
    EXPECT_FALSE(run.lengthened()) << name;
  }
}

// Is a difference before the last two periods no hindrance?
TEST(SteadyState, ThePipelineMaySettleBeforeTheLastTwoPeriods) {
  Short run;
  for (int op = 3; op < 8; ++op)
    run.timeline.classes[0].start_s[static_cast<std::size_t>(op)] += 0.01 * op;
  const std::optional<Timeline> whole = run.lengthened();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->classes[0].start_s[7], 7.07);
  EXPECT_EQ(whole->classes[0].start_s[77], 77.0);
}

// Is the whole step played where a date lies at each of the eight borders that are tried? They lie
// 1/97, 2/97, ... of a period before the first operation that a further microbatch would have made
// ready. Further ranks follow the first one by a period less as much.
TEST(SteadyState, ADateAtEveryBorderIsAHindrance) {
  for (const auto& [ranks, found] : {std::pair{7, true}, {8, false}}) {
    Short run;
    for (int rank = 1; rank <= ranks; ++rank) {
      OpTimes times = run.timeline.classes[0];
      for (const auto what : {&OpTimes::ready_s, &OpTimes::start_s, &OpTimes::end_s})
        for (double& date_s : times.*what) date_s += 2.0 - 2.0 * rank / 97.0;
      run.timeline.classes.push_back(std::move(times));
      run.partition.ranks.push_back({.program = 0});
    }
    EXPECT_EQ(run.lengthened().has_value(), found) << ranks;
  }
}

// Does the period end before an operation that a further microbatch would have made ready?
TEST(SteadyState, AMissingOperationEndsThePeriod) {
  Short run;
  OpTimes& times = run.timeline.classes[0];
  for (std::size_t op = 4; op + 1 < times.ready_s.size(); op += 2) {
    times.ready_s[op] -= 1.25;  // before the last operation is ready by more than a period
    times.end_s[op] -= 0.5;
  }
  const std::optional<Timeline> whole = run.lengthened();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->classes[0].ready_s[100], 98.75);
  EXPECT_EQ(whole->classes[0].end_s[100], 100.5);
  EXPECT_EQ(whole->classes[0].ready_s[101], 101.0);
}

// Are steps left whole that have few microbatches, that differ in the middle, or whose last
// operation waits for a microbatch that would be left out?
TEST(SteadyState, StepsWithoutARepetitionStayWhole) {
  EXPECT_TRUE(shortened(one_rank(kMicrobatches)));
  EXPECT_FALSE(shortened(one_rank(20)));
  EXPECT_FALSE(shortened(one_rank(kMicrobatches, 2 * kMicrobatches / 2)));
  Workload uneven = one_rank(kMicrobatches);
  OperationList::Content content = uneven.programs[0].operations.content();
  // Each microbatch waits for an operation that is neither the same nor as far away.
  for (std::uint32_t number = 0; number < kMicrobatches; ++number)
    content.bindings[2 * number + 1] = number;
  uneven.programs[0].operations = OperationList(std::move(content));
  EXPECT_FALSE(shortened(uneven));
}

}  // namespace
}  // namespace trainyard
