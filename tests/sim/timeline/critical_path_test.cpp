// Is the path found the one that determines the length of the step, and is the spare time correct?
#include "sim/timeline/critical_path.hpp"

#include <gtest/gtest.h>

#include "tests/sim/timeline/hand_run.hpp"

namespace trainyard {
namespace {

// Rank 0 computes 2 s, rank 1 3 s; they reduce for 1 s; rank 0 then works for another half second.
HandRun late_member() {
  HandRun run(2);
  const auto a = run.compute({.end_s = 2.0}, 0);
  const auto b = run.compute({.end_s = 3.0}, 1);
  const auto ra =
      run.collective({.ready_s = 2.0, .start_s = 3.0, .end_s = 4.0, .stream = 1, .after = {a}}, 0);
  run.collective({.ready_s = 3.0, .start_s = 3.0, .end_s = 4.0, .stream = 1, .after = {b}}, 1);
  run.compute({.ready_s = 4.0, .end_s = 4.5, .after = {ra}}, 0);
  run.bind_groups();
  return run;
}

// Does the critical path go through the late member?
TEST(CriticalPath, PassesThroughTheLateRank) {
  const HandRun run = late_member();
  const EventGraph graph(run.workload, run.partition);
  const std::vector<PathPiece> path = critical_path(graph, run.timeline);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0].event, (Event{1, 0}));
  EXPECT_EQ(path[0].seconds(), 3.0);
  EXPECT_EQ(path[1].seconds(), 1.0);
  EXPECT_EQ(path[2].event, (Event{0, 2}));
  EXPECT_EQ(path[2].seconds(), 0.5);
}

// Do the pieces cover the step?
TEST(CriticalPath, PiecesCoverTheStep) {
  HandRun run;
  const auto a = run.compute({.ready_s = 0.25, .end_s = 1.0});
  const auto d = run.delay({.ready_s = 1.0, .end_s = 1.5, .stream = 1, .after = {a}});
  run.compute({.ready_s = 2.0, .end_s = 3.0, .after = {d}});
  run.bind_groups();
  const std::vector<PathPiece> path =
      critical_path(EventGraph(run.workload, run.partition), run.timeline);
  double at_s = 0.0;
  double gaps_s = 0.0;
  for (const PathPiece& piece : path) {
    EXPECT_EQ(piece.start_s, at_s);
    at_s = piece.end_s;
    if (piece.gap) gaps_s += piece.seconds();
  }
  EXPECT_EQ(at_s, 3.0);
  EXPECT_EQ(gaps_s, 0.75) << "a quarter before the first, half before the last";
}

// Is the slack the time that an operation may be late?
TEST(Slack, IsTheDelayThatDoesNotLengthenTheStep) {
  const HandRun run = late_member();
  const auto slack =
      slack_seconds(EventGraph(run.workload, run.partition), run.partition, run.timeline);
  EXPECT_EQ(slack[0], (std::vector<double>{1.0, 0.0, 0.0})) << "rank 0 waits a second for rank 1";
  EXPECT_EQ(slack[1], (std::vector<double>{0.0, 0.0}));
}

// Does the slack of the last operations reach to the makespan?
TEST(Slack, OfTheLastOperationReachesTheEndOfTheStep) {
  HandRun run;
  const auto a = run.compute({.end_s = 1.0});
  run.collective({.ready_s = 1.0, .end_s = 1.5, .stream = 1, .after = {a}});
  run.compute({.ready_s = 1.0, .end_s = 4.0});
  run.bind_groups();
  const auto slack =
      slack_seconds(EventGraph(run.workload, run.partition), run.partition, run.timeline);
  EXPECT_EQ(slack[0], (std::vector<double>{0.0, 2.5, 0.0}));
}

// Is the path of an empty run empty?
TEST(CriticalPath, IsEmptyForAnEmptyStep) {
  HandRun run;
  run.bind_groups();
  EXPECT_TRUE(critical_path(EventGraph(run.workload, run.partition), run.timeline).empty());
}

}  // namespace
}  // namespace trainyard
