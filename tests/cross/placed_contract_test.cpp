// Is a run in stretches the same run as one of single operations, to the last bit, where ranks are
// placed by hand? There many flows share links in part, and what differs in the last bit at first
// differs in the fourth digit at the end of a step.
//
// Every run is made by a child of a process that has run nothing: SimGrid's clock begins at 0 in
// each of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>

#include "scenarios/run/run.hpp"
#include "tests/scenarios/run/runs.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The makespan and the sum of all dates, which shows every one that differs, with all their bits.
std::string dates(const Scenario& scenario, bool contract) {
  return in_a_child([&] {
    const ScenarioRun run = run_scenario(scenario, {.contract = contract});
    double sum_s = 0.0;
    for (const OpTimes& times : run.timeline.classes)
      for (std::size_t op = 0; op < times.end_s.size(); ++op)
        sum_s += times.ready_s[op] + times.start_s[op] + times.end_s[op];
    return fmt::format("{:a} s, dates {:a}", run.timeline.makespan_s, sum_s);
  });
}

template <class T>
T one_of(std::mt19937& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

// Ranks in any order on a cluster whose fabric they share.
ordered_json placed(std::uint32_t seed) {
  std::mt19937 random(seed);
  const int tensor = one_of<int>(random, {1, 2, 4});
  const int context = one_of<int>(random, {1, 1, 2});
  const int pipeline = one_of<int>(random, {1, 2, 4});
  std::vector<int> replicas;  // that fill two to five nodes of eight
  for (int data = 2; data <= 20; ++data) {
    const int gpus = tensor * context * pipeline * data;
    if (gpus % 8 == 0 && gpus >= 16 && gpus <= 40) replicas.push_back(data);
  }
  const int data = one_of<int>(random, replicas);
  const int gpus = tensor * context * pipeline * data;
  std::vector<int> placement(static_cast<std::size_t>(gpus));
  std::iota(placement.begin(), placement.end(), 0);
  std::shuffle(placement.begin(), placement.end(), random);
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
       {{"node", one_of<std::string>(random, {"dgx_a100_80gb", "dgx_h100"})},
        {"nodes", gpus / 8},
        {"fabric", {{"kind", one_of<std::string>(random, {"torus", "single_switch"})}}}}},
      {"parallelism",
       {{"tensor", tensor},
        {"sequence_parallel", tensor > 1 && random() % 2 == 0},
        {"context", context},
        {"pipeline", pipeline},
        {"data", data},
        {"zero_stage", one_of<int>(random, {0, 1, 2})},
        {"schedule", one_of<std::string>(random, {"1f1b", "gpipe", "zb_h1"})},
        {"placement", placement}}},
      {"training",
       {{"sequence_length", 1024},
        {"recompute", one_of<std::string>(random, {"none", "selective", "full"})},
        {"global_batch_size", data * one_of<int>(random, {4, 6})}}}};
  if (random() % 2 == 0) document["collectives"]["data"]["all_reduce"] = "ring";
  return document;
}

class PlacedContract : public testing::TestWithParam<std::uint32_t> {};

TEST_P(PlacedContract, IsTheSameRunToTheLastBit) {
  const ordered_json document = placed(GetParam());
  const Scenario scenario = load(document);
  EXPECT_EQ(dates(scenario, true), dates(scenario, false)) << document.dump();
}

// Times of kernels and payloads alike, every flow is at least as quick alone as in company.
TEST_P(PlacedContract, WithoutInterferenceTheIdealEngineIsALowerBound) {
  const auto makespan = [](const char* engine) {
    const Scenario scenario =
        load(placed(GetParam()), {{"interference", "false"}, {"engine", engine}});
    return std::stod(in_a_child(
        [&] { return fmt::format("{}", run_scenario(scenario, {}).timeline.makespan_s); }));
  };
  EXPECT_LE(makespan("ideal"), makespan("simgrid") * (1.0 + kAgreement));
}

bool full() { return std::getenv("TRAINYARD_FULL") != nullptr; }

INSTANTIATE_TEST_SUITE_P(Seeds, PlacedContract, testing::Range(0U, full() ? 500U : 24U));

// Scenarios that differed by 2e-8 to 2e-3.
std::vector<std::string> found() {
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(TRAINYARD_SOURCE_DIRECTORY "/tests/cross/placed"))
    files.push_back(file.path().string());
  std::ranges::sort(files);
  return files;
}

class FoundContract : public testing::TestWithParam<std::string> {};

TEST_P(FoundContract, IsTheSameRunToTheLastBit) {
  const Scenario scenario = load_scenario(GetParam(), {});
  EXPECT_EQ(dates(scenario, true), dates(scenario, false));
}

INSTANTIATE_TEST_SUITE_P(Found, FoundContract, testing::ValuesIn(found()),
                         [](const auto& file) { return fs::path(file.param).stem().string(); });

}  // namespace
}  // namespace trainyard
