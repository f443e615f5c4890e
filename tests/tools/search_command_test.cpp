// Does a killed search continue where it stopped, with the result of an uninterrupted one?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::lines_of;
using test::Outcome;
using test::Scratch;

const std::string kSearch =
    "trainyard search scenarios/what_if/tensor.json --over parallelism.pipeline=1 "
    "--over training.micro_batch_size=1 --over training.recompute=none --top 3 ";

// Does a killed and restarted search lose nothing and repeat nothing?
TEST(SearchCommand, KilledAndStartedAgainItLosesNothingAndRepeatsNothing) {
  const Scratch scratch;
  const Outcome killed = scratch.killed(
      kSearch + "--journal killed.jsonl --json killed.json --processes 1", "killed.jsonl", 3);
  ASSERT_EQ(killed.exit, 0) << killed.err;
  EXPECT_FALSE(scratch.holds("killed.json")) << "an answer is written whole or not at all";
  const std::string& before = killed.out;
  const Outcome again = scratch.sh(kSearch + "--journal killed.jsonl --json killed.json");
  ASSERT_EQ(again.exit, 0) << again.err;
  const Outcome whole = scratch.sh(kSearch + "--journal whole.jsonl --json whole.json");
  EXPECT_EQ(again.out, whole.out);
  EXPECT_EQ(scratch.read("killed.json"), scratch.read("whole.json"));
  const std::string journal = scratch.read("killed.jsonl");
  EXPECT_TRUE(journal.starts_with(before)) << "what was done is not done again";
  const std::vector<std::string> rows = lines_of(journal);
  EXPECT_EQ(std::set<std::string>(rows.begin(), rows.end()).size(), rows.size());
  EXPECT_EQ(rows.size(), lines_of(scratch.read("whole.jsonl")).size());
  EXPECT_GT(rows.size(), lines_of(before).size());
}

// Is an edited scenario simulated anew, and does the command report it?
TEST(SearchCommand, AnEditedScenarioIsSimulatedAgainAndThatIsSaid) {
  const Scratch scratch;
  const auto search = [&](const std::string& out) {
    return scratch.sh(
        "trainyard search mine.json --over parallelism.pipeline=1 --over parallelism.tensor=4,8 "
        "--over training.micro_batch_size=1 --over training.recompute=none --top 3 --journal " +
        out);
  };
  const std::string file = "scenarios/what_if/tensor.json";
  ASSERT_EQ(scratch.sh("cat " + file + " >mine.json").exit, 0);
  ASSERT_EQ(search("a.jsonl").exit, 0);
  ASSERT_EQ(scratch
                .sh("sed 's/\"sequence_length\": *[0-9]*/\"sequence_length\": 2048/' " + file +
                    " >mine.json")
                .exit,
            0);
  const Outcome again = search("a.jsonl");
  EXPECT_EQ(again.out, search("b.jsonl").out);
  EXPECT_THAT(again.err, testing::HasSubstr("done again"));
}

// Does --price take the place of the scenario's price, in the cost of a step too, and serve as the
// price of --objective cost where there is none?
TEST(SearchCommand, ThePriceOfTheCommandWins) {
  const Scratch scratch;
  const auto cost_of = [&](const std::string& prices) {
    EXPECT_EQ(scratch.sh(kSearch + prices + " --objective cost --json found.json").exit, 0);
    return parse_unchecked_json(scratch.read("found.json"))["best"][0]["cost"].get<double>();
  };
  const double dear = cost_of(" --set power.price_per_gpu_hour=2");
  EXPECT_DOUBLE_EQ(cost_of(" --set power.price_per_gpu_hour=1 --price 2"), dear);
  EXPECT_DOUBLE_EQ(cost_of(" --set power.price_preset=lambda_h100_on_demand --price 2"), dear);
  EXPECT_DOUBLE_EQ(cost_of(" --set power.pue=1 --price 2"), dear);
}

// Does the command that the search prints for its first layout cost what the search says?
TEST(SearchCommand, TheFirstByCostCostsThatInARun) {
  const Scratch scratch;
  const std::string prices = " --set power.price_per_kwh=0.1";
  ASSERT_EQ(scratch.sh(kSearch + prices + " --objective cost --json found.json").exit, 0);
  const auto best = parse_unchecked_json(scratch.read("found.json"))["best"];
  ASSERT_EQ(best.size(), 3U);
  std::vector<double> costs;
  for (const auto& layout : best) {
    std::string command = "trainyard run scenarios/what_if/tensor.json --json run.json";
    for (const auto& [path, value] : layout["set"].items())
      command += " --set '" + path + "=" + value.get<std::string>() + "'";
    const Outcome run = scratch.sh(command);
    ASSERT_EQ(run.exit, 0) << run.err;
    const auto result = parse_unchecked_json(scratch.read("run.json"));
    costs.push_back(result["energy"]["step"]["cost"].get<double>());
    EXPECT_DOUBLE_EQ(layout["cost"].get<double>(), costs.back());
  }
  EXPECT_TRUE(std::ranges::is_sorted(costs));
}

// Does an interrupted search print its best layouts so far, and tell by its exit code that they may
// not be the best of all? This search takes minutes; the test
// interrupts it as soon as its first layout that fits has been simulated.
TEST(SearchCommand, InterruptedItPrintsItsBestSoFar) {
  const Scratch scratch;
  ASSERT_EQ(
      scratch.sh("trainyard init --yes --model qwen3-30b-a3b --nodes 32 --output q.json").exit, 0);
  const Outcome interrupted = scratch.sh(
      "trainyard search q.json --journal j.jsonl >out.txt & pid=$!\n"
      "until grep -q '\"status\":\"fits\"' j.jsonl 2>/dev/null; do "
      "kill -0 $pid 2>/dev/null || exit 98; sleep 0.05; done\n"
      "kill -INT $pid; wait $pid; echo \"exit $?\" >>out.txt; cat out.txt");
  EXPECT_THAT(interrupted.out, testing::HasSubstr("The quickest layouts that fit"))
      << interrupted.out << interrupted.err;
  EXPECT_THAT(interrupted.out, testing::HasSubstr("ended"));
  EXPECT_TRUE(interrupted.out.ends_with("exit 130\n")) << interrupted.out;
}

}  // namespace
}  // namespace trainyard
