// Are the bounds below the simulated values, and does pruning by them lose nothing?
#include "tools/studies/search/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/report/stage_summary.hpp"
#include "tests/tools/studies/search/small_search.hpp"
#include "tools/studies/search/report.hpp"

namespace trainyard {
namespace {

using test::found;
using test::names;
using test::of_four_layers;
using test::scenario;
using test::searched;

struct Bounded {
  const char* name;
  std::vector<Override> changes = {};
  double least_share = 0.5;  // of the step: a bound that is too small prunes nothing
};

std::ostream& operator<<(std::ostream& out, const Bounded& bounded) {
  out << bounded.name;
  for (const Override& change : bounded.changes) out << " " << change.value;
  return out;
}

class Bounds : public testing::TestWithParam<Bounded> {};

// Are the bounds below the simulation?
TEST_P(Bounds, AreBelowTheSimulation) {
  const Scenario s = load_scenario(scenario(GetParam().name), GetParam().changes);
  const LayoutBound bound = Bounder(s).bound(s.plan);
  const auto run = simulate(s, {});
  const double step_s = run.timeline.makespan_s;
  const auto stages = stage_memory(run.view());
  const auto peak = static_cast<double>(worst_stage(stages)->peak.bytes);
  EXPECT_LE(bound.step_time_s, step_s * (1.0 + 1e-9));
  EXPECT_LE(bound.peak_bytes, peak * (1.0 + 1e-9));
  EXPECT_GT(bound.step_time_s, GetParam().least_share * step_s);
  EXPECT_GT(bound.peak_bytes, 0.5 * peak);
}

INSTANTIATE_TEST_SUITE_P(
    Shipped, Bounds,
    testing::Values(
        Bounded{"first/two_gpus.json"}, Bounded{"llama3/llama3_8b_8xh100.json"},
        Bounded{"llama3/llama3_70b_64xh100.json"}, Bounded{"megatron/gpt3_175b_64xa100_full.json"},
        Bounded{"megatron/gpt3_175b_64xa100_selective.json"},
        Bounded{"megatron/gpt_22b_8xa100_selective.json"},
        Bounded{"megatron/gpt_7p5b_128xa100.json"}, Bounded{"fsdp/llama3_8b_8xh100_fsdp.json"},
        Bounded{"fsdp/llama3_8b_128xh100_hsdp.json"}, Bounded{"replicas/gpt2_124m_8xa100_ddp.json"},
        Bounded{"adapters/llama3_8b_8xh100_frozen.json"},
        // Frozen layers before all trained ones have no backward.
        Bounded{"adapters/llama3_8b_8xh100_frozen.json",
                {{.path = "parallelism.pipeline", .value = "4"},
                 {.path = "parallelism.data", .value = "2"}}},
        Bounded{"llama3/llama3_70b_64xh100.json",
                {{.path = "training.attention", .value = "memory_efficient"},
                 {.path = "training.recompute", .value = "full"},
                 {.path = "training.recompute_method", .value = "layers"},
                 {.path = "training.recompute_layers", .value = "[0, 1, 2, 50]"}}},
        // Whole gradients of layer after layer, each of which is freed once it is reduced.
        Bounded{"fsdp/llama3_70b_128xh100_maxtext.json"}, Bounded{"what_if/all_reduce.json"},
        Bounded{"what_if/dead_rail.json"}, Bounded{"context/ring_llama3_8b_128k_32xh100.json"},
        // Stages with unequal numbers of tensor ranks, on equal GPUs.
        Bounded{"unequal/llama3_8b_tensor_8_a100_4_h100.json",
                {{.path = "cluster.others", .value = "null"}}},
        Bounded{"unequal/llama3_8b_tensor_8_a100_4_h100.json",
                {{.path = "cluster.others", .value = "null"},
                 {.path = "parallelism.tensor_per_stage", .value = "[4,8]"},
                 {.path = "parallelism.sequence_parallel", .value = "false"}}},
        // The bound counts the least loaded expert.
        Bounded{"moe/mixtral_8x7b_64xh100.json"},
        Bounded{"moe/mixtral_8x7b_64xh100_zipf.json", {}, 0.35},
        // Only half of the combinations of context rank and EP rank occur.
        Bounded{"moe/mixtral_8x7b_64xh100_zipf.json",
                {{.path = "parallelism.context", .value = "2"},
                 {.path = "parallelism.data", .value = "8"}},
                0.3}));

Bounded with_schedule(const char* scenario, const char* schedule, const char* chunks) {
  return {scenario, {{"parallelism.schedule", schedule}, {"parallelism.interleave", chunks}}};
}

// These schedules cover each kind of step order: split backwards, two directions, blocks of two
// steps, with and without experts whose dispatch can be hidden.
INSTANTIATE_TEST_SUITE_P(
    Schedules, Bounds,
    testing::Values(with_schedule("llama3/llama3_70b_64xh100.json", "gpipe", "1"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "zb_h1", "1"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "zb_h2", "1"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "zb_auto", "1"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "zb_v", "2"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "v_half", "2"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "v_min", "2"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "dualpipe", "2"),
                    with_schedule("llama3/llama3_70b_64xh100.json", "dualpipe_v", "2"),
                    with_schedule("moe/mixtral_8x7b_64xh100.json", "zb_v", "2"),
                    with_schedule("moe/mixtral_8x7b_64xh100.json", "dualpipe", "2"),
                    with_schedule("moe/mixtral_8x7b_64xh100.json", "dualpipe_v", "2")));

// The same space for a model with experts, over EP sizes and every schedule.
SearchSpace of_experts() {
  SearchSpace space{
      .scenario = {.file = scenario("moe/mixtral_8x7b_64xh100.json")},
      .over = {axis_of({"parallelism.tensor=1,2"}), axis_of({"parallelism.pipeline=1,2"}),
               axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
               axis_of({"parallelism.zero_stage=0,1"}), axis_of({"parallelism.expert=1,4,8"})}};
  space.scenario.changes = {
      {"training.global_batch_size", "32"},
      {"cluster.nodes", "1"},
      {"parallelism.pipeline", "1"},
      {"parallelism.interleave", "1"},
      {"parallelism.schedule", "1f1b"},
      {"parallelism.data", "8"},
      {"model",
       R"({"name": "small", "layers": 4, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 4096,
           "experts": 8, "experts_per_token": 2, "expert_ffn": 4096,
           "vocab": 32000, "max_positions": 32768, "source": "of our own"})"}};
  return space;
}

void expect_nothing_lost(const SearchResult& pruned, const SearchResult& all) {
  EXPECT_EQ(names(pruned.best), names(all.best));
  EXPECT_EQ(names(pruned.front), names(all.front));
  EXPECT_EQ(all.counts.simulated, all.counts.legal - all.counts.refused);
  EXPECT_LT(pruned.counts.simulated, all.counts.simulated) << "nothing was pruned";
  EXPECT_EQ(pruned.counts.simulated + pruned.counts.too_slow + pruned.counts.too_large +
                pruned.counts.refused,
            pruned.counts.legal);
}

// Does pruning lose neither the best layout nor the front?
TEST(Search, PruningLosesNeitherTheBestNorTheFront) {
  expect_nothing_lost(found(), searched(of_four_layers(), true, 2));
}

// Does a search without the front find the same best layouts with fewer simulations?
TEST(Search, WithoutTheFrontTheBestAreTheSame) {
  Journal journal("");
  const SearchResult alone = search(
      {.space = of_four_layers(), .journal = journal, .top = 5, .front = false, .processes = 2});
  EXPECT_EQ(names(alone.best), names(found().best));
  EXPECT_TRUE(alone.front.empty());
  EXPECT_LT(alone.counts.simulated, found().counts.simulated);
}

// Does pruning lose nothing among experts and schedules?
TEST(Search, PruningLosesNothingAmongExpertsAndSchedules) {
  const SearchResult pruned = searched(of_experts(), false, 2);
  expect_nothing_lost(pruned, searched(of_experts(), true, 2));
  EXPECT_EQ(pruned.counts.refused, 0U);
}

// Does the search try every kind of size by default? Without values from the user, it tries context
// and EP sizes and every kind of schedule.
TEST(Search, TriesEveryKindOfSizeByItself) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"})};
  space.scenario.changes.push_back({"training.sequence_length", "16384"});
  std::set<std::string> schedules;
  std::set<std::int64_t> contexts;
  for (const Layout& layout : enumerate(space).legal) {
    schedules.insert(layout.plan.parallelism.schedule);
    contexts.insert(layout.plan.parallelism.context);
  }
  EXPECT_EQ(schedules, (std::set<std::string>{"1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v",
                                              "v_half", "v_min", "dualpipe", "dualpipe_v"}));
  EXPECT_EQ(contexts, (std::set<std::int64_t>{1, 2})) << "16 384 tokens, 8 192 a rank at least";
  space = of_experts();
  space.over = {axis_of({"parallelism.tensor=2"}), axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
                axis_of({"parallelism.zero_stage=1"})};
  std::vector<std::string> found;
  for (const Layout& layout : enumerate(space).legal) found.push_back(layout_name(layout));
  EXPECT_THAT(found, testing::UnorderedElementsAre(
                         "TP 2, PP 1, ETP 1, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, ETP 2, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, EP 2, ETP 1, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, EP 2, ETP 2, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, EP 4, ETP 1, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, EP 4, ETP 2, DP 4, mbs 1, recompute none, ZeRO 1",
                         "TP 2, PP 1, EP 8, ETP 1, DP 4, mbs 1, recompute none, ZeRO 1"));
}

// Does the search try other algorithms for the best layout? The step waits for the all_reduce of
// gradients over one NIC per eight GPUs. It takes less time if the gradients are reduced within the
// nodes first, or sent straight to their owner within a node.
TEST(Search, OtherAlgorithmsOfTheBestAreTried) {
  const SearchSpace space{
      .scenario = {.file = scenario("what_if/all_reduce.json")},
      .over = {axis_of({"parallelism.tensor=4"}), axis_of({"parallelism.pipeline=1"}),
               axis_of({"parallelism.context=1"}), axis_of({"training.micro_batch_size=1"}),
               axis_of({"training.recompute=none"}), axis_of({"parallelism.zero_stage=1"})}};
  Journal journal("");
  const SearchResult result =
      search({.space = space, .journal = journal, .top = 20, .refine = true, .processes = 2});
  ASSERT_EQ(result.best.size(), 1U);
  ASSERT_TRUE(result.refined);
  const RefinedLayouts& refined = *result.refined;
  EXPECT_EQ(refined.changes, refined.refused + refined.cannot_gain + refined.simulated);
  ASSERT_GE(refined.best.size(), 3U);
  for (const FoundLayout& found : refined.best) {
    EXPECT_LT(found.figures.step_time_s, result.best.front().figures.step_time_s);
    EXPECT_LE(found.bound.step_time_s, found.figures.step_time_s);
  }
  const std::string first = layout_name(refined.best.front().layout);
  EXPECT_THAT(first, testing::HasSubstr("ZeRO 1, data=hierarchical, tensor=direct"))
      << "both kinds of changes together are the quickest";
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("collectives.data.all_gather="));
  EXPECT_EQ(search_json(result, {})["refined"]["simulated"], refined.simulated);
  EXPECT_THAT(search_csv(result, {}), testing::HasSubstr("\nrefined,1,"));
}

