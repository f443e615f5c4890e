// The guarantees of the ready queue: streams, dependencies, rendezvous, order, and the text of a
// deadlock.

#include <gtest/gtest.h>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/deadlock.hpp"
#include "tests/sim/engine/builders.hpp"

namespace trainyard::test {
namespace {

constexpr std::uint8_t kCommunication = 1;

// Do streams run in order, and do dependencies join them?
TEST(ReadyQueue, StreamsRunInOrderAndDependenciesJoinThem) {
  Script script({1e9});
  const auto program = script.program("rank");
  const OpIndex first = script.compute(program, 1.0);
  script.compute(program, 2.0);  // after the first: same stream
  script.delay(program, 0.5, {.stream = 1, .after = {first}});
  script.delay(program, 0.25, {.stream = 1});
  script.rank(program);
  for (const EngineEntry& entry : engines()) {
    const Timeline timeline = script.run(*entry.make());
    const OpTimes& times = timeline.classes[0];
    EXPECT_EQ(times.ready_s, (std::vector<double>{0.0, 1.0, 1.0, 1.5}));
    EXPECT_EQ(times.start_s, times.ready_s);
    EXPECT_EQ(times.end_s, (std::vector<double>{1.0, 3.0, 1.5, 1.75}));
    EXPECT_EQ(timeline.makespan_s, 3.0);
    EXPECT_EQ(timeline.counters.operations, 4U);
    EXPECT_EQ(timeline.counters.events, 4U);
  }
}

// Does a communication start with its last member, and take the time of its phases?
TEST(ReadyQueue, ACommunicationStartsWithItsLastMemberAndTakesItsPhases) {
  Script script({1e9, 2e9});
  const auto call =
      script.call(CollectiveOp::AllReduce,
                  {phase(0.125, {link_flow({{0, 1e9}}), link_flow({{1, 1e9}})}), phase(0.0, {}),
                   phase(0.25, {}), phase(0.0, {link_flow({{1, 4e9}})})});
  for (const double seconds : {1.0, 3.0}) {
    const auto program = script.program("rank");
    script.compute(program, seconds);
    script.communicate(program, OpKind::Collective, 0, call);
    script.rank(program);
  }
  script.group({{0, 0}, {1, 0}});
  for (const EngineEntry& entry : engines()) {
    const Timeline timeline = script.run(*entry.make());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(timeline.classes[rank].ready_s[1], rank == 0 ? 1.0 : 3.0);
      EXPECT_EQ(timeline.classes[rank].start_s[1], 3.0);
      EXPECT_NEAR(timeline.classes[rank].end_s[1], 3.0 + 0.125 + 1.0 + 0.25 + 2.0, 1e-9);
    }
    ASSERT_EQ(timeline.flows.size(), 3U);
    EXPECT_EQ(timeline.flows[0].start_s, 3.125);
    EXPECT_NEAR(timeline.flows[1].end_s - timeline.flows[0].end_s, -0.5, 1e-9);
  }
}

// Do calls match in the order in which they are issued? The i-th call of a program matches the i-th
// one of the others, even if another stream reaches a later one first.
TEST(ReadyQueue, CallsMeetInTheOrderTheyAreIssued) {
  Script script({1e9});
  const auto small = script.call(CollectiveOp::AllReduce, {phase(1.0, {})});
  const auto large = script.call(CollectiveOp::AllReduce, {phase(8.0, {})});
  const auto late = script.program("late");
  const OpIndex work = script.compute(late, 4.0);
  script.communicate(late, OpKind::Collective, 0, small, {.stream = 1, .after = {work}});
  script.communicate(late, OpKind::Collective, 0, large, {.stream = 2});
  const auto other = script.program("other");
  script.communicate(other, OpKind::Collective, 0, small, {.stream = 1});
  script.communicate(other, OpKind::Collective, 0, large, {.stream = 2});
  script.group({{script.rank(late), 0}, {script.rank(other), 0}});
  const Timeline timeline = script.run(*make_engine("ideal"));
  EXPECT_EQ(timeline.classes[0].end_s, (std::vector<double>{4.0, 5.0, 8.0}));
  EXPECT_EQ(timeline.classes[1].end_s, (std::vector<double>{5.0, 8.0}));
}

// Does work without duration take no time?
TEST(ReadyQueue, WorkWithoutDurationTakesNoTime) {
  Script script({1e9});
  const auto nothing = script.call(CollectiveOp::AllReduce, {phase(0.0, {link_flow({{0, 0.0}})})});
  const auto program = script.program("rank");
  for (int repeat = 0; repeat < 1000; ++repeat) {
    script.compute(program, 0.0);
    script.communicate(program, OpKind::Collective, 0, nothing);
  }
  const RankId first = script.rank(program);
  script.group({{first, 0}, {script.rank(program), 0}});
  for (const EngineEntry& entry : engines()) {
    const Timeline timeline = script.run(*entry.make());
    EXPECT_EQ(timeline.makespan_s, 0.0);
    EXPECT_EQ(timeline.classes[1].end_s.back(), 0.0);
    EXPECT_TRUE(timeline.flows.empty()) << "a flow without bytes is no transfer";
  }
}

// Is progress reported up to the end?
TEST(ReadyQueue, ReportsProgressUpToTheEnd) {
  Script script({1e9});
  const auto program = script.program("rank");
  for (int repeat = 0; repeat < 200000; ++repeat) script.compute(program, 1e-6);
  script.rank(program);
  std::vector<double> reported;
  const Partition partition = script.fold_it(false);
  const auto progress = [&](double done) { reported.push_back(done); };
  static_cast<void>(make_engine("ideal")->run(
      {script.cluster(), script.workload(), partition, script.kernel_seconds(), progress}));
  ASSERT_EQ(reported.size(), 3U);
  EXPECT_NEAR(reported[0], 65536.0 / 200000.0, 1e-12);
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
}

// Are engines found by name?
TEST(ReadyQueue, EnginesAreFoundByName) {
  ASSERT_EQ(engines().size(), 2U);
  EXPECT_EQ(engines()[0].name, "simgrid");
  EXPECT_EQ(engines()[1].name, "ideal");
  EXPECT_THROW(static_cast<void>(make_engine("magic")), InternalError);
}

std::string deadlock_of(const Script& script, const Engine& engine) {
  try {
    static_cast<void>(script.run(engine));
  } catch (const RunError& error) {
    return error.what();
  }
  return "no deadlock";
}

// Both stages wait to receive before they send.
Script crossed_receives() {
  Script script({1e9});
  const auto call = script.call(CollectiveOp::SendRecv, {phase(1e-6, {link_flow({{0, 1e3}})})});
  for (const bool first : {true, false}) {
    const auto program = script.program(first ? "stage 0" : "stage 1");
    script.compute(program, first ? 3e-6 : 2e-6, {.name = "forward"});
    script.communicate(program, OpKind::Recv, first ? 1 : 0, call,
                       {.name = first ? "gradient" : "activation", .microbatch = 0});
    script.communicate(program, OpKind::Send, first ? 0 : 1, call,
                       {.name = first ? "activation" : "gradient", .microbatch = 0});
    script.rank(program);
  }
  script.group({{0, 0}, {1, 0}});
  script.group({{1, 1}, {0, 1}});
  return script;
}

// Does a deadlock report who waits for whom, and the position of that rank?
TEST(Deadlock, ReportsWhoWaitsForWhomAndAtWhichOperation) {
  const Script script = crossed_receives();
  for (const EngineEntry& entry : engines()) {
    EXPECT_EQ(deadlock_of(script, *entry.make()),
              "deadlock after 3 us: 4 of 6 operations can never end\n"
              "  stage 1 (rank 1): recv \"activation\" of microbatch 0 waits for stage 0 (rank 0), "
              "which is at recv \"gradient\" of microbatch 0\n"
              "  stage 0 (rank 0): recv \"gradient\" of microbatch 0 waits for stage 1 (rank 1), "
              "which is at recv \"activation\" of microbatch 0");
  }
}

// Is a deadlock explained if nothing was recorded? The report needs the times, so the engine plays
// once more if it has not recorded them.
TEST(Deadlock, IsExplainedInARunThatRecordsNothing) {
  Script script = crossed_receives();
  const Partition partition = script.fold_it(false);
  for (const EngineEntry& entry : engines()) {
    const auto engine = entry.make();
    EngineInput input{script.cluster(), script.workload(), partition, script.kernel_seconds()};
    input.record = false;
    try {
      static_cast<void>(engine->run(input));
      ADD_FAILURE() << entry.name;
    } catch (const Deadlock& error) {
      EXPECT_EQ(std::string(error.what()), deadlock_of(script, *engine));
    }
  }
}

// Does the report include what the missing member waits for?
TEST(Deadlock, ReportsWhatTheMissingMemberWaitsFor) {
  Script script({1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {phase(1e-6, {})});
  const auto left = script.program("left");
  script.communicate(left, OpKind::Collective, 0, call, {.stream = kCommunication, .name = "a"});
  script.communicate(left, OpKind::Collective, 1, call, {.stream = kCommunication, .name = "b"});
  const auto right = script.program("right");
  const OpIndex b = script.communicate(right, OpKind::Collective, 1, call,
                                       {.stream = kCommunication, .name = "b"});
  script.communicate(right, OpKind::Collective, 0, call, {.stream = 2, .after = {b}, .name = "a"});
  script.rank(left);
  script.rank(right);
  script.group({{0, 0}, {1, 0}});
  script.group({{0, 1}, {1, 1}});
  EXPECT_EQ(
      deadlock_of(script, *make_engine("ideal")),
      "deadlock at the start: 4 of 4 operations can never end\n"
      "  left (rank 0): collective \"a\" waits for right (rank 1), whose collective \"a\" waits "
      "for "
      "its own collective \"b\"\n"
      "  right (rank 1): collective \"b\" waits for left (rank 0), which is at collective \"a\"");
}

// Does the report name a member that calls too seldom, and count the rest?
TEST(Deadlock, NamesAMemberThatCallsTooSeldomAndCountsTheRest) {
  Script script({1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {phase(1e-6, {})});
  std::vector<Script::Member> members;
  for (int rank = 0; rank < 12; ++rank) {
    const auto program = script.program("program " + std::to_string(rank));
    script.communicate(program, OpKind::Collective, 0, call, {.name = "first"});
    if (rank > 1) script.communicate(program, OpKind::Collective, 0, call, {.name = "second"});
    members.push_back({script.rank(program), 0});
  }
  script.group(members);
  const std::string text = deadlock_of(script, *make_engine("simgrid"));
  EXPECT_EQ(text.substr(0, text.find('\n', text.find('\n') + 1)),
            "deadlock after 1 us: 10 of 22 operations can never end\n"
            "  program 2 (rank 2): collective \"second\" waits for program 0 (rank 0), which makes "
            "only 1 "
            "calls of this group; and for 1 more");
  EXPECT_EQ(text.substr(text.rfind('\n')), "\n  and 2 more that wait");
}

}  // namespace
}  // namespace trainyard::test
