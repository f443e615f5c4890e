// `trainyard goodput`: the same seed gives the same bytes, the JSON and the CSV hold what the
// report says, and longer work takes longer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using test::Outcome;
using test::Scratch;
using testing::HasSubstr;

const std::string kGoodput =
    "trainyard goodput scenarios/what_if/tensor.json --preset llama3 --runs 60 ";

TEST(GoodputCommand, GivesTheSameBytesForTheSameSeed) {
  const Scratch scratch;
  const Outcome one = scratch.sh(kGoodput + "--days 30 --seed 5 --json a.json --csv a.csv");
  ASSERT_EQ(one.exit, 0) << one.err;
  const Outcome same = scratch.sh(kGoodput + "--days 30 --seed 5 --json b.json --csv b.csv");
  EXPECT_EQ(one.out, same.out);
  EXPECT_EQ(scratch.read("a.json"), scratch.read("b.json"));
  EXPECT_EQ(scratch.read("a.csv"), scratch.read("b.csv"));
  EXPECT_NE(one.out, scratch.sh(kGoodput + "--days 30 --seed 6").out);
}

TEST(GoodputCommand, WritesPhasesThatAddUpToTheWallTime) {
  const Scratch scratch;
  const Outcome run = scratch.sh(kGoodput + "--days 30 --price 2 --json a.json --csv a.csv");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Not simulated: preemption by other jobs"));
  EXPECT_THAT(run.out, HasSubstr("NOT GIVEN, so without time: warm_up"));
  const Json json = parse_unchecked_json(scratch.read("a.json"));
  double sum = 0.0;
  for (const auto& [name, time_s] : json["phases_s"].items()) sum += time_s.get<double>();
  EXPECT_EQ(json["phases_s"].size(), 17U);
  EXPECT_NEAR(sum, 30 * 86400.0, 1e-6);
  EXPECT_NEAR(json["phases_s"]["productive"].get<double>() / sum, json["goodput"]["mean"], 1e-9);
  // 16 GPUs for 30 days are 11 520 GPU-hours; each costs 2.
  EXPECT_NEAR(json["gpu_hours"], 11520, 1e-6);
  EXPECT_NEAR(json["cost"], 23040, 1e-6);
  EXPECT_EQ(test::lines_of(scratch.read("a.csv")).size(), 61U);
}

// Does `--price` win over the price of the block `power`, whose source is named?
TEST(GoodputCommand, TakesThePriceOfTheScenario) {
  const Scratch scratch;
  const std::string command =
      "trainyard goodput scenarios/goodput/llama3_8b_64xh100.json --days 1 --runs 4 "
      "--set power.price_preset=aws_p5_on_demand ";
  const Outcome own = scratch.sh(command + "--json a.json");
  ASSERT_EQ(own.exit, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr(" at 12.29 per GPU-hour\n            price preset: 12.29 USD"));
  const Json json = parse_unchecked_json(scratch.read("a.json"));
  EXPECT_NEAR(json["cost"], 12.29 * json["gpu_hours"].get<double>(), 1e-6);
  EXPECT_EQ(json["gpu_hour_price"], 12.29);
  const Outcome given = scratch.sh(command + "--price 2");
  EXPECT_THAT(given.out, HasSubstr(" at 2 per GPU-hour\n"));
  EXPECT_THAT(given.out, testing::Not(HasSubstr("price preset")));
}

// Twice the tokens take about twice the time, with as many failures a day.
TEST(GoodputCommand, TakesTokensInPlaceOfDays) {
  const Scratch scratch;
  const auto wall = [&](const std::string& tokens) {
    const Outcome run = scratch.sh(kGoodput + "--tokens " + tokens + " --json a.json");
    EXPECT_EQ(run.exit, 0) << run.err;
    const Json json = parse_unchecked_json(scratch.read("a.json"));
    EXPECT_GE(json["tokens"]["mean"], std::stod(tokens));
    return json["wall_s"]["mean"].get<double>();
  };
  EXPECT_NEAR(wall("2e11") / wall("1e11"), 2.0, 0.02);
}

// The first alternative is the job itself; a spare node helps, and its GPUs count.
TEST(GoodputCommand, ComparesAlternativesOnTheSameFailures) {
  const Scratch scratch;
  const Outcome run = scratch.sh(
      "trainyard goodput scenarios/goodput/llama3_8b_64xh100.json --days 60 --runs 40 "
      "--versus 'one spare: reliability.spares.nodes=1' --versus reliability.policy=elastic "
      "--json a.json");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Json all = parse_unchecked_json(scratch.read("a.json"))["alternatives"];
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["gain"]["mean"], 0.0);
  EXPECT_EQ(all[1]["name"], "one spare");
  EXPECT_EQ(all[1]["gpus"], 72);
  EXPECT_GT(all[1]["gain"]["mean"], all[1]["gain"]["half_width_95"]);
  EXPECT_EQ(all[2]["name"], "reliability.policy=elastic");
  EXPECT_GT(all[2]["tokens_per_gpu_hour"], all[0]["tokens_per_gpu_hour"]);
}

