// Counts of whole runs: classes, operations, regions, activities, events, and the bytes that links
// carry. Times are not reproducible on a busy machine, but these counts are exact. With
// TRAINYARD_BLESS=1 (tools/bless) the counts are rewritten; with TRAINYARD_FULL=1 the large runs
// are included too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/bench/whole_runs.hpp"

namespace trainyard {
namespace {

using namespace test;

// Does every run take exactly the counts of the baseline?
TEST(Counts, AreThoseOfTheBaseline) {
  std::vector<WholeRun> runs = read_whole_runs();
  const bool bless = std::getenv("TRAINYARD_BLESS") != nullptr;
  const bool full = std::getenv("TRAINYARD_FULL") != nullptr;
  std::size_t played = 0;
  for (WholeRun& run : runs) {
    if (!run.quick && !full) continue;
    SCOPED_TRACE(run.name);
    const Played now = play(run);
    EXPECT_TRUE(now.exit == 0 || now.exit == 1) << "exit " << now.exit;  // 1: it does not fit
    ASSERT_FALSE(now.counts.empty());
    if (bless) run.counts = now.counts;
    EXPECT_EQ(difference(run.counts, now.counts), "") << "if that is meant: tools/bless";
    ++played;
  }
  EXPECT_GE(played, 3U);
  if (bless) write_whole_runs(runs);
}

// Are the counts of a run independent of the number of data-parallel replicas? Twice and eight
// times the replicas of one model must have the same classes and no more operations, because the
// time of a run must not grow with the number of GPUs. All three are run here, not read from the
// baseline.
TEST(Counts, DoNotGrowWithReplicas) {
  const std::vector<WholeRun> runs = read_whole_runs();
  const auto counted = [&](const std::string& name) {
    const auto run = std::ranges::find(runs, name, &WholeRun::name);
    EXPECT_TRUE(run != runs.end()) << name;
    return run == runs.end() ? Counts{} : play(*run).counts;
  };
  const Counts small = counted("llama3_405b_16384");
  for (const std::int64_t times : {2, 8}) {
    const Counts large = counted(fmt::format("llama3_405b_{}", 16384 * times));
    EXPECT_EQ(large.at("ranks"), times * small.at("ranks"));
    EXPECT_EQ(large.at("classes"), small.at("classes"));
    EXPECT_LE(large.at("operations"), small.at("operations"));
  }
}

}  // namespace
}  // namespace trainyard
