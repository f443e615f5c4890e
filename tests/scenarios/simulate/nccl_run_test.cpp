// NCCL's choice in a scenario: it is the default, it is reported, it obeys the settings, and other
// algorithms replace it on GPUs for which it is not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/gpu.hpp"
#include "runs.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/nccl/machine.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/report.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// Tensor groups over a whole node and two replicas: calls of many sizes.
Json document_on(const std::string& node) {
  Json document = small_document(
      {.tensor = 8, .sequence_parallel = true, .data = 2, .zero_stage = 1, .microbatches = 1});
  document["cluster"]["node"] = node;
  return document;
}

// Eight replicas on one node, which reduce all gradients in one call of about 100 MB.
Json replicas_on(const std::string& node) {
  Json document = small_document({.data = 8, .microbatches = 1});
  document["cluster"]["node"] = node;
  document["parallelism"]["bucket_parameters"] = 1'000'000'000;
  return document;
}

Json with_nccl(Json document, Json settings) {
  document["collectives"]["nccl"] = std::move(settings);
  return document;
}

std::vector<CollectiveSummary> rows_of(const Json& document) {
  const ScenarioRun run = simulate(load(document), {});
  return collective_summary(run.view());
}

std::set<std::string> algorithms_of(const std::vector<CollectiveSummary>& rows, CollectiveOp op) {
  std::set<std::string> names;
  for (const CollectiveSummary& row : rows)
    if (row.op == op) names.insert(row.selected_algorithm.algorithm);
  return names;
}

const Approximation* find_approximation(const ScenarioRun& run, const std::string& name) {
  for (const Approximation& one : run.facts.approximations)
    if (one.name == name) return &one;
  return nullptr;
}

// Is NCCL's choice the default, and is it reported?
TEST(NcclRun, TheDefaultIsWhatNcclChoosesAndSaysSo) {
  const ScenarioRun run = simulate(load(document_on("dgx_h100")), {});
  std::size_t rows = 0;
  for (const CollectiveSummary& row : collective_summary(run.view())) {
    EXPECT_EQ(row.requested, "nccl");
    EXPECT_THAT(row.selected_algorithm.label,
                testing::StartsWith("nccl: " + row.selected_algorithm.algorithm + "/"));
    EXPECT_FALSE(row.selected_algorithm.protocol.empty());
    EXPECT_GE(row.selected_algorithm.channels, 1U);
    ++rows;
  }
  EXPECT_GE(rows, 4U);
  const Json result = result_json(run.view());
  for (const Json& row : result["collectives"]) {
    EXPECT_EQ(row["label"].get<std::string>().find("nccl: " + row["algorithm"].get<std::string>()),
              0U);
    EXPECT_TRUE(row["protocol"].is_string() && row["channels"].is_number());
  }
  EXPECT_THAT(collectives_section(run.view()), testing::HasSubstr("nccl: Tree/LL, 1 channel"));
}

// Does the trace name the kernel that NCCL would launch?
TEST(NcclRun, TheTraceNamesTheKernelThatNcclWouldLaunch) {
  const ScenarioRun run = simulate(
      load(with_nccl(document_on("dgx_h100"), {{"algo", "Ring"}, {"proto", "LL128"}})), {});
  const TemporaryFolder folder;
  const std::string file = folder.write("trace.json", "");
  write_chrome_trace(run.view(), file, {});
  const std::string trace = read_file(file);
  EXPECT_THAT(trace, testing::HasSubstr("ncclDevKernel_AllGather_RING_LL128"));
  EXPECT_THAT(trace, testing::HasSubstr("nccl: Ring/LL128, "));
  EXPECT_THAT(trace, testing::Not(testing::HasSubstr("NCCL_SIMPLE")));
}

// Are the settings for algorithms and protocols obeyed?
TEST(NcclRun, AlgorithmsAndProtocolsAreObeyed) {
  const Json free = replicas_on("dgx_h100");
  const auto reductions = [](const Json& document) {
    return algorithms_of(rows_of(document), CollectiveOp::AllReduce);
  };
  EXPECT_THAT(reductions(free), testing::Contains("NVLS"));
  EXPECT_EQ(reductions(with_nccl(free, {{"algo", "Ring"}})), std::set<std::string>{"Ring"});
  EXPECT_EQ(reductions(with_nccl(free, {{"algo", "Ring;allreduce:Tree"}})),
            std::set<std::string>{"Tree"});
  const auto rows = rows_of(with_nccl(free, {{"algo", "^NVLS,NVLSTree"}, {"proto", "LL128"}}));
  EXPECT_FALSE(rows.empty());
  for (const CollectiveSummary& row : rows) {
    EXPECT_THAT(row.selected_algorithm.algorithm, testing::AnyOf("Ring", "Tree"));
    EXPECT_EQ(row.selected_algorithm.protocol, "LL128");
  }
}

