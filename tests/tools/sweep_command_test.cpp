// Does a killed sweep continue where it stopped, and are joined parts the whole?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;
using testing::HasSubstr;

const std::string kSweep =
    "trainyard sweep scenarios/first/two_gpus.json --over training.global_batch_size=4,8,12,16 "
    "--over parallelism.overlap_grad_reduce=true,false ";

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = test::lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Do runs have the goodput of their jobs, in the table, the CSV and as a metric, with one run too?
TEST(SweepCommand, AddsTheGoodputOfSomeDays) {
  const Scratch scratch;
  const std::string sweep = "trainyard sweep scenarios/goodput/llama3_8b_64xh100.json --days 20 ";
  const Outcome several =
      scratch.sh(sweep +
                 "--over reliability.spares.nodes=0,1 --csv spares.csv --lines spares.svg "
                 "--metric goodput.mean");
  ASSERT_EQ(several.exit, 0) << several.err;
  EXPECT_THAT(several.out, HasSubstr("goodput  tokens/GPU-h"));
  EXPECT_THAT(test::lines_of(scratch.read("spares.csv")).front(), HasSubstr("goodput.half_width"));
  EXPECT_THAT(scratch.read("spares.svg"), HasSubstr("goodput.mean"));
  EXPECT_THAT(scratch.sh(sweep).out, HasSubstr("goodput  tokens/GPU-h"));
}

// Are days of a scenario that names no failures refused before its runs?
TEST(SweepCommand, RefusesDaysWithoutFailuresBeforeTheRuns) {
  const Scratch scratch;
  const Outcome refused =
      scratch.sh("trainyard sweep scenarios/first/two_gpus.json --days 20 --journal j.jsonl");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err, HasSubstr("does not say what fails"));
  EXPECT_FALSE(scratch.holds("j.jsonl"));
}

// Does a run that goodput refuses leave the others their figures?
TEST(SweepCommand, KeepsTheOthersWhereGoodputRefusesARun) {
  const Scratch scratch;
  const Outcome swept = scratch.sh(
      "trainyard sweep scenarios/goodput/llama3_8b_64xh100.json --days 5 "
      "--over reliability.checkpoint.interval='\"720 h\"','\"1 h\"' --csv runs.csv");
  EXPECT_EQ(swept.exit, 2);
  EXPECT_THAT(swept.out, HasSubstr("2 runs: 1 fit, 1 refused"));
  EXPECT_THAT(swept.out, HasSubstr("an interval of 30 days is\n"));
  EXPECT_THAT(swept.out, HasSubstr("goodput  tokens/GPU-h"));
}

// Does a killed and restarted sweep lose nothing and repeat nothing?
TEST(SweepCommand, KilledAndStartedAgainItLosesNothingAndRepeatsNothing) {
  const Scratch scratch;
  const Outcome killed =
      scratch.killed(kSweep + "--journal killed.jsonl --processes 1", "killed.jsonl", 2);
  ASSERT_EQ(killed.exit, 0) << killed.err;
  const std::string& before = killed.out;
  const Outcome again = scratch.sh(kSweep + "--journal killed.jsonl --csv killed.csv");
  ASSERT_EQ(again.exit, 0) << again.err;
  const Outcome whole = scratch.sh(kSweep + "--journal whole.jsonl --csv whole.csv");
  ASSERT_EQ(whole.exit, 0) << whole.err;
  EXPECT_TRUE(scratch.read("killed.jsonl").starts_with(before))
      << "what was done is not done again";
  EXPECT_EQ(sorted_lines(scratch.read("killed.jsonl")), sorted_lines(scratch.read("whole.jsonl")));
  EXPECT_EQ(sorted_lines(scratch.read("whole.jsonl")).size(), 8U);
  EXPECT_EQ(scratch.read("killed.csv"), scratch.read("whole.csv"));
}

// Is an edited scenario simulated anew, and does the command report it?
TEST(SweepCommand, AnEditedScenarioIsSimulatedAgainAndThatIsSaid) {
  const Scratch scratch;
  const auto sweep = [&](const std::string& out) {
    return scratch.sh("trainyard sweep mine.json --over training.global_batch_size=4,8 --journal " +
                      out);
  };
  const std::string edited = "sed 's/\"layers\": *2/\"layers\": 20/' ";
  ASSERT_EQ(scratch.sh("cat scenarios/first/two_gpus.json >mine.json").exit, 0);
  ASSERT_EQ(sweep("a.jsonl").exit, 0);
  ASSERT_EQ(scratch.sh(edited + "scenarios/first/two_gpus.json >mine.json").exit, 0);
  const Outcome again = sweep("a.jsonl");
  const Outcome whole = sweep("b.jsonl");
  EXPECT_EQ(again.out.substr(0, again.out.find("Journal")),
            whole.out.substr(0, whole.out.find("Journal")));
  EXPECT_EQ(sorted_lines(scratch.read("a.jsonl")), sorted_lines(scratch.read("b.jsonl")));
  EXPECT_THAT(again.err,
              HasSubstr("a.jsonl: 2 rows are done again: the scenario, a file it names"));
  EXPECT_EQ(sweep("a.jsonl").err, "");
}

// Are two sweeps at once kept from sharing a journal?
TEST(SweepCommand, TwoAtOnceDoNotShareAJournal) {
  const Scratch scratch;
  const Outcome second =
      scratch.sh("exec 9>>shared.jsonl; flock 9; " + kSweep + "--journal shared.jsonl");
  EXPECT_EQ(second.exit, 2);
  EXPECT_THAT(second.err, HasSubstr("shared.jsonl: is being written by another process"));
}

