// Published goodput and ETTR are predicted from their published set-ups. The rows in tests/measured
// are a part of the data set that the study reads; the whole is used where it lies beside the tree.
#include "tools/studies/validate/goodput/published.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/reliability/checkpoint_interval.hpp"
#include "models/reliability/redundancy.hpp"
#include "tests/scenarios/sample.hpp"
#include "tests/tools/studies/goodput/fixtures.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

bool every(const std::string&) { return true; }

// The rows of the tree, predicted once.
const GoodputRows& rows_of_tree() {
  static const GoodputRows rows = validate_goodput(kTree / "tests/measured/goodput.json", every);
  return rows;
}

const PublishedGoodput& row_of(const GoodputRows& rows, std::string_view id) {
  const auto row = std::find_if(rows.rows.begin(), rows.rows.end(),
                                [&](const PublishedGoodput& one) { return one.id == id; });
  if (row == rows.rows.end()) throw std::out_of_range(std::string(id));
  return *row;
}

// Kokolis et al. print their first-order formula. It is within 2 points of the renewal equation, to
// which the sampled runs agree, where few failures come in an interval.
TEST(PublishedGoodput, OfKokolisIsTheRenewalEquation) {
  const GoodputRows& rows = rows_of_tree();
  // 2048 nodes, 6.5 failures per 1000 node-days: M = 86 400/13.312 = 6490.4 s.
  const double exact = reliability::efficiency(
      {.interval = 300, .write = 0, .restart = 300, .mtbf = 86400 / (2048 * 6.5e-3)});
  const PublishedGoodput& row = row_of(rows, "kokolis-16k-5min");
  EXPECT_NEAR(row.predicted.mean, exact, 2 * row.predicted.half_width);
  EXPECT_NEAR(row.error(), 0.0, 0.02);
  EXPECT_EQ(row.supposed, "");
  EXPECT_EQ(row_of(rows, "kokolis-100k").supposed, "checkpoints take no time");
}

// The errors as they are. BLOOM and ByteRobust come out too high, because the presets hold no time
// for what their sources do not time: outages that waited for people, and slow restarts.
TEST(PublishedGoodput, HasTheseErrors) {
  const GoodputRows& rows = rows_of_tree();
  ASSERT_EQ(rows.rows.size(), 7U);
  ASSERT_EQ(rows.left_out.size(), 2U);
  EXPECT_EQ(rows.left_out[0].first, "byterobust-moe");
  EXPECT_EQ(rows.left_out[1].first, "opt-175b");
  EXPECT_EQ(row_of(rows, "llama3-405b-54d").error(), 0.0);  // above its bound
  EXPECT_LT(std::abs(row_of(rows, "kokolis-12k-rate").error()), 0.02);
  EXPECT_LT(std::abs(row_of(rows, "kokolis-12k-write").error()), 0.03);
  EXPECT_LT(std::abs(row_of(rows, "kokolis-100k").error()), 0.05);
  EXPECT_LT(std::abs(row_of(rows, "byterobust-dense").error()), 0.03);
  EXPECT_LT(std::abs(row_of(rows, "bloom-176b").error()), 0.04);
}

const PublishedCount& count_of(const GoodputRows& rows, std::string_view id,
                               std::string_view rates) {
  const auto row = std::ranges::find_if(
      rows.counts, [&](const PublishedCount& one) { return one.id == id && one.rates == rates; });
  if (row == rows.counts.end()) throw std::out_of_range(std::string(id));
  return *row;
}

// Is every count predicted by every preset, and is the preset that holds the count itself marked?
// Llama 3's 419 unexpected interruptions have the exact interval 379.8 to 461.1. RSC-1's nodes fail
// 6.5 times in 1000 days: 2048 of them 718.8 times in 54 days.
TEST(PublishedCounts, ArePredictedByEveryPreset) {
  const GoodputRows& rows = rows_of_tree();
  EXPECT_EQ(rows.counts.size(), 4U * 6U + 1U);  // six presets count nodes, and one row its hosts
  const PublishedCount& own = count_of(rows, "llama3-405b-54d", "llama3");
  EXPECT_EQ(own.published, 419);
  EXPECT_TRUE(own.same_count);
  EXPECT_NEAR(own.predicted, 419, 1e-6);
  EXPECT_NEAR(own.interval.lower, 379.8, 0.05);
  EXPECT_NEAR(own.interval.upper, 461.1, 0.05);
  const PublishedCount& other = count_of(rows, "llama3-405b-54d", "rsc1");
  EXPECT_FALSE(other.same_count);
  EXPECT_NEAR(other.predicted, 2048 * 54 * 6.5e-3, 1e-6);
  EXPECT_FALSE(other.within());
  EXPECT_EQ(count_of(rows, "byterobust-moe", "byterobust").published, 71 + 9 + 14);
  EXPECT_FALSE(count_of(rows, "byterobust-moe", "byterobust").same_count);
  // OPT lost 2 hosts a day in 56 days and restarted about 90 times.
  EXPECT_NEAR(count_of(rows, "opt-175b", "the row's own").predicted, 112, 1e-9);
}

