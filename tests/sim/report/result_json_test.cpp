#include "sim/report/result_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/workload/call.hpp"
#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ::testing::ElementsAre;

std::vector<std::string> keys(const OrderedJson& object) {
  std::vector<std::string> result;
  for (const auto& [key, value] : object.items()) result.push_back(key);
  return result;
}

// Does the result have the stable keys, in order?
TEST(ResultJson, HasTheStableKeysInOrder) {
  const SmallRun small;
  EXPECT_THAT(keys(result_json(small.view())),
              ElementsAre("scenario", "provenance", "fits", "step_time_s", "tokens_per_s",
                          "tokens_per_s_per_gpu", "model_tflops_per_gpu", "hardware_tflops_per_gpu",
                          "mfu", "hfu", "flops_convention", "utilisation", "breakdown_s", "memory",
                          "links", "collectives", "placement", "costs", "fold", "approximations",
                          "published", "interval"));
}

// Do the key figures follow their definitions?
TEST(ResultJson, KeyFiguresFollowTheirDefinitions) {
  const SmallRun small;
  const OrderedJson result = result_json(small.view());
  EXPECT_EQ(result["step_time_s"], 5.0);
  EXPECT_EQ(result["tokens_per_s"], 200.0);
  EXPECT_EQ(result["tokens_per_s_per_gpu"], 100.0);
  EXPECT_DOUBLE_EQ(result["model_tflops_per_gpu"], 5.0);  // 5e13 / 5 s / 2 GPUs
  EXPECT_DOUBLE_EQ(result["hardware_tflops_per_gpu"], 6.5);
  EXPECT_DOUBLE_EQ(result["mfu"], 0.5);
  EXPECT_DOUBLE_EQ(result["hfu"], 0.65);
}

// Does a token budget give the time and the cost of the whole training, and nothing without one?
TEST(ResultJson, TheWholeTrainingFollowsFromTheTokenBudget) {
  SmallRun small;
  EXPECT_FALSE(result_json(small.view()).contains("training"));
  small.facts.token_budget = 864'000'000.0;  // at 200 tokens a second: 50 days
  EXPECT_EQ(result_json(small.view())["training"],
            parse_unchecked_json(
                R"({"tokens": 864000000.0, "days": 50.0, "gpu_hours": 2400.0, "cost": null})"));
  small.facts.gpu_hour_price = 2.5;
  EXPECT_EQ(result_json(small.view())["training"]["cost"], 6000.0);
}

// Does the utilisation name its peak? GEMMs at twice the peak of 16 bits have half the utilisation,
// and the result reports that peak.
TEST(ResultJson, UtilisationNamesItsPeak) {
  SmallRun small;
  EXPECT_EQ(result_json(small.view())["utilisation"].size(), 2U);
  small.facts.peaks.push_back({"fp8", FlopsPerSecond{2e13}});
  const OrderedJson rows = result_json(small.view())["utilisation"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], parse_unchecked_json(R"({"attention": "causal", "peak": "bf16",
      "peak_tflops_per_gpu": 10.0, "mfu": 0.5, "hfu": 0.65})"));
  EXPECT_EQ(rows[1], parse_unchecked_json(R"({"attention": "causal", "peak": "fp8",
      "peak_tflops_per_gpu": 20.0, "mfu": 0.25, "hfu": 0.325})"));
  EXPECT_EQ(rows[2]["attention"], "full");
  EXPECT_DOUBLE_EQ(rows[3]["mfu"], 0.3);
  EXPECT_DOUBLE_EQ(result_json(small.view())["mfu"], 0.5);
}