// Is the result the same on any number of cores?
TEST(Search, IsTheSameOnAnyNumberOfCores) {
  const std::string one = search_text(searched(of_four_layers(), false, 1), {});
  EXPECT_EQ(one, search_text(found(), {}));
  EXPECT_THAT(one, testing::HasSubstr("Pareto front"));
}

// Does every bound hold?
TEST(Search, EveryBoundHolds) {
  EXPECT_FALSE(found().best.empty());
  for (const FoundLayout& one : found().best) {
    EXPECT_LE(one.bound.step_time_s, one.figures.step_time_s) << layout_name(one.layout);
    EXPECT_LE(one.bound.peak_bytes, one.figures.peak_bytes) << layout_name(one.layout);
  }
}

// Is the cost per token correct?
TEST(Search, CostPerToken) {
  SearchResult result;
  result.gpus = 512.0;
  FoundLayout found;
  found.figures.step_time_s = 15.6;
  found.layout.plan.training.global_batch_size = 1024;
  found.layout.plan.training.sequence_length = 8192;
  // 512 GPUs at 2 for 15.6 s are 4.4373; for 8.388608 million tokens 0.52897 a million.
  EXPECT_NEAR(cost_per_million_tokens(2.0, result, found), 0.528971, 1e-6);
}

// Is a field refused that is no part of a layout?
TEST(Search, WhatIsNoPartOfALayoutIsRefused) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"cluster.nodes=2,4"}));
  EXPECT_THROW((void)enumerate(space), InputError);
}

