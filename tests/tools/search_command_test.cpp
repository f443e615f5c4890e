// A search that is killed goes on where it stopped, and answers as if it had never been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::lines_of;
using test::Outcome;
using test::Scratch;

const std::string kSearch =
    "trainyard search scenarios/what_if/tensor.json --over parallelism.pipeline=1 "
    "--over training.micro_batch_size=1 --over training.recompute=none --top 3 ";

TEST(SearchCommand, KilledAndStartedAgainItLosesNothingAndRepeatsNothing) {
  const Scratch scratch;
  const Outcome killed = scratch.killed(
      kSearch + "--out killed.jsonl --json killed.json --processes 1", "killed.jsonl", 3);
  ASSERT_EQ(killed.exit, 0) << killed.err;
  EXPECT_FALSE(scratch.holds("killed.json")) << "an answer is written whole or not at all";
  const std::string& before = killed.out;
  const Outcome again = scratch.sh(kSearch + "--out killed.jsonl --json killed.json");
  ASSERT_EQ(again.exit, 0) << again.err;
  const Outcome whole = scratch.sh(kSearch + "--out whole.jsonl --json whole.json");
  EXPECT_EQ(again.out, whole.out);
  EXPECT_EQ(scratch.read("killed.json"), scratch.read("whole.json"));
  const std::string journal = scratch.read("killed.jsonl");
  EXPECT_TRUE(journal.starts_with(before)) << "what was done is not done again";
  const std::vector<std::string> rows = lines_of(journal);
  EXPECT_EQ(std::set<std::string>(rows.begin(), rows.end()).size(), rows.size());
  EXPECT_EQ(rows.size(), lines_of(scratch.read("whole.jsonl")).size());
  EXPECT_GT(rows.size(), lines_of(before).size());
}

}  // namespace
}  // namespace trainyard
