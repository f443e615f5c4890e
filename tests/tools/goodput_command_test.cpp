// `trainyard goodput`: the same seed gives the same bytes, the JSON and the CSV hold what the
// report says, and longer work takes longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  EXPECT_THAT(run.out, HasSubstr("Not simulated: failures of several nodes at once"));
  EXPECT_THAT(run.out, HasSubstr("NOT GIVEN, so without time: warm_up"));
  const Json json = Json::parse(scratch.read("a.json"));
  double sum = 0.0;
  for (const auto& [name, time_s] : json["phases_s"].items()) sum += time_s.get<double>();
  EXPECT_EQ(json["phases_s"].size(), 12U);
  EXPECT_NEAR(sum, 30 * 86400.0, 1e-6);
  EXPECT_NEAR(json["phases_s"]["productive"].get<double>() / sum, json["goodput"]["mean"], 1e-9);
  // 16 GPUs for 30 days are 11 520 GPU-hours; each costs 2.
  EXPECT_NEAR(json["gpu_hours"], 11520, 1e-6);
  EXPECT_NEAR(json["cost"], 23040, 1e-6);
  EXPECT_EQ(test::lines_of(scratch.read("a.csv")).size(), 61U);
}

// Twice the tokens take about twice the time, with as many failures a day.
TEST(GoodputCommand, TakesTokensInPlaceOfDays) {
  const Scratch scratch;
  const auto wall = [&](const std::string& tokens) {
    const Outcome run = scratch.sh(kGoodput + "--tokens " + tokens + " --json a.json");
    EXPECT_EQ(run.exit, 0) << run.err;
    const Json json = Json::parse(scratch.read("a.json"));
    EXPECT_GE(json["tokens"]["mean"], std::stod(tokens));
    return json["wall_s"]["mean"].get<double>();
  };
  EXPECT_NEAR(wall("2e11") / wall("1e11"), 2.0, 0.02);
}

}  // namespace
}  // namespace trainyard