// Does the search report why a layout is refused? The groups within which sharded weights are
// gathered for the backward have no meaning at stage 1.
TEST(Search, WhyALayoutIsRefusedIsSaid) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=4"}),        axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
                axis_of({"parallelism.reshard_group=2"}), axis_of({"parallelism.zero_stage=1,3"}),
                axis_of({"parallelism.context=1"})};
  Journal journal("");
  const SearchResult result = search({.space = space, .journal = journal, .processes = 2});
  EXPECT_EQ(result.counts.refused, 1U);
  EXPECT_EQ(result.best.size(), 1U);
  ASSERT_TRUE(result.refused_first);
  const std::string& message = result.refused_first->message;
  EXPECT_EQ(result.refused_first->layout.plan.parallelism.zero_stage, 1);
  EXPECT_THAT(message, testing::HasSubstr("/parallelism/reshard_group: has no effect"));
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("The first refused, TP 4, PP 1"));
  EXPECT_EQ(search_json(result, {})["refused_first"]["message"], message);
}

// Are replicas refused that do not divide into copies? The layout has copies of four among two
// replicas; its bound once ended the search by a division by zero.
TEST(Search, ReplicasThatDoNotDivideIntoCopiesAreRefused) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=4,8"}),      axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
                axis_of({"parallelism.shard=4"}),         axis_of({"parallelism.zero_stage=1"}),
                axis_of({"parallelism.context=1"})};
  Journal journal("");
  const SearchResult result = search({.space = space, .journal = journal, .processes = 1});
  EXPECT_EQ(result.counts.refused, 1U);
  EXPECT_EQ(result.best.size(), 1U);
  ASSERT_TRUE(result.refused_first);
  EXPECT_THAT(result.refused_first->message,
              testing::HasSubstr("/parallelism/shard: 2 replicas do not divide into copies of 4"));
}