TEST(GoodputCommand, RefusesAlternativesWithOtherFailures) {
  const Scratch scratch;
  const Outcome run = scratch.sh(
      "trainyard goodput scenarios/goodput/llama3_8b_64xh100.json --days 60 --runs 40 "
      "--versus reliability.failures=[],reliability.checkpoint.interval=1h");
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("other causes of failures"));
}

// The events of a run fill its calendar, in the CSV as in the trace, where a second is a day.
TEST(GoodputCommand, WritesOneRunAsEvents) {
  const Scratch scratch;
  const Outcome run =
      scratch.sh(kGoodput + "--days 30 --html a.html --trace a.json --events a.csv");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Json events = parse_unchecked_json(scratch.read("a.json"))["traceEvents"];
  const auto lines = test::lines_of(scratch.read("a.csv"));
  EXPECT_EQ(lines.size(), events.size());  // a heading, and a name of the process
  EXPECT_EQ(lines[0], "begin_s,duration_s,phase,cause");
  double sum = 0.0;
  for (const Json& event : events) sum += event.value("dur", 0.0);
  EXPECT_NEAR(sum, 30e6, 1.0);
  EXPECT_THAT(scratch.read("a.html"), HasSubstr("calendar of a run"));
}

const std::string kFit = "trainyard goodput fit scenarios/run_logs/bloom_176b.csv ";

// Does the fit give BLOOM's goodput, with phases that add up, a forecast and a replay, and the same
// bytes each time?
TEST(GoodputFitCommand, FitsForecastsAndReplays) {
  const Scratch scratch;
  const std::string line = kFit +
                           "--steps 115000 --runs 40 --replay --versus "
                           "reliability.checkpoint.interval_steps=50 --json ";
  const Outcome run = scratch.sh(line + "a.json");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, scratch.sh(line + "b.json").out);
  EXPECT_EQ(scratch.read("a.json"), scratch.read("b.json"));
  EXPECT_THAT(run.out, HasSubstr("goodput     0.9279"));
  EXPECT_THAT(run.out, HasSubstr("RECONSTRUCTED"));
  const Json json = parse_unchecked_json(scratch.read("a.json"));
  double sum = 0.0;
  for (const auto& [name, time_s] : json["phases_s"].items()) sum += time_s.get<double>();
  EXPECT_NEAR(sum / json["wall_s"].get<double>(), 1.0, 1e-12);
  EXPECT_LT(json["forecast"]["p10_s"], json["forecast"]["p90_s"]);
  EXPECT_EQ(json["forecast"]["steps"], 115000 - 94767);
  ASSERT_EQ(json["replay"].size(), 2U);
  EXPECT_EQ(json["replay"][0]["saved_s"]["mean"], 0.0);
}

// Does `goodput --preset` take what the fit writes, and do more spares save time where a log tells
// nodes and repairs?
TEST(GoodputFitCommand, WritesAPresetThatGoodputTakes) {
  const Scratch scratch;
  ASSERT_EQ(scratch.sh(kFit + "--output fitted.json").exit, 0);
  const Outcome run = scratch.sh(
      "trainyard goodput scenarios/what_if/tensor.json --preset ./fitted.json --days 30 --runs 10");
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("outage"));
}

TEST(GoodputFitCommand, SaysWhatMoreSparesWouldHaveSaved) {
  const Scratch scratch;
  std::string rows =
      "# nodes: 8\n# spare_nodes: 0\ntime,event,step,cause,node,duration_s\n0,step,0,,,\n";
  for (int day = 1; day <= 20; ++day) {
    const int failed_s = day * 86400;
    rows += fmt::format("{0},step,{1},,,\n{0},failure,,GPU,n{2},\n{0},replacement,,,,7200\n",
                        failed_s, day * 1000, day % 8);
    rows += fmt::format("{},repaired,,,n{},\n{},step,{},,,\n", failed_s + 7000, day % 8,
                        failed_s + 7200, day * 1000);
  }
  write_file(scratch.folder() / "mine.csv", rows);
  const Outcome run = scratch.sh(
      "trainyard goodput fit mine.csv --set reliability.checkpoint.interval_steps=1 --set "
      "reliability.checkpoint.stall=0s --replay --versus "
      "'two spares: reliability.spares.nodes=2,reliability.spares.replace=60s' --json a.json");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Json json = parse_unchecked_json(scratch.read("a.json"));
  // 19 or 20 replacements take 60 s in place of 7200 s.
  EXPECT_NEAR(json["replay"][1]["saved_s"]["mean"].get<double>(), 20 * 7140.0, 2 * 7140.0);
}

}  // namespace
}  // namespace trainyard