// How far do the rates of one cluster hold for another? The rates differ by up to five times, the
// intervals are 10 to 20 % wide: 2 of 22 predictions are within them.
TEST(PublishedCounts, HoldForFewOtherClusters) {
  const GoodputRows& rows = rows_of_tree();
  const auto scored =
      std::ranges::count_if(rows.counts, [](const PublishedCount& one) { return !one.same_count; });
  const auto within = std::ranges::count_if(
      rows.counts, [](const PublishedCount& one) { return !one.same_count && one.within(); });
  EXPECT_EQ(scored, 22);
  EXPECT_EQ(within, 2);
}

// Is a row that no data file names read by its set-up alone? 10 nodes for 100 days at 0.01 a day
// fail 10 times; 12 are within 6.2 to 21.0. Without a time there is no prediction.
TEST(PublishedCounts, OfAnUnknownRowAreReadFromItsSetUp) {
  nlohmann::ordered_json row{
      {"id", "mine"},
      {"setup", {{"nodes", 10}, {"days", 100}, {"failures", 12}, {"rate_per_node_day", 0.01}}},
      {"measured", nlohmann::ordered_json::object()}};
  std::vector<PublishedCount> rows;
  EXPECT_EQ(predict_counts(row, rows), "");
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_NEAR(rows[0].predicted, 10, 1e-12);
  EXPECT_TRUE(rows[0].within());
  EXPECT_NEAR(rows[0].interval.lower, 6.2, 0.05);
  row["setup"].erase("days");
  EXPECT_EQ(predict_counts(row, rows), "the nodes or the time of its count are not stated");
  row["setup"].erase("failures");
  EXPECT_EQ(predict_counts(row, rows), "it has no count");
}

// Are figures that cannot be refused, and rows without figures left out?
TEST(PublishedCounts, ThatCannotBeAreNotPredicted) {
  int cases = 0;
  for (const auto& [nodes, days, failures] : std::vector<std::tuple<double, double, int>>{
           {10, 10, -4}, {0, 10, 4}, {10, 0, 4}, {1e12, 1, 4}}) {
    std::vector<PublishedCount> rows;
    const nlohmann::ordered_json row{
        {"setup", {{"nodes", nodes}, {"days", days}, {"failures", failures}}},
        {"measured", nlohmann::ordered_json::object()}};
    EXPECT_EQ(predict_counts(row, rows), "its count, nodes or time cannot be");
    EXPECT_TRUE(rows.empty());
    ++cases;
  }
  EXPECT_EQ(cases, 4);
  const TemporaryFolder folder;
  const std::string file =
      folder.write("rows.json", R"([{"id": "mine", "topic": "ETTR", "setup": {}}])");
  const GoodputRows rows = validate_goodput(file, every);
  ASSERT_EQ(rows.left_out.size(), 1U);
  EXPECT_EQ(rows.left_out[0].second, "its set-up or its figures are absent");
}

const PeerFigure& figure_of(const GoodputRows& rows, std::string_view peer, std::string_view name) {
  const auto found = std::ranges::find(rows.peers, peer, &PeerCase::name);
  if (found == rows.peers.end()) throw std::out_of_range(std::string(peer));
  const auto figure = std::ranges::find(found->figures, name, &PeerFigure::name);
  if (figure == found->figures.end()) throw std::out_of_range(std::string(name));
  return *figure;
}