// Are copies of half a set of experts refused?
TEST(Search, CopiesOfHalfASetOfExpertsAreRefused) {
  SearchSpace space = of_experts();
  space.over = {axis_of({"parallelism.tensor=1"}),        axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
                axis_of({"parallelism.zero_stage=1"}),    axis_of({"parallelism.expert=2,4"}),
                axis_of({"parallelism.shard=2"}),         axis_of({"parallelism.context=1"})};
  const SearchResult result = searched(space, false, 1);
  EXPECT_EQ(result.best.size(), 1U);
  ASSERT_TRUE(result.refused_first);
  EXPECT_THAT(result.refused_first->message, testing::HasSubstr("that one set of experts needs"));
}

// Does the search report why there is no layout at all?
TEST(Search, WhyNothingIsALayoutIsSaid) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"parallelism.reshard_group=2"}));
  space.over.push_back(axis_of({"parallelism.zero_stage=1"}));
  try {
    (void)enumerate(space);
    FAIL() << "weights that are not sharded are gathered in no group";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/parallelism/reshard_group: has no effect"));
  }
}

// Are layouts that are all refused not reported as too large?
TEST(Search, LayoutsThatAreAllRefusedAreNotSaidToBeTooLarge) {
  SearchResult result;
  result.counts = {.checked_layouts = 3, .legal = 2, .refused = 2};
  EXPECT_THAT(search_text(result, {}), testing::StartsWith("Every layout is refused.\n"));
}

// Does a model split by hand leave nothing to search?
TEST(Search, AModelSplitByHandLeavesNothingToLookFor) {
  const SearchSpace space{
      .scenario = {.file = scenario("unequal/gpt_3p6b_a100_l40s_operators.json")}};
  EXPECT_THROW((void)enumerate(space), InputError);
}

