// Whole runs with recomputation of some layers, and with each attention kernel: time and memory of
// the step depend only on the layers and the kernel.
#include <gtest/gtest.h>

#include <vector>

#include "runs.hpp"

namespace trainyard {
namespace {

// Eight layers on two stages of two chunks: 0, 1, 4, 5 on the first, 2, 3, 6, 7 on the second.
Scenario recomputing(const std::vector<std::int64_t>& layers) {
  auto document =
      small_document({.tensor = 2, .pipeline = 2, .interleave = 2, .data = 2, .microbatches = 8});
  document["defaults"] = "ideal";
  document["training"]["recompute"] = layers.empty() ? "none" : "full";
  document["training"]["recompute_method"] = "layers";
  document["training"]["recompute_layers"] = layers;
  return load(document);
}

std::int64_t held(const ScenarioRun& run) {
  std::int64_t most = 0;
  for (const MemoryPeak& peak : run.memory_peaks) most = std::max(most, peak.bytes);
  return most;
}

// Does each further recomputed layer cost time and save memory?
TEST(RecomputedLayers, CostTimeAndSaveMemoryOneByOne) {
  std::vector<std::int64_t> layers;
  const ScenarioRun none = simulate(recomputing({}), {});
  double before_s = none.timeline.makespan_s;
  std::int64_t before = held(none);
  double flops = none.facts.hardware_flops.value();
  for (const std::int64_t layer : {3, 0, 7, 4, 5, 1, 6, 2}) {
    layers.push_back(layer);
    const ScenarioRun run = simulate(recomputing(layers), {});
    EXPECT_GE(run.timeline.makespan_s, before_s * (1.0 - 1e-12)) << layer;
    EXPECT_LE(held(run), before) << layer;
    EXPECT_GT(run.facts.hardware_flops.value(), flops) << layer;
    before_s = run.timeline.makespan_s;
    before = held(run);
    flops = run.facts.hardware_flops.value();
  }
  EXPECT_LT(before, held(none));
  EXPECT_GT(before_s, none.timeline.makespan_s);
}

// Are folding and contraction exact with recomputed layers? Ranks that recompute different layers
// must not be in one class.
TEST(RecomputedLayers, FoldAndContractAsIfTheyDidNot) {
  for (const std::vector<std::int64_t>& layers :
       {std::vector<std::int64_t>{2}, {0, 5}, {1, 2, 3, 6, 7}}) {
    const Scenario scenario = recomputing(layers);
    const ScenarioRun folded = simulate(scenario, {});
    const ScenarioRun unfolded = simulate(scenario, {.fold = false, .contract = false});
    EXPECT_TRUE(agree(folded.timeline.makespan_s, unfolded.timeline.makespan_s));
    EXPECT_EQ(held(folded), held(unfolded));
    expect_sound(folded);
  }
}

// The FLOPs of the forward of a layer for one token: 2 for each of its parameters, and its core,
// the causal half of scores and weighted sum over 512 keys.
constexpr double kCore = 2.0 * 512 * (512 + 512) / 2;
constexpr double kLayer = 2.0 * (4 * 512 * 512 + 3 * 512 * 2048) + kCore;
constexpr double kTokens = 4 * 8 * 512;

double repeated_per_token(const nlohmann::ordered_json& training) {
  auto document = small_document({.data = 8});
  document["training"].update(training);
  const RunFacts facts = simulate(load(document), {}).facts;
  return (facts.hardware_flops - facts.model_flops).value() / kTokens;
}

// Do FLOPs of recomputation count only where there is a backward? It ends at the first trained
// weight: in the last of eight layers.
TEST(RecomputedLayers, CountWhereTheBackwardReachesThem) {
  nlohmann::ordered_json training{{"recompute", "full"}};
  EXPECT_DOUBLE_EQ(repeated_per_token(training), 8 * kLayer);
  training["frozen_embedding"] = true;
  training["frozen_layers"] = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_DOUBLE_EQ(repeated_per_token(training), kLayer);
  training["recompute"] = "selective";
  EXPECT_DOUBLE_EQ(repeated_per_token(training), kCore);
}

// Do layers before the end of the backward count where others of their group are reached? The
// backward of layers 6 and 7 starts from the input of layer 4.
TEST(RecomputedLayers, CountBelowTheEndOfTheBackwardInItsGroup) {
  const nlohmann::ordered_json training{{"recompute", "full"},
                                        {"recompute_method", "uniform"},
                                        {"recompute_num_layers", 4},
                                        {"frozen_embedding", true},
                                        {"frozen_layers", {0, 1, 2, 3, 4, 5}}};
  EXPECT_DOUBLE_EQ(repeated_per_token(training), 4 * kLayer);
}

// Do the adapters of a recomputed layer count? Their factors take 2 FLOPs for a parameter once
// more; a frozen layer has none.
TEST(RecomputedLayers, CountTheirAdapters) {
  const double adapters = 2.0 * 8 * (4 * (512 + 512) + 3 * (512 + 2048));
  nlohmann::ordered_json training{{"recompute", "full"}, {"lora_rank", 8}};
  EXPECT_DOUBLE_EQ(repeated_per_token(training), 8 * (kLayer + adapters));
  training["frozen_layers"] = {7};
  EXPECT_DOUBLE_EQ(repeated_per_token(training), 8 * kLayer + 7 * adapters);
}

ScenarioRun with_attention(const char* kind, const char* node) {
  auto document = small_document({.data = 8});
  document["cluster"]["node"] = node;
  document["training"]["attention"] = kind;
  return simulate(load(document), {});
}

// Do the attention kernels differ in time, and only the unfused one in memory? Memory-efficient
// kernels keep what flash keeps, and are slower; scores in memory take more.
TEST(AttentionKernels, DifferInTimeAndOnlyUnfusedInMemory) {
  for (const char* node : {"dgx_a100_80gb", "dgx_h100"}) {
    const ScenarioRun flash = with_attention("flash", node);
    const ScenarioRun efficient = with_attention("memory_efficient", node);
    const ScenarioRun unfused = with_attention("unfused", node);
    EXPECT_GT(efficient.timeline.makespan_s, flash.timeline.makespan_s) << node;
    EXPECT_EQ(held(efficient), held(flash)) << node;
    EXPECT_GT(held(unfused), held(flash)) << node;
  }
  EXPECT_THROW(with_attention("memory_efficient", "dgx_b200"), InputError);
}

}  // namespace
}  // namespace trainyard
