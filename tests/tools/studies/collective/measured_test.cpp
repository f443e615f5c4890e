// Measured times compared with predicted ones, the picture, and studies that use a profile.
#include "tools/studies/collective/measured.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>

#include "sim/base/error.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "tests/agreement.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

MeasuredRun run_of(std::vector<RunRow> rows) {
  return {.file = "a.log",
          .op = CollectiveOp::AllReduce,
          .ranks = 8,
          .nodes = 1,
          .rows = std::move(rows)};
}

// 1 KiB: 8 us measured, 10 us predicted: +25 %. 2 KiB: 20 us and 18 us: -10 %.
CollectiveStudy predicted() {
  CollectiveStudy study{.ranks = 8, .sizes = {1024, 2048, 4096}};
  study.algorithms = {{.algorithm = "nccl <&>"}};
  for (const double time_us : {10.0, 18.0, 30.0}) {
    const auto bytes = study.sizes[study.algorithms[0].rows.size()];
    study.algorithms[0].rows.push_back({.bytes = bytes,
                                        .time_s = time_us * 1e-6,
                                        .algbw = static_cast<double>(bytes) / time_us * 1e6,
                                        .busbw = static_cast<double>(bytes) / time_us * 1e6});
  }
  return study;
}

MeasuredTimes measured() {
  return measured_times(
      std::vector{run_of({{.bytes = 1024, .dtype = "float", .time_us = 8.0},
                          {.bytes = 1024, .dtype = "float", .time_us = 3.0, .in_place = true},
                          {.bytes = 2048, .dtype = "float", .time_us = 20.0}})},
      CollectiveOp::AllReduce);
}

// Are the errors those of the sizes that were measured?
TEST(Measured, ErrorsAreOfTheSizesThatWereMeasured) {
  const Agreement agreement = agreement_of(predicted().algorithms[0], measured());
  ASSERT_EQ(agreement.errors.size(), 3U);
  EXPECT_NEAR(agreement.errors[0].value(), 0.25, kAgreement);
  EXPECT_NEAR(agreement.errors[1].value(), -0.10, kAgreement);
  EXPECT_FALSE(agreement.errors[2]);
  EXPECT_EQ(agreement.sizes, 2U);
  EXPECT_NEAR(agreement.mape, 0.175, kAgreement);
  EXPECT_NEAR(agreement.bias, 0.075, kAgreement);
}

// Does the bandwidth follow from the time?
TEST(Measured, BandwidthIsOfTheTime) {
  const MeasuredTimes times = measured();
  ASSERT_NE(times.at(1024), nullptr);
  EXPECT_NEAR(times.at(1024)->busbw, 1024 / 8e-6 * 1.75, 1e-3);
  EXPECT_EQ(times.at(1025), nullptr);
}

// Are another collective and mixed shapes refused?
TEST(Measured, RefusesAnotherCollectiveAndMixedShapes) {
  MeasuredRun other = run_of({{.bytes = 1024, .dtype = "float", .time_us = 8.0}});
  EXPECT_THROW((void)measured_times(std::vector{other}, CollectiveOp::AllGather), InputError);
  MeasuredRun larger = other;
  larger.ranks = 16;
  EXPECT_THROW((void)measured_times(std::vector{other, larger}, CollectiveOp::AllReduce),
               InputError);
}

// Do the rows hold the measured times?
TEST(Measured, RowsHaveThemBeside) {
  const MeasuredTimes times = measured();
  const nlohmann::ordered_json rows = study_json(predicted(), &times);
  EXPECT_NEAR(rows[0]["error"].get<double>(), 0.25, kAgreement);
  EXPECT_EQ(rows[0]["measured_time_us"], 8.0);
  EXPECT_TRUE(rows[2]["error"].is_null());
  EXPECT_THAT(study_csv(predicted(), &times), HasSubstr("measured_time_us"));
  EXPECT_FALSE(study_json(predicted())[0].contains("error"));
}

std::size_t count_of(const boost::property_tree::ptree& tree, const std::string& name) {
  std::size_t count = 0;
  for (const auto& [key, child] : tree) count += (key == name ? 1U : 0U) + count_of(child, name);
  return count;
}

boost::property_tree::ptree parsed(const std::string& text) {
  std::istringstream in(text);
  boost::property_tree::ptree tree;
  boost::property_tree::read_xml(in, tree);
  return tree;
}

// Is the SVG well-formed, with a line and its points?
TEST(Svg, IsWellFormedWithALineAndItsPoints) {
  const MeasuredTimes times = measured();
  const std::string text = svg_plot({.title = "a & b", .series = series_of(predicted(), &times)});
  const boost::property_tree::ptree tree = parsed(text);
  EXPECT_EQ(tree.get<std::string>("svg.title"), "a & b");
  // Three predicted and two measured points, and the circle of the legend.
  EXPECT_EQ(count_of(tree, "circle"), 6U);
  EXPECT_THAT(text, HasSubstr("busbw (GB/s)"));
  EXPECT_THAT(text, HasSubstr("nccl &lt;&amp;&gt;"));
  EXPECT_THAT(text, HasSubstr("1KiB"));
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

// Is the SVG well-formed without any point?
TEST(Svg, IsWellFormedWithoutAnyPoint) {
  EXPECT_EQ(count_of(parsed(svg_plot({})), "circle"), 0U);
  CollectiveStudy one = predicted();
  one.algorithms[0].rows.resize(1);
  const std::string text = svg_plot({.title = "one", .series = series_of(one, nullptr)});
  EXPECT_EQ(count_of(parsed(text), "circle"), 1U);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

// Does the study take its times from a profile? With a profile, "nccl" uses the times of the
// profile and reports so.
TEST(Study, TakesItsTimesFromAProfile) {
  MeasuredRun run = run_of({});
  for (std::int64_t bytes = 1024; bytes <= (1 << 28); bytes *= 4)
    run.rows.push_back(
        {.bytes = bytes, .dtype = "float", .time_us = 17.0 + static_cast<double>(bytes) / 150e3});
  const CollectiveProfile profile = make_collective_profile({run}, "");
  const Cluster cluster = build_cluster({.node = load_node("dgx_h100"), .nodes = 1});
  CollectiveQuestion question{.gpus = {0, 1, 2, 3, 4, 5, 6, 7},
                              .algorithms = {"nccl", "ring"},
                              .profile = &profile,
                              .profile_name = "p.json"};
  for (const RunRow& row : run.rows) question.sizes.push_back(row.bytes);
  const CollectiveStudy study = study_collective(cluster, question);
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const CollectiveRow& row = study.algorithms[0].rows[i];
    EXPECT_NEAR(row.time_s, run.rows[i].time_us * 1e-6, kAgreement * row.time_s);
    EXPECT_EQ(row.choice, "profile: p.json");
    EXPECT_FALSE(row.spread);
  }
  EXPECT_EQ(study.algorithms[1].rows[0].choice, "");
}

}  // namespace
}  // namespace trainyard