// Without a proven bound (GPUs of several kinds), is every legal layout simulated, and is that
// said?
TEST(Search, WithoutBoundsEveryLayoutIsSimulated) {
  const SearchSpace space{.scenario = {.file = scenario("unequal/gpt_3p6b_a100_l40s.json"),
                                       .changes = {{"parallelism.layers_per_stage", "null"}}}};
  const SearchResult result = searched(space, false, 2);
  EXPECT_GT(result.counts.legal, 4U);
  EXPECT_EQ(result.counts.simulated + result.counts.refused, result.counts.legal);
  EXPECT_EQ(result.unbounded, "/cluster/node/other_gpus");
  EXPECT_THAT(search_text(result, {}), testing::HasSubstr("/cluster/node/other_gpus"));
}

// Which machines serve which stage: under zb_h2, H100s before A100s are 3 % quicker than the other
// way round. Does the search find that order, and does a run with it take the same time?
TEST(Search, FindsWhichMachinesServeWhichStage) {
  const SearchSpace space{
      .scenario = {.file = scenario("unequal/llama3_8b_8xh100_8xa100.json"),
                   .changes = {{"parallelism.layers_per_stage", "null"},
                               {"parallelism.balance", "auto"},
                               {"cluster.others", R"([{"nodes": [0], "node": "dgx_a100_80gb"}])"}}},
      .over = {axis_of({"parallelism.tensor=8"}), axis_of({"parallelism.pipeline=2"}),
               axis_of({"training.micro_batch_size=1"})}};
  Journal journal("");
  const SearchResult result =
      search({.space = space, .journal = journal, .top = 5, .refine = true, .processes = 2});
  ASSERT_TRUE(result.refined.has_value());
  const std::vector<FoundLayout>& refined = result.refined->best;
  const auto ordered = std::ranges::find_if(refined, [](const FoundLayout& one) {
    return layout_name(one.layout).ends_with(R"(node_order=["dgx_h100","dgx_a100_80gb"])");
  });
  ASSERT_NE(ordered, refined.end());
  const auto as_it_was = std::ranges::find_if(result.best, [&](const FoundLayout& one) {
    return layout_name(ordered->layout).starts_with(layout_name(one.layout) + ", node_order");
  });
  ASSERT_NE(as_it_was, result.best.end());
  EXPECT_LT(ordered->figures.step_time_s, 0.98 * as_it_was->figures.step_time_s);
  EXPECT_THAT(layout_command(*ordered),
              testing::EndsWith(R"( 'parallelism.node_order=["dgx_h100","dgx_a100_80gb"]')"));
  const Scenario again = load_variant(ordered->layout.variant);
  EXPECT_EQ(again.plan.parallelism.placement.front(), 8);
  EXPECT_NEAR(simulate(again, {}).timeline.makespan_s, ordered->figures.step_time_s,
              1e-9 * ordered->figures.step_time_s);
}

// Are stages with unequal numbers of tensor ranks tried? The scenario's own ones are, beside equal
// numbers, and those that are named are in place of both. The reader refuses what they cannot be
// combined with, so that all of them run: no schedule sends activations back, and a run of the
// first takes the time that the search has found.
TEST(Search, TriesUnequalNumbersOfTensorRanks) {
  SearchSpace space{
      .scenario = {.file = scenario("unequal/llama3_8b_tensor_8_a100_4_h100.json"),
                   .changes = {{"training.global_batch_size", "24"},
                               {"parallelism.layers_per_stage", "null"},
                               {"model.layers", "4"}}},
      .over = {axis_of({"parallelism.tensor=4"}), axis_of({"parallelism.pipeline=2"}),
               axis_of({"training.micro_batch_size=1"}), axis_of({"training.recompute=none"}),
               axis_of({"parallelism.zero_stage=0,1"}), axis_of({"parallelism.context=1"})}};
  const auto counts = [&space] {
    std::map<std::string, int> tried;
    for (const Layout& layout : enumerate(space).legal) {
      const std::string name = layout_name(layout);
      ++tried[name.substr(0, name.find(','))];
      EXPECT_NO_THROW((void)load_variant(layout.variant)) << name;
    }
    return tried;
  };
  std::map<std::string, int> tried = counts();
  EXPECT_EQ(tried["TP 4"], 18);
  EXPECT_EQ(tried["TP 8+4"], 8) << "1F1B, interleaved, two zero-bubble schedules; ZeRO 0 and 1";
  EXPECT_EQ(tried.size(), 2U);
  space.over[1] = axis_of({"parallelism.pipeline=1,4"});
  EXPECT_EQ(counts().count("TP 8+4"), 0U) << "it has two stages";
  space.over[1] = axis_of({"parallelism.pipeline=2"});

  space.over.push_back(axis_of({"parallelism.tensor_per_stage=[4,8],[8,2,2],[8,1],[4,4,3,1]"}));
  const SearchResult result = searched(space, true, 2);
  tried = counts();
  EXPECT_EQ(tried["TP 4+8"], 8);
  EXPECT_EQ(tried["TP 8+2+2"], 8);
  EXPECT_EQ(tried.size(), 2U) << "nine ranks do not divide 24 GPUs, nor do 3 ranks divide 32 heads";
  ASSERT_FALSE(result.best.empty());
  const FoundLayout& first = result.best.front();
  EXPECT_THAT(layout_command(first), testing::HasSubstr("'parallelism.tensor_per_stage="));
  EXPECT_NEAR(simulate(load_variant(first.layout.variant), {}).timeline.makespan_s,
              first.figures.step_time_s, 1e-9 * first.figures.step_time_s);

  space.over.back() = axis_of({"parallelism.tensor_per_stage=8"});
  EXPECT_THROW((void)enumerate(space), InputError);
}

