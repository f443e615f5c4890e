// The times of kernels on their GPU with the software of the run.
#include "scenarios/simulate/kernel_pricing.hpp"

#include <gtest/gtest.h>

#include "models/architecture/recipe.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

constexpr Gemm kGemm{
    .m = 8192, .n = 8192, .k = 8192, .batch = 1, .dtype = DataType::Fp8, .pass = GemmPass::Forward};

// Do 4-bit GEMMs take the share of the data sheet's rates? 10 over 5 PFLOP/s on a GB200, 15 over 5
// on a GB300; 16-bit GEMMs and all other kernels are unchanged. The framework has no factor for
// 4-bit GEMMs.
TEST(KernelPricing, FourBitProductsTakeTheShareOfTheDataSheetsRates) {
  const auto times = [](const char* gpu, bool four_bit) {
    return KernelPricing(gpu, {.framework = "torchtitan", .four_bit_gemms = four_bit}).times;
  };
  Gemm wide = kGemm;
  wide.dtype = DataType::Bf16;
  const Kernel experts =
      GroupedGemm{.rows = {4096, 4096}, .n = 4096, .k = 4096, .dtype = DataType::Fp8};
  EXPECT_DOUBLE_EQ(times("gb200", true).of(kGemm), times("gb200", false).of(kGemm) / 2.0);
  EXPECT_DOUBLE_EQ(times("gb300", true).of(kGemm), times("gb300", false).of(kGemm) / 3.0);
  EXPECT_DOUBLE_EQ(times("gb200", true).of(experts), times("gb200", false).of(experts) / 2.0);
  EXPECT_DOUBLE_EQ(times("gb200", true).of(wide), times("gb200", false).of(wide));
}

// Are 4-bit GEMMs refused on GPUs that do not support them?
TEST(KernelPricing, RefusesFourBitProductsWhereTheGpuHasNone) {
  try {
    const KernelPricing pricing("h100", {.framework = "megatron", .four_bit_gemms = true});
    FAIL() << "an H100 has no 4-bit GEMMs";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().front().pointer, "/training/recipe");
    EXPECT_NE(error.problems().front().hint.find("fp8_cached"), std::string::npos);
  }
}

// Half of the queries of a rank of two against all keys of the other.
Attention ring_block_of(std::int64_t sequence) {
  return {.batch = 1,
          .query_heads = 8,
          .kv_heads = 1,
          .query_length = sequence / 4,
          .kv_length = sequence / 2,
          .head_dim_qk = 128,
          .head_dim_v = 128,
          .pairs = sequence / 4 * (sequence / 2),
          .causal = false,
          .of_ring = true};
}

// Are the additional memory passes of a long ring block small? They grow with its queries, the
// block with the product of queries and keys.
TEST(KernelPricing, WhatStandsBesideALongBlockOfARingIsSmall) {
  const KernelPricing hopper("h100", {.framework = "megatron"});
  const auto share_of_ring = [&](std::int64_t sequence) {
    const Attention block = ring_block_of(sequence);
    return framework_factor(hopper, block, hopper.gpu.model->cost(block)) - 1.0;
  };
  EXPECT_GT(share_of_ring(8192), 0.2);
  EXPECT_LT(share_of_ring(131072), 0.05);
  EXPECT_GT(share_of_ring(131072), 0.0);
}

// Do replicas wait for the last of them, and only if they synchronise?
TEST(KernelPricing, ReplicasWaitForTheLastOfThem) {
  Scenario scenario;
  const auto last = [&] { return kernel_software(scenario).last_replica; };
  scenario.stragglers = true;
  EXPECT_DOUBLE_EQ(last(), 1.0) << "one waits for nobody";
  scenario.plan.parallelism.data = 64;
  EXPECT_DOUBLE_EQ(last(), load_stragglers().last_of(64));
  EXPECT_DOUBLE_EQ(last_replica({.delay = 0.02}, scenario.plan),
                   Stragglers{.delay = 0.02}.last_of(64));
  scenario.plan.servers = {.servers = 4, .asynchronous = true};
  EXPECT_DOUBLE_EQ(last(), 1.0) << "nobody waits for an asynchronous worker";
  scenario.plan.servers = {.servers = 4};
  EXPECT_GT(last(), 1.0);
  scenario.stragglers = false;
  EXPECT_DOUBLE_EQ(last(), 1.0);
}

// Does a run report the time of waiting for the last replica, or that it was left out?
TEST(KernelPricing, ARunSaysWhetherReplicasKeepPace) {
  const auto says = [](const std::string& replicas, const char* stragglers) {
    const Scenario scenario =
        load_scenario(TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json",
                      {{"parallelism.data", replicas}, {"stragglers", stragglers}});
    std::string said;
    const trainyard::Result run = simulate(scenario, {});
    for (const Approximation& one : run.facts.approximations)
      if (one.name.starts_with("stragglers")) said += one.name + ": " + one.sentence;
    return said;
  };
  EXPECT_EQ(says("2", "true").find("stragglers_in_the_mean: "), 0U);
  EXPECT_EQ(says("2", "false").find("stragglers_not_simulated: "), 0U);
  EXPECT_NE(says("2", "false").find("0.5 % later"), std::string::npos) << says("2", "false");
}

// Does the recipe of 4 bits contain its memory? Weights of 16 bits, two copies of 4 bits and a
// scale for 16 numbers, fp32 gradients and Adam: 2 + 2 x 0.5625 + 4 + 12.
TEST(KernelPricing, TheRecipeOfFourBitsSaysSo) {
  const Recipe recipe = load_recipe("nvfp4");
  EXPECT_TRUE(recipe.four_bit_gemms);
  EXPECT_EQ(recipe.gemms, DataType::Fp8);
  EXPECT_DOUBLE_EQ(recipe.weight_cache_bytes, 2 * 0.5625);
  EXPECT_FALSE(load_recipe("fp8_cached").four_bit_gemms);
}

}  // namespace
}  // namespace trainyard