// Do channels stay within their limits?
TEST(NcclRun, ChannelsAreKeptWithinTheirLimits) {
  const Json ring = with_nccl(document_on("dgx_a100_80gb"), {{"algo", "Ring"}});
  Json few = ring;
  few["collectives"]["nccl"]["max_channels"] = 2;
  std::uint32_t most = 0;
  for (const CollectiveSummary& row : rows_of(ring))
    most = std::max(most, row.selected_algorithm.channels);
  EXPECT_GT(most, 2U);
  EXPECT_FALSE(rows_of(few).empty());
  for (const CollectiveSummary& row : rows_of(few)) EXPECT_LE(row.selected_algorithm.channels, 2U);
}

// Is every GPU of NVIDIA with a profile known? Only for V100 there is no measurement.
TEST(NcclRun, EveryGpuIsKnown) {
  std::size_t gpus = 0;
  for (const std::string& gpu : gpu_names()) {
    if (gpu.starts_with("mi")) continue;
    const auto facts = nccl::host_facts(gpu, "");
    ASSERT_TRUE(facts.has_value()) << gpu;
    constexpr std::uint32_t kAmpere = 80;  // nothing older was measured
    EXPECT_EQ(nccl::machine_model(facts->sm).has_value(), facts->sm >= kAmpere) << gpu;
    ++gpus;
  }
  EXPECT_GE(gpus, 16U);
}

// Is it reported if the times of another GPU are used? An L40S uses the constants of an A100.
TEST(NcclRun, TimesOfAnotherGpuAreSaidToBe) {
  const TemporaryFolder folder;
  Json document = document_on("dgx_a100_80gb");
  Json node = parse_unchecked_json(read_file(data_file("topologies/data", "dgx_a100_80gb")));
  node["gpu"] = "l40s";
  const ScenarioRun measured = simulate(load(document), {});
  EXPECT_EQ(find_approximation(measured, "nccl_times_of_another_gpu"), nullptr);
  document["cluster"]["node"] = folder.write("l40s_node.json", node.dump());
  const ScenarioRun run = simulate(load(document), {});
  const Approximation* said = find_approximation(run, "nccl_times_of_another_gpu");
  ASSERT_NE(said, nullptr);
  EXPECT_THAT(said->sentence, testing::HasSubstr("another GPU of its generation"));
}

// Does a patch version use the data of its release? nccl_model_test.cpp tests the differences
// between releases.
TEST(NcclRun, APatchTakesItsReleasesData) {
  const auto reduction_s = [](const char* version) {
    for (const CollectiveSummary& row :
         rows_of(with_nccl(replicas_on("dgx_b200"),
                           {{"version", version}, {"algo", "Ring"}, {"proto", "LL128"}})))
      if (row.group == GroupKind::Data) return row.mean_time_s();
    return 0.0;
  };
  EXPECT_GT(reduction_s("2.18"), 0.0);
  EXPECT_EQ(reduction_s("2.30"), reduction_s("2.30.7"));
}

// Is another algorithm used unchanged?
TEST(NcclRun, AnotherAlgorithmIsTakenAsItStands) {
  Json document = document_on("dgx_h100");
  document["collectives"]["tensor"]["all_gather"] = "ring";
  std::size_t gathers = 0;
  for (const CollectiveSummary& row : rows_of(document)) {
    if (row.group != GroupKind::Tensor || row.op != CollectiveOp::AllGather) continue;
    EXPECT_EQ(row.selected_algorithm.label, "ring");
    EXPECT_TRUE(row.selected_algorithm.protocol.empty());
    EXPECT_EQ(row.selected_algorithm.channels, 0U);
    ++gathers;
  }
  EXPECT_GT(gathers, 0U);
}

// Do algorithms of the registry replace NCCL on other GPUs? The tables of RCCL are not known, and
// the report states the replacement.
TEST(NcclRun, OnOtherGpusTheRegistryStandsIn) {
  const ScenarioRun run = simulate(load(document_on("mi300x")), {});
  const Approximation* said = find_approximation(run, "nccl_stood_in_for");
  ASSERT_NE(said, nullptr);
  EXPECT_GE(said->count, 3U);
  EXPECT_THAT(said->sentence, testing::HasSubstr("mi300x"));
  for (const CollectiveSummary& row : collective_summary(run.view())) {
    EXPECT_EQ(row.requested, "nccl");
    EXPECT_THAT(row.selected_algorithm.label, testing::AnyOf("ring", "tree"));
  }
  EXPECT_EQ(find_approximation(simulate(load(document_on("dgx_h100")), {}), "nccl_stood_in_for"),
            nullptr);
}

// Is the replacement the quicker one of ring and tree? Chosen by name, the same algorithms take the
// same time, except for rounding.
TEST(NcclRun, WhatStandsInIsTheQuickerOfRingAndTree) {
  Json document = document_on("mi300x");
  const double chosen = simulate(load(document), {}).timeline.makespan_s;
  for (const char* all_reduce : {"ring", "tree"}) {
    for (const char* kind : {"tensor", "data", "other"})
      document["collectives"][kind] = {
          {"all_reduce", all_reduce}, {"all_gather", "ring"}, {"reduce_scatter", "ring"}};
    const double by_hand = simulate(load(document), {}).timeline.makespan_s;
    EXPECT_LE(chosen, by_hand * (1.0 + kAgreement)) << all_reduce;
  }
}

