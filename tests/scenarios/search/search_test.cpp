// Are the bounds below what is simulated, and does pruning by them lose nothing?
#include "scenarios/search/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scenarios/run/run.hpp"
#include "scenarios/search/report.hpp"
#include "sim/base/error.hpp"
#include "sim/report/stage_memory.hpp"

namespace trainyard {
namespace {

std::string scenario(const std::string& name) {
  return TRAINYARD_SOURCE_DIRECTORY "/scenarios/" + name;
}

class Bounds : public testing::TestWithParam<const char*> {};

TEST_P(Bounds, AreBelowTheSimulation) {
  const Scenario s = load_scenario(scenario(GetParam()), {});
  const LayoutBound bound = Bounder(s).bound(s.plan);
  const auto run = run_scenario(s, {});
  const double step_s = run.timeline.makespan_s;
  const auto stages = stage_memory(run.view());
  const auto peak = static_cast<double>(worst_stage(stages)->peak.bytes);
  EXPECT_LE(bound.step_time_s, step_s * (1.0 + 1e-9));
  EXPECT_LE(bound.peak_bytes, peak * (1.0 + 1e-9));
  EXPECT_GT(bound.step_time_s, 0.5 * step_s) << "a bound that says nothing prunes nothing";
  EXPECT_GT(bound.peak_bytes, 0.5 * peak);
}

INSTANTIATE_TEST_SUITE_P(
    Shipped, Bounds,
    testing::Values("first/two_gpus.json", "llama3/llama3_8b_8xh100.json",
                    "llama3/llama3_70b_64xh100.json", "megatron/gpt3_175b_64xa100_full.json",
                    "megatron/gpt3_175b_64xa100_selective.json",
                    "megatron/gpt_22b_8xa100_selective.json", "megatron/gpt_7p5b_128xa100.json",
                    "fsdp/llama3_8b_8xh100_fsdp.json", "fsdp/llama3_8b_128xh100_hsdp.json",
                    "replicas/gpt2_124m_8xa100_ddp.json", "what_if/all_reduce.json",
                    "what_if/dead_rail.json", "context/ring_llama3_8b_128k_32xh100.json"));

// A small space whose every layout is simulated as well.
SearchSpace of_four_layers() {
  SearchSpace space{
      .scenario = {.file = scenario("what_if/tensor.json")},
      .over = {axis_of({"parallelism.tensor=2,8"}), axis_of({"parallelism.pipeline=1,2"}),
               axis_of({"training.micro_batch_size=1,2"})}};
  space.scenario.changes = {
      {"training.global_batch_size", "16"},
      {"model",
       R"({"name": "small", "layers": 4, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
           "vocab": 128256, "max_positions": 8192, "source": "of our own"})"}};
  return space;
}

SearchResult searched(bool exhaustive, std::size_t processes) {
  Journal journal("");
  return search({.space = of_four_layers(),
                 .journal = journal,
                 .top = 5,
                 .exhaustive = exhaustive,
                 .processes = processes});
}

const SearchResult& found() {
  static const SearchResult kFound = searched(false, 2);
  return kFound;
}

std::vector<std::string> names(const std::vector<FoundLayout>& layouts) {
  std::vector<std::string> all;
  for (const FoundLayout& one : layouts) all.push_back(layout_name(one.layout));
  return all;
}

TEST(Search, PruningLosesNeitherTheBestNorTheFront) {
  const SearchResult all = searched(true, 2);
  const SearchResult& pruned = found();
  EXPECT_EQ(names(pruned.best), names(all.best));
  EXPECT_EQ(names(pruned.front), names(all.front));
  EXPECT_EQ(all.counts.simulated, all.counts.legal - all.counts.refused);
  EXPECT_LT(pruned.counts.simulated, all.counts.simulated) << "nothing was pruned";
  EXPECT_EQ(pruned.counts.simulated + pruned.counts.too_slow + pruned.counts.too_large +
                pruned.counts.refused,
            pruned.counts.legal);
}

TEST(Search, IsTheSameOnAnyNumberOfCores) {
  const std::string one = search_text(searched(false, 1), {});
  EXPECT_EQ(one, search_text(found(), {}));
  EXPECT_THAT(one, testing::HasSubstr("Pareto front"));
}

TEST(Search, EveryBoundHolds) {
  for (const FoundLayout& one : found().best) {
    EXPECT_LE(one.bound.step_time_s, one.figures.step_time_s) << layout_name(one.layout);
    EXPECT_LE(one.bound.peak_bytes, one.figures.peak_bytes) << layout_name(one.layout);
  }
}

TEST(Search, CostPerToken) {
  SearchResult result;
  result.gpus = 512.0;
  result.tokens_per_step = 1024.0 * 8192.0;
  // 512 GPUs at 2 for 15.6 s are 4.4373; for 8.388608 million tokens 0.52897 a million.
  EXPECT_NEAR(cost_per_million_tokens(2.0, result, 15.6), 0.528971, 1e-6);
}

TEST(Search, WhatIsNoPartOfALayoutIsRefused) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"cluster.nodes=2,4"}));
  EXPECT_THROW((void)enumerate(space), InputError);
}