// Does the result hold the interval of the step with its parts?
TEST(ResultJson, HoldsTheIntervalOfTheStep) {
  SmallRun small;
  EXPECT_TRUE(result_json(small.view())["interval"].is_null());
  small.facts.interval = StepInterval{.step_s = 10.0,
                                      .parts = {{"the host", "nemo", 0.5, 0.04, "a trace"},
                                                {"16-bit GEMMs", "h100", 0.5, 0.03, "a profile"}},
                                      .correlation = 0.5,
                                      .runs = 7,
                                      .sources = 2};
  const OrderedJson interval = result_json(small.view())["interval"];
  EXPECT_DOUBLE_EQ(interval["deviation"], 0.05);
  EXPECT_NEAR(interval["low_s"], 9.2105, 1e-4);
  EXPECT_NEAR(interval["high_s"], 10.8572, 1e-4);
  EXPECT_EQ(interval["probability"], 0.9);
  EXPECT_EQ(interval["runs"], 7);
  ASSERT_EQ(interval["parts"].size(), 2U);
  EXPECT_EQ(interval["parts"][0],
            parse_unchecked_json(R"({"name": "the host", "cause": "nemo", "share": 0.5,
                                   "deviation": 0.04, "remedy": "a trace"})"));
}

// Is every figure null that does not apply?
TEST(ResultJson, FiguresThatDoNotApplyAreNull) {
  SmallRun small;
  small.facts = {};
  small.facts.engine = "ideal";
  const OrderedJson result = result_json(small.view());
  for (const char* key :
       {"scenario", "tokens_per_s", "mfu", "hfu", "model_tflops_per_gpu", "published"}) {
    EXPECT_TRUE(result[key].is_null()) << key;
  }
  EXPECT_TRUE(result["memory"][0]["capacity_bytes"].is_null());
  EXPECT_TRUE(result["memory"][0]["fits"].is_null());
  EXPECT_EQ(result["step_time_s"], 5.0);
}

// Does the breakdown sum to the step?
TEST(ResultJson, BreakdownSumsToTheStep) {
  const SmallRun small;
  const OrderedJson rows = result_json(small.view())["breakdown_s"];
  ASSERT_EQ(rows.size(), 2U);
  for (const OrderedJson& row : rows) {
    double sum = 0.0;
    for (std::size_t share = 0; share < kTimeShares; ++share) {
      sum += row.at(std::string(to_string(static_cast<TimeShare>(share)))).get<double>();
    }
    EXPECT_DOUBLE_EQ(sum, 5.0);
  }
  EXPECT_EQ(rows[0]["compute"], 2.0);
  EXPECT_EQ(rows[0]["waiting"], 2.25);  // of 4.25 - 2: rank 1 is late
  EXPECT_EQ(rows[0]["exposed_data"], 0.5);
  EXPECT_EQ(rows[1]["bubble"], 1.0);
  EXPECT_EQ(rows[1]["exposed_pipeline"], 0.25);
  EXPECT_EQ(rows[1]["compute"], 3.0);
  EXPECT_EQ(rows[1]["optimizer"], 0.25);
}

// Is the memory that of the worst class of each stage?
TEST(ResultJson, MemoryIsTheWorstClassOfEachStage) {
  SmallRun small;
  small.run.workload.programs[1].stage = 0;  // both in one stage: rank 1 holds more
  const OrderedJson rows = result_json(small.view())["memory"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["class"], 1);
  EXPECT_EQ(rows[0]["peak_bytes"], 650);
  EXPECT_EQ(rows[0]["peak_at_s"], 1.25);
  EXPECT_EQ(rows[0]["by_category_bytes"]["weights"], 600);
  EXPECT_EQ(rows[0]["by_category_bytes"]["activations"], 50);
  EXPECT_EQ(rows[0]["fits"], true);
}

// Is a step that does not fit reported as such?
TEST(ResultJson, AStepThatDoesNotFitIsReported) {
  SmallRun small;
  small.facts.gpu_memory = Bytes{640};
  const OrderedJson rows = result_json(small.view())["memory"];
  EXPECT_EQ(rows[0]["fits"], true);  // 500 + 2 * 50 while a message overlaps the next forward
  EXPECT_EQ(rows[0]["peak_bytes"], 600);
  EXPECT_EQ(rows[1]["fits"], false);
}