// Does an unknown host count as Intel, and is it reported?
TEST(NcclRun, AnUnknownHostIsTakenForIntelAndSaidToBe) {
  Json document = document_on("dgx_a100_80gb");
  EXPECT_EQ(find_approximation(simulate(load(document), {}), "nccl_host_unknown"), nullptr);
  document["cluster"]["node"] = "hgx_h800";
  const ScenarioRun run = simulate(load(document), {});
  const Approximation* said = find_approximation(run, "nccl_host_unknown");
  ASSERT_NE(said, nullptr);
  EXPECT_THAT(said->sentence, testing::HasSubstr("hgx_h800"));
}

Json stepwise(Json document) {
  document["collective_model"] = "stepwise";
  return document;
}

// Does the stepwise model play the chosen algorithm? Steps have no protocol, so they agree for the
// protocol Simple, except for the latencies.
TEST(NcclRun, StepwisePlaysTheChosenAlgorithm) {
  Json document = with_nccl(document_on("dgx_a100_80gb"), {{"algo", "Ring"}, {"proto", "Simple"}});
  Json by_hand = document;
  for (const char* kind : {"tensor", "data", "other"})
    by_hand["collectives"][kind] = {
        {"all_reduce", "ring"}, {"all_gather", "ring"}, {"reduce_scatter", "ring"}};
  const ScenarioRun chosen = simulate(load(stepwise(document)), {});
  const ScenarioRun named = simulate(load(stepwise(by_hand)), {});
  EXPECT_GT(chosen.workload->groups.size(), 100U);
  EXPECT_TRUE(agree(chosen.timeline.makespan_s, named.timeline.makespan_s));
}

// Does the stepwise model follow the choice of each group? Without the switches all calls are
// rings, except for the few bytes that all ranks reduce.
TEST(NcclRun, StepwiseFollowsTheChoiceOfEachGroup) {
  const Json chosen = with_nccl(document_on("dgx_h100"), {{"algo", "^NVLS,NVLSTree"}});
  Json by_hand = chosen;
  std::set<std::string> names;
  for (const CollectiveSummary& row : rows_of(chosen)) {
    const std::string name = row.selected_algorithm.algorithm == "Tree" ? "tree" : "ring";
    by_hand["collectives"][std::string(to_string(row.group))][std::string(to_string(row.op))] =
        name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 2U);
  EXPECT_TRUE(agree(simulate(load(stepwise(chosen)), {}).timeline.makespan_s,
                    simulate(load(stepwise(by_hand)), {}).timeline.makespan_s));
}

// Is a NIC behind a slower link reported? If the NIC is faster than the PCIe link before it, the
// run names the bottleneck.
TEST(NcclRun, ANicBehindASlowerLinkIsNamed) {
  const Json document = document_on("dgx_h100");
  EXPECT_EQ(find_approximation(simulate(load(document), {}), "nic_behind_slower_link"), nullptr);
  const ScenarioRun run =
      simulate(load(document, {{.path = "cluster.node.nic.usable", .value = "97 GB/s"},
                               {.path = "cluster.node.nic.nominal", .value = "100 GB/s"}}),
               {});
  const Approximation* said = find_approximation(run, "nic_behind_slower_link");
  ASSERT_NE(said, nullptr);
  EXPECT_THAT(said->sentence, testing::HasSubstr("bound by PCIe, 48 GB/s a GPU"));
}

// Are settings without effect reported?
TEST(NcclRun, SettingsWithoutEffectAreNamed) {
  Json document = document_on("dgx_h100");
  document["training"]["recompute"] = "selective";
  EXPECT_NE(find_approximation(simulate(load(document), {}), "recomputation_without_effect"),
            nullptr);
  document["training"]["recompute_modules"] = {"core_attn", "mlp"};
  EXPECT_EQ(find_approximation(simulate(load(document), {}), "recomputation_without_effect"),
            nullptr);
  document["training"].erase("recompute_modules");
  document["training"]["attention"] = "unfused";
  EXPECT_EQ(find_approximation(simulate(load(document), {}), "recomputation_without_effect"),
            nullptr);
}

// Is a recipe for attention reported that has no effect on gathered keys?
TEST(NcclRun, ARecipeWithoutEffectOnAttentionIsNamed) {
  for (const auto& [exchange, named] :
       {std::pair{"p2p", false}, {"a2a", false}, {"all_gather", true}}) {
    Json document = small_document({.data = 4, .context = 2, .exchange = exchange});
    document["cluster"]["node"] = "dgx_h100";
    document["training"]["recipe"] = "fp8_attention";
    const ScenarioRun run = simulate(load(document), {});
    EXPECT_EQ(find_approximation(run, "attention_recipe_without_effect") != nullptr, named);
  }
}

}  // namespace
}  // namespace trainyard