// Do other fields make families of layouts?
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

// Does reading the values of other fields end on request? Values not read before the end are
// counted, and those that were read are complete.
TEST(Search, ReadingValuesOfOtherFieldsEndsWhenItIsTold) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"training.global_batch_size=16,32,3,48,64"}));
  std::vector<double> told;
  int asked = 0;
  const Layouts two =
      enumerate(space, {.end = [&] { return ++asked == 2; },
                        .progress = [&](double fraction) { told.push_back(fraction); }});
  EXPECT_EQ(two.further, 5U);
  EXPECT_EQ(two.combinations_not_read, 3U);
  EXPECT_THAT(told, testing::ElementsAre(0.2, 0.4));
  const Layouts all = enumerate(space);
  EXPECT_EQ(all.combinations_not_read, 0U);
  ASSERT_GT(all.legal.size(), two.legal.size());
  for (std::size_t i = 0; i < two.legal.size(); ++i)
    EXPECT_EQ(layout_name(two.legal[i]), layout_name(all.legal[i]));
}

// Does a result that was ended report how many values it did not read?
TEST(Search, AnEndedAnswerSaysHowManyValuesItDidNotRead) {
  SearchSpace space = of_four_layers();
  space.over.push_back(axis_of({"training.global_batch_size=16,32,48,64"}));
  Journal journal("");
  std::vector<std::string> stages;
  const SearchResult result =
      search({.space = space,
              .journal = journal,
              .processes = 1,
              .seconds = 1e-9,
              .progress = [&](const std::string& stage, double) { stages.push_back(stage); }});
  EXPECT_EQ(result.counts.further, 4U);
  EXPECT_EQ(result.counts.combinations_not_read, 3U);
  EXPECT_EQ(stages.front(), "reading");
  std::string text = search_text(result, {});
  std::ranges::replace(text, '\n', ' ');
  EXPECT_THAT(text, testing::HasSubstr("of 4 combinations of values"));
  EXPECT_EQ(search_json(result, {})["counts"]["further_values_not_reached"], 3);
}

// Does a layout of other stages replace the file's split of the layers where a value needs other
// sizes than the file's? A batch of one sequence is a valid scenario without replicas only.
TEST(Search, ValuesThatNeedOtherSizesReplaceTheSplitByHand) {
  SearchSpace space = of_four_layers();
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"tensor", "4"}, {"pipeline", "2"}, {"data", "2"}, {"layers_per_stage", "[3,1]"}})
    space.scenario.changes.push_back({"parallelism." + field, value});
  space.over = {axis_of({"training.global_batch_size=1"}), axis_of({"parallelism.tensor=8"}),
                axis_of({"parallelism.pipeline=1,2"}), axis_of({"parallelism.context=1,2"}),
                axis_of({"training.micro_batch_size=1"})};
  std::set<std::int64_t> stages;
  for (const Layout& layout : enumerate(space).legal) {
    const Scenario read = load_scenario(layout.variant.file, layout.variant.changes);
    stages.insert(read.plan.parallelism.pipeline);
  }
  EXPECT_EQ(stages, (std::set<std::int64_t>{1, 2}));
}