// Is every capacity but 0 a known one? No stage fits into one byte.
TEST(ResultJson, ACapacityOfOneByteIsKnown) {
  SmallRun small;
  small.facts.gpu_memory = Bytes{1};
  const OrderedJson rows = memory_json(small.view());
  ASSERT_EQ(rows.size(), 2U);
  for (const OrderedJson& row : rows) {
    EXPECT_EQ(row["capacity_bytes"], 1);
    EXPECT_EQ(row["fits"], false);
  }
}

// Are links joined by kind?
TEST(ResultJson, LinksAreJoinedByKind) {
  const SmallRun small;
  const OrderedJson rows = result_json(small.view())["links"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["kind"], "nvlink");
  EXPECT_EQ(rows[0]["links"], 2);
  EXPECT_EQ(rows[0]["bytes"], 2.0 * 1024 + 2.0 * (1 << 20));
  EXPECT_DOUBLE_EQ(rows[0]["busy_fraction"], 0.15);  // (1.0 + 0.5) / 2 of 5 s
  EXPECT_DOUBLE_EQ(rows[0]["busiest_link_busy_fraction"], 0.2);
  EXPECT_EQ(rows[0]["peak_utilisation"], 0.75);
}

// Are collectives counted once per group?
TEST(ResultJson, CollectivesAreCountedOncePerGroup) {
  const SmallRun small;
  const OrderedJson rows = result_json(small.view())["collectives"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["group"], "pipeline");
  EXPECT_EQ(rows[0]["op"], "send_recv");
  EXPECT_EQ(rows[0]["count"], 2);
  EXPECT_EQ(rows[0]["bytes"], 2048.0);
  EXPECT_EQ(rows[0]["mean_bytes"], 1024.0);
  EXPECT_EQ(rows[0]["time_s"], 0.5);
  EXPECT_EQ(rows[1]["op"], "all_reduce");
  EXPECT_EQ(rows[1]["count"], 1);
  EXPECT_DOUBLE_EQ(rows[1]["busbw_bytes_per_s"], (1 << 20) / 0.5);  // 2 (n-1)/n = 1 between two
}

// Do collectives name the algorithm that was selected? The result holds it in addition to the one
// requested; a name alone means both.
TEST(ResultJson, CollectivesSayWhatCarriedThem) {
  SmallRun small;
  small.run.partition.class_of_group.assign(small.run.workload.groups.size(), 0);
  for (std::uint32_t call = 0; call < small.run.workload.calls.size(); ++call)
    if (op_of(small.run.workload.calls[call]) == CollectiveOp::AllReduce)
      small.selected_algorithms[{0, call}] = {.algorithm = "Tree",
                                              .protocol = "LL",
                                              .channels = 2,
                                              .label = "nccl: Tree/LL, 2 channels"};
  const OrderedJson rows = result_json(small.view())["collectives"];
  ASSERT_EQ(rows.size(), 2U);
  const std::string asked = rows[0]["requested"];
  EXPECT_EQ(rows[0]["algorithm"], asked);
  EXPECT_EQ(rows[0]["label"], asked);
  EXPECT_TRUE(rows[0]["protocol"].is_null() && rows[0]["channels"].is_null());
  EXPECT_EQ(rows[1]["algorithm"], "Tree");
  EXPECT_EQ(rows[1]["protocol"], "LL");
  EXPECT_EQ(rows[1]["channels"], 2);
  EXPECT_EQ(rows[1]["label"], "nccl: Tree/LL, 2 channels");
}

// Do folded classes count for all their groups? A class of four ranks has two groups of two, and
// the calls of both groups count.
TEST(ResultJson, FoldedClassesCountForAllTheirGroups) {
  SmallRun small;
  for (RankClass& ranks : small.run.partition.ranks) ranks.members = 2;
  const OrderedJson rows = result_json(small.view())["collectives"];
  EXPECT_EQ(rows[0]["count"], 4);
  EXPECT_EQ(rows[1]["count"], 2);
  EXPECT_DOUBLE_EQ(rows[1]["busbw_bytes_per_s"], (1 << 20) / 0.5);
}