// Do the cases of other simulators run, and do theirs agree with ours where the row has a figure?
// Varuna's shares are its inputs; the exact renewal equation gives 0.608 for them, and so do we.
TEST(Peers, RunBesideOurs) {
  const GoodputRows& rows = rows_of_tree();
  ASSERT_EQ(rows.peers.size(), 7U);
  const PeerFigure& spare = figure_of(rows, "SPARe, 200 groups, r = 9", "share of time up");
  EXPECT_EQ(spare.published, 0.87);
  EXPECT_NEAR(spare.ours.mean, *spare.published, 0.03);
  const PeerFigure& more = figure_of(rows, "SPARe, 1000 groups, r = 9", "share of time up");
  EXPECT_NEAR(more.ours.mean, *more.published, 0.01);
  const PeerFigure& oobleck = figure_of(rows, "Oobleck", "productive share");
  EXPECT_NEAR(oobleck.ours.mean, *oobleck.published, 0.002);
  const PeerFigure& varuna = figure_of(rows, "Varuna in Oobleck's simulator", "productive share");
  const double exact =
      reliability::efficiency({.interval = 418, .write = 18.92, .restart = 40.22, .mtbf = 600});
  EXPECT_NEAR(varuna.ours.mean, exact, 2 * varuna.ours.half_width);
  EXPECT_NEAR(varuna.ours.mean - *varuna.published, 0.06, 0.02);
}

// Do AIReSim's servers fail as often as its note says, until repairs cure the bad ones? The fleet
// fails 71.68 times a day at first. Of 4360 servers 654 are bad, fail 0.06 times a day while they
// are at work, for 4096/4360 of the time, and are cured with 0.76: their number falls with
// e^(-0.0428 t). The others fail 0.01 times a day.
TEST(Peers, FailAsOftenAsAiresimSays) {
  EXPECT_NEAR(reliability::fleet_failure_rate(4096, 0.01, 0.15, 5), 71.68, 1e-9);
  const GoodputRows& rows = rows_of_tree();
  const PeerFigure& first = figure_of(rows, "AIReSim, default", "failures a day at first");
  EXPECT_EQ(first.published, 71.68);
  EXPECT_NEAR(first.ours.mean, 71.68, 1e-9);
  const double days = figure_of(rows, "AIReSim, default", "days until done").ours.mean;
  const double at_work = 4096.0 / 4360;
  const double bad_days =
      654 * at_work * -std::expm1(-0.06 * 0.76 * at_work * days) / (0.06 * 0.76 * at_work);
  const double expected = 0.01 * 4096 + 0.05 * bad_days / days;
  EXPECT_NEAR(figure_of(rows, "AIReSim, default", "failures a day").ours.mean, expected,
              0.02 * expected);
}

const EnergyRow& energy_of(const GoodputRows& rows, std::string_view id) {
  const auto row = std::ranges::find(rows.energy, id, &EnergyRow::id);
  if (row == rows.energy.end()) throw std::out_of_range(std::string(id));
  return *row;
}

// BLOOM's card multiplies GPU-hours by 400 W: 1 082 990 h x 0.4 kW = 433.196 MWh, to the digit.
// GPT-3 is predicted with constants that no language model calibrates; its power is 4 % too low.
TEST(PublishedGoodput, EnergyIsThatOfTheCardsAndNearThatOfTheLogs) {
  const GoodputRows& rows = rows_of_tree();
  ASSERT_GE(rows.energy.size(), 5U);
  const EnergyRow& bloom = energy_of(rows, "bloom-energy");
  EXPECT_EQ(bloom.purpose, "bookkeeping");
  EXPECT_NEAR(bloom.predicted, 433.196, 1e-9);
  EXPECT_EQ(energy_of(rows, "mlperf40-bert-1").purpose, "calibrates");
  int judged = 0;
  for (const EnergyRow& row : rows.energy) {
    if (row.id != "mlperf40-gpt3-64") continue;
    EXPECT_EQ(row.purpose, "judges");
    EXPECT_LT(std::abs(row.error), 0.06) << row.figure;
    EXPECT_NEAR(row.error, row.predicted / row.published - 1, 1e-12);
    ++judged;
  }
  EXPECT_EQ(judged, 2);
}

TEST(PublishedGoodput, OfTheWholeDataSetIsPredictedWhereTheSetUpSuffices) {
  const fs::path file = kTree / "../shared/measured/goodput/goodput.json";
  if (!fs::exists(file))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: the whole data set is not at " << file;
  const GoodputRows rows = validate_goodput(file, every);
  EXPECT_GE(rows.rows.size(), 7U);
  EXPECT_EQ(rows.plans.size(), 23U);
  EXPECT_GT(rows.left_out.size(), 70U);
}

}  // namespace
}  // namespace trainyard
