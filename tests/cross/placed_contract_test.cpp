// Runs with contracted regions against runs of single operations, with manually placed ranks. Many
// flows then share some of their links, and a difference in the last bit can grow to the fourth
// digit at the end of a step.
//
// Every run is made by a child of a process that has not run anything, so SimGrid's clock begins at
// 0 in each run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "scenarios/simulate/simulate.hpp"
#include "tests/property/dice.hpp"
#include "tests/scenarios/sample.hpp"
#include "tests/scenarios/simulate/runs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;
using test::Dice;

std::string dates(const Scenario& scenario, bool contract) {
  return in_a_child([&] { return bits(simulate(scenario, {.contract = contract}).timeline); });
}

// The largest difference between the dates of the two runs, as a share of the step.
double largest_difference(const std::string& contracted, const std::string& single) {
  const char* a = contracted.c_str();
  const char* b = single.c_str();
  char* end_a = nullptr;
  char* end_b = nullptr;
  double step_s = 0.0;  // the first date is the end of the step
  double largest_s = 0.0;
  std::size_t compared = 0;
  for (;; a = end_a, b = end_b, ++compared) {
    const double date_a = std::strtod(a, &end_a);
    const double date_b = std::strtod(b, &end_b);
    if (end_a == a || end_b == b) break;
    if (compared == 0) step_s = date_a;
    largest_s = std::max(largest_s, std::abs(date_a - date_b));
  }
  EXPECT_GT(compared, 1000U);
  EXPECT_EQ(std::count(a, contracted.c_str() + contracted.size(), '.'),
            std::count(b, single.c_str() + single.size(), '.'));
  return largest_s / step_s;
}

// Ranks in any order on a cluster whose fabric they share.
ordered_json placed(std::uint32_t seed) {
  Dice dice(seed);
  const int tensor = dice.one_of<int>({1, 2, 4});
  const int context = dice.one_of<int>({1, 1, 2});
  const int pipeline = dice.one_of<int>({1, 2, 4});
  std::vector<int> replicas;  // that fill two to five nodes of eight
  for (int data = 2; data <= 20; ++data) {
    const int gpus = tensor * context * pipeline * data;
    if (gpus % 8 == 0 && gpus >= 16 && gpus <= 40) replicas.push_back(data);
  }
  const int data = dice.one_of<int>(replicas);
  const int gpus = tensor * context * pipeline * data;
  std::vector<int> placement(static_cast<std::size_t>(gpus));
  std::iota(placement.begin(), placement.end(), 0);
  dice.shuffle(placement);
  ordered_json document = {
      {"model",
       {{"name", "placed"},
        {"layers", 8},
        {"hidden", 1024},
        {"heads", 16},
        {"ffn", 4096},
        {"vocab", 8000},
        {"max_positions", 4096}}},
      {"cluster",
       {{"node", dice.one_of<std::string>({"dgx_a100_80gb", "dgx_h100"})},
        {"nodes", gpus / 8},
        {"fabric", {{"kind", dice.one_of<std::string>({"torus", "single_switch"})}}}}},
      {"parallelism",
       {{"tensor", tensor},
        {"sequence_parallel", tensor > 1 && dice.coin()},
        {"context", context},
        {"pipeline", pipeline},
        {"data", data},
        {"zero_stage", dice.one_of<int>({0, 1, 2})},
        {"schedule", dice.one_of<std::string>({"1f1b", "gpipe", "zb_h1"})},
        {"placement", placement}}},
      {"training",
       {{"sequence_length", 1024},
        {"recompute", dice.one_of<std::string>({"none", "selective", "full"})},
        {"global_batch_size", data * dice.one_of<int>({4, 6})}}}};
  if (dice.coin()) document["collectives"]["data"]["all_reduce"] = "ring";
  return document;
}

class PlacedContract : public testing::TestWithParam<std::uint32_t> {};

// Does a run with contracted regions agree with one of single operations for a random placement?
TEST_P(PlacedContract, IsTheSameRun) {
  const ordered_json document = placed(GetParam());
  const Scenario scenario = load(document);
  EXPECT_LE(largest_difference(dates(scenario, true), dates(scenario, false)), kAgreement)
      << document.dump();
}

// Is the ideal engine a lower bound without interference? With the same kernel times and payloads
// every flow is at least as quick alone as with others.
TEST_P(PlacedContract, WithoutInterferenceTheIdealEngineIsALowerBound) {
  const auto makespan = [](const char* engine) {
    const Scenario scenario =
        load(placed(GetParam()), {{"interference", "false"}, {"engine", engine}});
    return std::stod(
        in_a_child([&] { return fmt::format("{}", simulate(scenario, {}).timeline.makespan_s); }));
  };
  EXPECT_LE(makespan("ideal"), makespan("simgrid") * (1.0 + kAgreement));
}

bool full() { return std::getenv("TRAINYARD_FULL") != nullptr; }

INSTANTIATE_TEST_SUITE_P(Seeds, PlacedContract, testing::Range(0U, full() ? 500U : 24U));

}  // namespace
}  // namespace trainyard