// Do values that need other sizes keep the file's context? A batch of one sequence is a valid
// scenario with two context ranks and not with the one of the file. A layout with two nevertheless
// differs from the file's, and its changes hold that difference.
TEST(Search, ValuesThatNeedOtherSizesKeepTheFilesContext) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=8"}), axis_of({"parallelism.pipeline=1"}),
                axis_of({"training.micro_batch_size=1"}), axis_of({"parallelism.context=1,2"}),
                axis_of({"training.global_batch_size=1"})};
  std::size_t of_two = 0;
  for (const Layout& layout : enumerate(space).legal) {
    if (layout.plan.parallelism.context != 2) continue;
    ++of_two;
    const Scenario read = load_scenario(layout.variant.file, layout.variant.changes);
    EXPECT_EQ(read.plan.parallelism.context, 2);
  }
  EXPECT_GT(of_two, 0U);
}

// The numbers of stages of the legal layouts, each with whether the embedding and the loss count as
// layers there. Every layout is what its changes say.
std::map<std::int64_t, bool> splits_of(const SearchSpace& space) {
  std::map<std::int64_t, bool> splits;
  for (const Layout& layout : enumerate(space).legal) {
    const Parallelism& p = layout.plan.parallelism;
    EXPECT_EQ(p.embedding_in_split, p.loss_in_split);
    splits.emplace(p.pipeline, p.embedding_in_split);
    const Scenario read = load_scenario(layout.variant.file, layout.variant.changes);
    EXPECT_EQ(read.plan.parallelism.embedding_in_split, p.embedding_in_split);
    EXPECT_EQ(read.plan.parallelism.first_stage_layers, p.first_stage_layers);
  }
  return splits;
}

// Do stages that the layers alone do not fill hold the embedding and the loss as layers? 126 layers
// divide over 1, 2, 14 ... stages, and 126 + 2 over 4, 8, 16 ...
TEST(Search, TheEmbeddingAndTheLossFillStagesThatLayersDoNot) {
  SearchSpace space{
      .scenario = {.file = scenario("llama3/llama3_405b_16384xh100.json")},
      .over = {axis_of({"parallelism.tensor=8"}), axis_of({"parallelism.interleave=1"}),
               axis_of({"parallelism.schedule=1f1b"}), axis_of({"training.micro_batch_size=1"}),
               axis_of({"training.recompute=none"})}};
  // The file gives its first and last stage seven layers, which is a split of 16 stages alone.
  EXPECT_EQ(splits_of(space), (std::map<std::int64_t, bool>{{1, false},
                                                            {2, false},
                                                            {4, true},
                                                            {8, true},
                                                            {16, false},
                                                            {32, true},
                                                            {64, true},
                                                            {128, true}}));
  space.scenario.changes = {{"parallelism.first_stage_layers", "null"},
                            {"parallelism.last_stage_layers", "null"},
                            {"parallelism.embedding_in_split", "true"},
                            {"parallelism.loss_in_split", "true"}};
  EXPECT_TRUE(splits_of(space).at(16));
}

// Do names contain unusual schedules?
TEST(Search, NamesTellUnusualSchedules) {
  SearchSpace space = of_four_layers();
  space.over = {axis_of({"parallelism.tensor=4"}),
                axis_of({"parallelism.pipeline=2"}),
                axis_of({"training.micro_batch_size=1"}),
                axis_of({"training.recompute=none"}),
                axis_of({"parallelism.interleave=1"}),
                axis_of({"parallelism.zero_stage=1"}),
                axis_of({"parallelism.schedule=1f1b,zb_h1"}),
                axis_of({"parallelism.context=1"})};
  const std::vector<Layout> legal = enumerate(space).legal;
  ASSERT_EQ(legal.size(), 2U);
  EXPECT_EQ(layout_name(legal[0]), "TP 4, PP 2, DP 2, mbs 1, recompute none, ZeRO 1");
  EXPECT_EQ(layout_name(legal[1]), "TP 4, PP 2 zb_h1, DP 2, mbs 1, recompute none, ZeRO 1");
}

// Do names contain EP sizes?
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
