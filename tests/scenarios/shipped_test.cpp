// The scenarios of the repository: each of them loads, names its source, and states its
// assumptions.
#include "tests/scenarios/shipped.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios";

std::set<std::string> shipped() {
  std::set<std::string> names;
  for (const std::string& file : shipped_scenarios())
    names.insert(fs::relative(file, kFolder).string());
  return names;
}

// Does every scenario load, and is it the same after resolving and reading?
TEST(Shipped, EveryScenarioLoadsAndRoundTrips) {
  for (const std::string& name : shipped()) {
    SCOPED_TRACE(name);
    const Scenario s = load_scenario((kFolder / name).string(), {});
    EXPECT_FALSE(s.description.empty());
    EXPECT_FALSE(s.source.empty());
    EXPECT_EQ(resolved(s).dump(), resolved(load(resolved(s))).dump());
  }
}

// Are the announced scenarios there?
TEST(Shipped, TheScenariosThatWerePromisedAreThere) {
  const std::set<std::string> names = shipped();
  const auto count = [&](const std::string& begin) {
    return std::count_if(names.begin(), names.end(),
                         [&](const std::string& n) { return n.starts_with(begin); });
  };
  EXPECT_EQ(count("megatron/"), 18) << "ten sizes of 2021, four models of 2022 twice";
  EXPECT_EQ(count("llama3/"), 5);
  EXPECT_EQ(count("fsdp/"), 12) << "8B and 70B on up to 512 GPUs, HSDP, 405B, and MaxText";
  EXPECT_EQ(count("replicas/"), 4);
  EXPECT_EQ(count("context/"), 6) << "ring, Ulysses, both, packed documents, and the published one";
  EXPECT_EQ(count("offload/"), 2);
  EXPECT_EQ(count("unequal/"), 5)
      << "unequal nodes by stage, by replica and by tensor group, unequal GPUs split twice";
  EXPECT_EQ(count("moe/"), 6);
  EXPECT_EQ(count("first/"), 1);
}

// Is the main scenario the published run, setting by setting (Korthikanti et al. 2022, table 5)?
TEST(Shipped, TheMainJobIsThePublishedRun) {
  const Scenario s =
      load_scenario((kFolder / "megatron/gpt3_175b_64xa100_selective.json").string(), {});
  const Parallelism& p = s.plan.parallelism;
  EXPECT_EQ(p.tensor, 8);
  EXPECT_TRUE(p.sequence_parallel);
  EXPECT_EQ(p.pipeline, 8);
  EXPECT_EQ(p.interleave, 3);
  EXPECT_EQ(p.schedule, "interleaved_1f1b");
  EXPECT_EQ(s.plan.training.micro_batch_size, 1);
  EXPECT_EQ(s.plan.training.global_batch_size, 64);
  EXPECT_EQ(s.plan.training.recompute, Recompute::Selective);
  EXPECT_EQ(s.plan.training.precision, DataType::Fp16);
  EXPECT_EQ(gpu_count(s.cluster), 64U);
  ASSERT_TRUE(s.published.has_value());
  EXPECT_EQ(s.published->step_time, Seconds{13.75});
  EXPECT_EQ(s.published->mfu, 0.514);
}

// Do the scenarios of Narayanan et al. compare hardware FLOPs and name their microbatch size?
TEST(Shipped, TheLadderComparesHardwareFlopsAndNamesItsMicroBatch) {
  std::size_t sizes = 0;
  for (const std::string& name : shipped()) {
    const Scenario s = load_scenario((kFolder / name).string(), {});
    if (s.source.find("2104.04473") == std::string::npos) continue;
    SCOPED_TRACE(name);
    EXPECT_TRUE(s.published->hardware_flops_per_gpu.has_value());
    EXPECT_FALSE(s.published->model_flops_per_gpu.has_value());
    EXPECT_EQ(s.flops_convention, AttentionCount::Full);
    EXPECT_EQ(s.plan.training.recompute, Recompute::Full);
    ASSERT_FALSE(s.assumptions.empty());
    EXPECT_NE(s.assumptions.front().find("micro-batch"), std::string::npos);
    ++sizes;
  }
  EXPECT_GE(sizes, 10U);
}

}  // namespace
}  // namespace trainyard