// Are concatenated shards the whole?
TEST(SweepCommand, ShardsConcatenatedAreTheWhole) {
  const Scratch scratch;
  for (const char* part : {"1", "2", "3"}) {
    ASSERT_EQ(scratch.sh(kSweep + "--shard " + part + "/3 --journal part" + part + ".jsonl").exit,
              0);
  }
  ASSERT_EQ(scratch.sh("cat part1.jsonl part2.jsonl part3.jsonl >all.jsonl").exit, 0);
  const Outcome merged = scratch.sh(kSweep + "--journal all.jsonl");
  const Outcome whole = scratch.sh(kSweep + "--journal whole.jsonl");
  EXPECT_THAT(merged.out, HasSubstr("8 runs: 8 fit"));
  EXPECT_EQ(merged.out.substr(0, merged.out.find("Journal")),
            whole.out.substr(0, whole.out.find("Journal")));
  EXPECT_EQ(sorted_lines(scratch.read("all.jsonl")), sorted_lines(scratch.read("whole.jsonl")));
}

// Does a shard beyond the last run end well? A job array may have more tasks than there are runs.
TEST(SweepCommand, AShardWithoutRunsEndsWell) {
  const Scratch scratch;
  const Outcome none = scratch.sh(kSweep + "--shard 9/9");
  EXPECT_EQ(none.exit, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("0 runs"));
}

// Are the tasks of a job array the whole? The test runs the job array's script with the variables
// that Slurm gives each task.
TEST(SweepCommand, TheTasksOfAJobArrayAreTheWhole) {
  const Scratch scratch;
  const std::string script = (Scratch::kTree / "tools" / "sweep_array.slurm").string();
  const std::string grid =
      "scenarios/first/two_gpus.json --over training.global_batch_size=4,8,12,16 ";
  for (const char* task : {"0", "1"}) {
    const Outcome part = scratch.sh(std::string("SLURM_ARRAY_TASK_ID=") + task +
                                    " SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=2 bash '" +
                                    script + "' " + grid);
    ASSERT_EQ(part.exit, 0) << part.err;
  }
  ASSERT_EQ(scratch.sh("cat sweep.*.jsonl >all.jsonl").exit, 0);
  EXPECT_EQ(sorted_lines(scratch.read("all.jsonl")).size(), 4U);
  const Outcome merged = scratch.sh("trainyard sweep " + grid + "--journal all.jsonl");
  EXPECT_THAT(merged.out, HasSubstr("4 runs: 4 fit"));
  EXPECT_EQ(sorted_lines(scratch.read("all.jsonl")).size(), 4U);
}

// Does pandas open the journal? The test runs the example script; Debian's pandas belongs to
// Debian's Python.
TEST(SweepCommand, TheJournalOpensInPandas) {
  const Scratch scratch;
  ASSERT_EQ(scratch.sh(kSweep + "--journal sweep.jsonl").exit, 0);
  const std::string script = (Scratch::kTree / "tools" / "read_sweep.py").string();
  const Outcome read = scratch.sh(
      "python=python3; $python -c 'import pandas' 2>/dev/null || python=/usr/bin/python3; $python "
      "'" +
      script + "' sweep.jsonl training.global_batch_size");
  if (read.exit == 77) GTEST_SKIP() << "SKIPPED, NOT TESTED: " << read.err;
  ASSERT_EQ(read.exit, 0) << read.err;
  std::istringstream lines(read.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "training.global_batch_size\tstep_time_s");
  double before = 0.0;
  std::size_t rows = 0;
  for (; std::getline(lines, line); ++rows) {
    const double seconds = std::stod(line.substr(line.find('\t')));
    EXPECT_GE(seconds, before) << "the quickest first";
    before = seconds;
  }
  EXPECT_EQ(rows, 8U) << read.out;
}

// Does a misspelt metric end the sweep at its first run, and one that only some runs could have
// leave the table?
TEST(SweepCommand, AMetricThatNoRunHasLosesNoRuns) {
  const Scratch scratch;
  const Outcome misspelt =
      scratch.sh(kSweep + "--metric mfuu --lines l.svg --journal j.jsonl --processes 1");
  EXPECT_EQ(misspelt.exit, 2);
  EXPECT_EQ(misspelt.err,
            "trainyard: --metric: no run has the figure \"mfuu\" (did you mean \"mfu\"?)\n");
  EXPECT_EQ(test::lines_of(scratch.read("j.jsonl")).size(), 1U);
  const Outcome absent =
      scratch.sh(kSweep + "--metric memory.7.peak_bytes --lines l.svg --csv c.csv");
  EXPECT_EQ(absent.exit, 2);
  EXPECT_THAT(absent.err, HasSubstr("no run has the figure \"memory.7.peak_bytes\""));
  EXPECT_THAT(absent.out, HasSubstr("8 runs: 8 fit"));
  EXPECT_TRUE(scratch.holds("c.csv"));
  const Outcome unseen = scratch.sh(kSweep + "--metric energy.joules");
  EXPECT_EQ(unseen.exit, 2);
  EXPECT_THAT(unseen.err, HasSubstr("--metric: no run has the figure \"energy.joules\""));
  EXPECT_THAT(unseen.out, HasSubstr("8 runs: 8 fit"));
}

// Does the command report a sweep without any result?
TEST(SweepCommand, WhatNothingComesOfIsSaid) {
  const Scratch scratch;
  const Outcome none =
      scratch.sh("trainyard sweep scenarios/first/two_gpus.json --over parallelism.tensor=3,5");
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.out, HasSubstr("2 runs: 2 refused"));
}

}  // namespace
}  // namespace trainyard