// Is the bus bandwidth that of nccl-tests (oracle 11: 2^30 bytes in 5 ms among 8)?
TEST(ResultJson, BusBandwidthIsThatOfNcclTests) {
  constexpr double kAlgbw = 0x1p30 / 5e-3 / 1e9;
  EXPECT_NEAR(kAlgbw * bus_bandwidth_factor(CollectiveOp::AllReduce, 8), 375.8096384, 1e-9 * 375.8);
  EXPECT_NEAR(kAlgbw * bus_bandwidth_factor(CollectiveOp::AllGather, 8), 187.9048192, 1e-9 * 187.9);
  EXPECT_NEAR(kAlgbw * bus_bandwidth_factor(CollectiveOp::AllToAll, 8), 187.9048192, 1e-9 * 187.9);
  EXPECT_EQ(bus_bandwidth_factor(CollectiveOp::Broadcast, 8), 1.0);
}

// Are the costs shares of busy time?
TEST(ResultJson, CostsAreSharesOfBusyTime) {
  const SmallRun small;
  const OrderedJson costs = result_json(small.view())["costs"];
  EXPECT_DOUBLE_EQ(costs["measured"], 5.0 / 5.5);  // 2 + 3 s of forward, 0.5 s of optimizer
  EXPECT_EQ(costs["interpolated"], 0.0);
  EXPECT_DOUBLE_EQ(costs["extrapolated"], 0.5 / 5.5);
  ASSERT_EQ(costs["worth_measuring"].size(), 1U);
  EXPECT_EQ(costs["worth_measuring"][0]["kernel"], to_text(small.run.workload.kernels[1]));
}

// Does the result hold published figures together with their difference?
TEST(ResultJson, PublishedFiguresStandBesideTheirDifference) {
  const SmallRun small;
  const OrderedJson published = result_json(small.view())["published"];
  EXPECT_EQ(published["source"], "worked by hand");
  EXPECT_DOUBLE_EQ(published["figures"][0]["difference"], 0.25);
}

// Are the approximations named, counted and explained?
TEST(ResultJson, ApproximationsAreNamedCountedAndExplained) {
  const SmallRun small;
  const OrderedJson result = result_json(small.view());
  EXPECT_EQ(result["approximations"]["kernel_extrapolated"]["count"], 2);
  EXPECT_EQ(result["fold"]["classes"], 2);
  EXPECT_EQ(result["fold"]["engine_activities"], 3);
  EXPECT_FALSE(result["provenance"].contains("wall_s"));
}

// Is a result with a value that is not a number refused? JSON would hold null for it, and a reader
// would take a size that has wrapped around for a real size.
TEST(ResultJson, IsNotWrittenWithWhatIsNoNumber) {
  EXPECT_THROW((void)to_text(OrderedJson{{"step_time_s", std::nan("")}}), InternalError);
  EXPECT_THROW((void)to_text(OrderedJson{{"rows", {{{"mfu", HUGE_VAL}}}}}), InternalError);
  EXPECT_THROW((void)to_text(OrderedJson{{"peak_bytes", -2}}), InternalError);
  EXPECT_EQ(to_text(OrderedJson{{"error", -2}}), "{\n  \"error\": -2\n}\n");
  EXPECT_THROW((void)to_line(OrderedJson{{"rows", {{{"step_time_s", NAN}}}}}), InternalError);
  EXPECT_THROW((void)to_line(OrderedJson{{"memory.0.peak_bytes", -2}}), InternalError);
  EXPECT_EQ(to_line(OrderedJson{{"error", -2}}), R"({"error":-2})");
}

// Do numbers read back the same?
TEST(ResultJson, NumbersReadBackTheSame) {
  SmallRun small;
  small.run.timeline.makespan_s = 5.000000000000001;
  const OrderedJson back = parse_unchecked_json(to_text(result_json(small.view())));
  EXPECT_EQ(back["step_time_s"].get<double>(), 5.000000000000001);
  EXPECT_EQ(to_text(back), to_text(result_json(small.view())));
}

}  // namespace
}  // namespace trainyard