// The groups within which sharded weights are gathered again have no meaning at stage 1.
TEST(Search, WhyALayoutIsRefusedIsSaid) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=4"}),        axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
                axis_of({"parallelism.reshard_group=2"}), axis_of({"parallelism.zero_stage=1,3"})};
  Journal journal("");
  const SearchResult result = search({.space = space, .journal = journal, .processes = 2});
  EXPECT_EQ(result.counts.refused, 1U);
  EXPECT_EQ(result.best.size(), 1U);
  ASSERT_TRUE(result.refused_first);
  const std::string& message = result.refused_first->message;
  EXPECT_EQ(result.refused_first->layout.plan.parallelism.zero_stage, 1);
  EXPECT_THAT(message, testing::HasSubstr("/parallelism/reshard_group: has no meaning"));
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("The first refused, TP 4, PP 1"));
  EXPECT_EQ(search_json(result, {})["refused_first"]["message"], message);
}

TEST(Search, WhyNothingIsALayoutIsSaid) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"parallelism.reshard_group=2"}));
  space.over.push_back(axis_of({"parallelism.zero_stage=1"}));
  try {
    (void)enumerate(space);
    FAIL() << "weights that are not sharded are gathered in no group";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/parallelism/reshard_group: has no meaning"));
  }
}

TEST(Search, LayoutsThatAreAllRefusedAreNotSaidToBeTooLarge) {
  SearchResult result;
  result.counts = {.looked_at = 3, .legal = 2, .refused = 2};
  EXPECT_THAT(search_text(result, {}), testing::StartsWith("Every layout is refused.\n"));
}

TEST(Search, AModelSplitByHandLeavesNothingToLookFor) {
  const SearchSpace space{
      .scenario = {.file = scenario("unequal/gpt_3p6b_a100_l40s_operators.json")}};
  EXPECT_THROW((void)enumerate(space), InputError);
}

TEST(Search, GpusOfSeveralKindsInANodeHaveNoProvenBound) {
  const SearchSpace space{.scenario = {.file = scenario("unequal/gpt_3p6b_a100_l40s.json")}};
  EXPECT_THROW((void)enumerate(space), InputError);
}

TEST(Search, OtherFieldsMakeFamiliesOfLayouts) {
  SearchSpace space = of_four_layers();
  const std::size_t alone = enumerate(space).legal.size();
  space.over.push_back(axis_of({"collectives.data.all_gather=ring,nccl"}));
  const std::vector<Layout> both = enumerate(space).legal;
  EXPECT_EQ(both.size(), 2 * alone);
  std::set<std::string> names;
  for (const Layout& layout : both) names.insert(layout_name(layout));
  EXPECT_EQ(names.size(), both.size()) << "every layout has a name of its own";
  EXPECT_THAT(*names.begin(), testing::HasSubstr(", data.all_gather="));
}

TEST(Search, NamesTellUnusualSchedules) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=4"}),           axis_of({"parallelism.pipeline=2"}),
                axis_of({"training.micro_batch_size=1"}),    axis_of({"training.recompute=none"}),
                axis_of({"parallelism.interleave=1"}),       axis_of({"parallelism.zero_stage=1"}),
                axis_of({"parallelism.schedule=1f1b,zb_h1"})};
  const std::vector<Layout> legal = enumerate(space).legal;
  ASSERT_EQ(legal.size(), 2U);
  EXPECT_EQ(layout_name(legal[0]), "TP 4, PP 2, DP 2, mbs 1, recompute none, ZeRO 1");
  EXPECT_EQ(layout_name(legal[1]), "TP 4, PP 2 zb_h1, DP 2, mbs 1, recompute none, ZeRO 1");
}

TEST(Search, NamesTellExpertRanks) {
  const SearchSpace space{
      .scenario = {.file = scenario("moe/mixtral_8x7b_64xh100.json")},
      .over = {axis_of({"parallelism.expert=1,8"}), axis_of({"parallelism.tensor=1"}),
               axis_of({"parallelism.pipeline=1"}), axis_of({"training.micro_batch_size=1"}),
               axis_of({"training.recompute=none"}), axis_of({"parallelism.zero_stage=1"})}};
  const std::vector<Layout> legal = enumerate(space).legal;
  ASSERT_EQ(legal.size(), 2U);
  EXPECT_EQ(layout_name(legal[0]), "TP 1, PP 1, DP 64, mbs 1, recompute none, ZeRO 1");
  EXPECT_EQ(layout_name(legal[1]), "TP 1, PP 1, EP 8, DP 64, mbs 1, recompute none, ZeRO 1");
}

}  // namespace
}  // namespace trainyard
