// Whole runs of steps that are split in other ways than by parallelism: copies to the host on
// shared links, stages on unequal GPUs, parameter servers, frozen layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/lower/step_shape.hpp"
#include "runs.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/stage_summary.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {
namespace {

double copied_bytes(const ScenarioRun& run) {
  double bytes = 0.0;
  for (const Rank& rank : run.workload->ranks) {
    for (const Operation& op : run.workload->programs[rank.program].operations) {
      if (op.kind != OpKind::Collective) continue;
      const Call& call = run.workload->calls[op.payload];
      if (op_of(call) == CollectiveOp::HostCopy) bytes += static_cast<double>(bytes_of(call));
    }
  }
  return bytes;
}

double seconds_of(const ScenarioRun& run, TimeShare share) {
  return breakdown(*run.workload, *run.partition, run.timeline, 0).of(share);
}

double computed_s(const ScenarioRun& run, std::uint32_t stage) {
  for (std::size_t rank = 0; rank < run.partition->ranks.size(); ++rank)
    if (run.workload->programs[run.partition->ranks[rank].program].stage == stage)
      return breakdown(*run.workload, *run.partition, run.timeline, rank).of(TimeShare::Compute);
  return 0.0;
}

// Do copies use the existing PCIe links? On a DGX A100 a copy crosses two PCIe links, to its switch
// and to its CPU, and two GPUs share the second. Within one node it carries no NIC traffic, so all
// traffic of PCIe is copies.
TEST(Offloaded, CopiesTravelOnThePcieLinksThatThereAre) {
  auto document = small_document({.data = 8, .microbatches = 2});
  const ScenarioRun plain = simulate(load(document), {});
  document["offload"] = {{"activations", 1.0}, {"optimizer", "cpu"}};
  const ScenarioRun run = simulate(load(document), {});
  expect_sound(run);
  double carried = 0.0;
  for (const LinkSummary& row : link_summary(run.view()))
    if (row.kind == LinkKind::Pcie) carried += row.bytes;
  EXPECT_GT(carried, 0.0);
  EXPECT_NEAR(carried, 2.0 * copied_bytes(run), 1e-6 * carried);
  EXPECT_GT(run.timeline.makespan_s, plain.timeline.makespan_s);
  EXPECT_GT(seconds_of(run, TimeShare::ExposedHost), 0.0);
  EXPECT_LT(stage_memory(run.view())[0].peak.bytes, stage_memory(plain.view())[0].peak.bytes);
  EXPECT_FALSE(host_memory(plain.view()).has_value());
  const std::optional<HostMemory> host = host_memory(run.view());
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(host->capacity_bytes, std::int64_t{2} << 40);
  EXPECT_TRUE(host->fits);
  EXPECT_EQ(host->bytes, 8 * host_memory_peak(*run.workload, *run.partition, run.timeline, 0));
}

// Does a copy take the time of its links? A single copy has 48 GB/s on PCIe 5, 450 GB/s chip to
// chip, each with the latency of its links; two GPUs of one PCIe switch share the link to their
// CPU.
TEST(Offloaded, ACopyTakesWhatItsLinksAllow) {
  const auto phase = [](const char* node, HostDirection direction) {
    const Cluster cluster = build_cluster({.node = load_node(node)});
    const std::uint32_t gpu = 5;
    const auto phases = AlgorithmModel(cluster).phases(
        HostCopyCall{.direction = direction, .bytes = 48'000'000'000}, std::span(&gpu, 1));
    EXPECT_EQ(phases.size(), 1U);
    double slowest = 0.0;
    for (const LinkLoad& load : phases[0].flows.at(0).loads)
      slowest = std::max(slowest, load.bytes / cluster.link(load.link).capacity.value());
    return slowest;
  };
  for (const HostDirection direction : {HostDirection::ToHost, HostDirection::FromHost}) {
    EXPECT_DOUBLE_EQ(phase("dgx_h100", direction), 1.0);
    EXPECT_DOUBLE_EQ(phase("gb200_nvl72", direction), 48.0 / 450.0);
  }
}

// Is it reported if the host has too little memory?
TEST(Offloaded, TooMuchForTheHostIsSaid) {
  auto document = small_document({.data = 8, .microbatches = 2});
  document["offload"] = {{"optimizer", "fetch"}};
  Scenario scenario = load(document);
  scenario.cluster.node.host_memory = Bytes{1e6};
  const ScenarioRun run = simulate(scenario, {});
  ASSERT_TRUE(host_memory(run.view()).has_value());
  EXPECT_FALSE(host_memory(run.view())->fits);
}

// Does each stage compute at the pace of its own GPUs? It takes as long as if all GPUs were of this
// kind.
TEST(Unequal, EachStageHasThePaceOfItsOwnGpus) {
  auto document = small_document({.tensor = 8, .sequence_parallel = true, .pipeline = 2});
  document["parallelism"]["layers_per_stage"] = {5, 3};
  document["parallelism"]["schedule"] = "naive";
  document["interference"] = false;
  const ScenarioRun slow = simulate(load(document), {});
  document["cluster"]["others"] = {{{"nodes", {0}}, {"node", "dgx_h100"}}};
  const ScenarioRun mixed = simulate(load(document), {});
  document["cluster"]["others"] = {{{"nodes", {0, 1}}, {"node", "dgx_h100"}}};
  const ScenarioRun fast = simulate(load(document), {});
  expect_sound(mixed);
  EXPECT_GT(computed_s(fast, 0), 0.0);
  EXPECT_GT(computed_s(slow, 1), 0.0);
  EXPECT_NEAR(computed_s(mixed, 0), computed_s(fast, 0), kAgreement);
  EXPECT_NEAR(computed_s(mixed, 1), computed_s(slow, 1), kAgreement);
  EXPECT_LT(computed_s(mixed, 0), computed_s(slow, 0));
  EXPECT_LT(fast.timeline.makespan_s, mixed.timeline.makespan_s);
  EXPECT_LT(mixed.timeline.makespan_s, slow.timeline.makespan_s);
  EXPECT_EQ(mixed.cluster->gpu_kind(0).profile, "h100");
  EXPECT_EQ(mixed.cluster->gpu_kind(8).profile, "a100_80gb");
}

// Are different GPUs of one node separate? With two cards in one workstation each stage has the
// pace of its own card and is limited by its memory. The rank of a program decides, not the node.
TEST(Unequal, GpusOfOneNodeAreEachTheirOwn) {
  auto document = small_document({.pipeline = 2, .data = 4});
  document["interference"] = false;
  auto node = parse_unchecked_json(read_file(data_file("topologies/data", "dgx_a100_80gb")));
  const auto compute = [&](const ScenarioRun& run, std::size_t rank) {
    return breakdown(*run.workload, *run.partition, run.timeline,
                     run.partition->class_of_rank[rank])
        .of(TimeShare::Compute);
  };
  const ScenarioRun first = simulate(load(document), {});
  node["other_gpus"] = {
      {{"gpus", {4, 5, 6, 7}}, {"gpu", "l40s"}, {"gpu_memory", {{"usable", "46068 MiB"}}}}};
  document["cluster"]["node"] = node;
  const ScenarioRun mixed = simulate(load(document), {});
  node.erase("other_gpus");
  node["gpu"] = "l40s";
  document["cluster"]["node"] = node;
  const ScenarioRun second = simulate(load(document), {});
  expect_sound(mixed);
  EXPECT_NEAR(computed_s(mixed, 0), compute(first, 0), kAgreement);
  EXPECT_NEAR(compute(mixed, 4), compute(second, 4), kAgreement);
  EXPECT_GT(std::abs(compute(first, 4) / compute(second, 4) - 1.0), 0.05);
  const std::vector<StageMemory> stages = stage_memory(mixed.view());
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].gpu, "a100_80gb");
  EXPECT_EQ(stages[1].gpu, "l40s");
  EXPECT_EQ(stages[0].capacity_bytes, std::int64_t{81920} << 20);
  EXPECT_EQ(stages[1].capacity_bytes, std::int64_t{46068} << 20);
}

// Is each GPU limited by its own memory? The same card is there twice, once with less memory; the
// report states what does not fit on the smaller one.
TEST(Unequal, EachGpuIsHeldToItsOwnMemory) {
  auto document = small_document({.data = 8});
  auto node = parse_unchecked_json(read_file(data_file("topologies/data", "dgx_a100_80gb")));
  node["other_gpus"] = {
      {{"gpus", {1}}, {"gpu", "a100_80gb"}, {"gpu_memory", {{"usable", "1 MiB"}}}}};
  document["cluster"]["node"] = node;
  const ScenarioRun run = simulate(load(document), {});
  const std::vector<StageMemory> stages = stage_memory(run.view());
  ASSERT_EQ(stages.size(), 1U);
  EXPECT_FALSE(stages[0].fits);
  EXPECT_EQ(stages[0].capacity_bytes, 1 << 20);
}

// Do replicas wait for the slowest? Replicas on unequal GPUs run different programs, and the step
// takes the time of the slower ones.
TEST(Unequal, ReplicasWaitForTheSlowest) {
  auto document = small_document({.tensor = 8, .sequence_parallel = true, .data = 2});
  const ScenarioRun slow = simulate(load(document), {});
  document["cluster"]["others"] = {{{"nodes", {1}}, {"node", "dgx_h100"}}};
  const ScenarioRun mixed = simulate(load(document), {});
  EXPECT_EQ(mixed.workload->programs.size(), 2U);
  EXPECT_EQ(slow.workload->programs.size(), 1U);
  EXPECT_LE(mixed.timeline.makespan_s, slow.timeline.makespan_s * (1.0 + kAgreement));
  EXPECT_NEAR(seconds_of(mixed, TimeShare::Compute), seconds_of(slow, TimeShare::Compute),
              0.01 * seconds_of(slow, TimeShare::Compute));
  const Rank& fast = mixed.workload->ranks[8];
  EXPECT_EQ(mixed.workload->programs[fast.program].name, "stage 0 on h100");
}

// The peak without the buffers of communication, which grow with the peers that a rank has, and
// without the allocator's fragmentation, which follows the whole.
std::int64_t own_memory(const ScenarioRun& run, std::size_t stage) {
  const MemoryPeak peak = stage_memory(run.view())[stage].peak;
  const auto of = [&](Category category) {
    return peak.by_category.at(static_cast<std::size_t>(category));
  };
  return peak.bytes - of(Category::Communication) - of(Category::Fragmentation);
}

// Is a stage of 8 tensor ranks before one of 4 as fast and as full as in a run in which all stages
// have 8, and the one of 4 as in a run in which all have 4? The ranks fill three nodes.
TEST(Unequal, AStageWithItsOwnTensorRanksIsThatOfAnEqualRun) {
  auto document =
      small_document({.tensor = 8, .sequence_parallel = true, .pipeline = 2, .data = 2});
  document["interference"] = false;
  document["parallelism"]["schedule"] = "naive";
  const ScenarioRun eights = simulate(load(document), {});
  document["parallelism"]["tensor"] = 4;
  document["cluster"]["nodes"] = 2;
  const ScenarioRun fours = simulate(load(document), {});
  document["parallelism"]["tensor"] = 8;
  document["parallelism"]["tensor_per_stage"] = {8, 4};
  document["cluster"]["nodes"] = 3;
  const ScenarioRun mixed = simulate(load(document), {});
  expect_sound(mixed);
  ASSERT_EQ(mixed.workload->ranks.size(), 24U);
  EXPECT_NEAR(computed_s(mixed, 0), computed_s(eights, 0), kAgreement);
  EXPECT_NEAR(computed_s(mixed, 1), computed_s(fours, 1), kAgreement);
  EXPECT_LT(computed_s(mixed, 0), computed_s(fours, 0));
  EXPECT_EQ(own_memory(mixed, 0), own_memory(eights, 0));
  EXPECT_EQ(own_memory(mixed, 1), own_memory(fours, 1));
  EXPECT_LT(own_memory(mixed, 0), own_memory(fours, 0));
  const ScenarioRun unfolded = simulate(load(document), {.fold = false});
  EXPECT_TRUE(agree(mixed.timeline.makespan_s, unfolded.timeline.makespan_s));
}

ScenarioRun with_servers(const nlohmann::ordered_json& servers, int workers) {
  auto document = small_document({.data = workers, .microbatches = 2});
  document["cluster"]["nodes"] = 1;
  document["parameter_servers"] = servers;
  return simulate(load(document), {});
}

// Do steps and staleness work as expected? Figures are means over the steps. Running ahead hides
// all updates except those of the last pushes, one each, whose share in the mean of many steps is
// small.
TEST(ParameterServers, StepsAndStaleness) {
  const ScenarioRun one = with_servers({{"servers", 2}}, 8);
  const ScenarioRun four = with_servers({{"servers", 2}, {"steps", 4}}, 8);
  const ScenarioRun stale = with_servers({{"servers", 2}, {"steps", 16}, {"staleness", 1}}, 8);
  const ScenarioRun free = with_servers({{"servers", 2}, {"steps", 16}, {"asynchronous", true}}, 8);
  const auto step_s = [](const ScenarioRun& run) { return figures(run.view()).step_time_s; };
  EXPECT_NEAR(step_s(four), four.timeline.makespan_s / 4.0, 1e-12);
  EXPECT_NEAR(step_s(four), step_s(one), 0.05 * step_s(one));
  EXPECT_LE(step_s(stale), step_s(four) * (1.0 + kAgreement));
  EXPECT_LE(step_s(free), step_s(stale) * (1.0 + kAgreement));
  EXPECT_NEAR(*figures(four.view()).tokens_per_s, 8 * 2 * 512 / step_s(four), 1e-6);
  const auto result = result_json(four.view());
  EXPECT_EQ(result.at("steps"), 4);
  EXPECT_EQ(result.at("all_steps_time_s").get<double>(), four.timeline.makespan_s);
  EXPECT_EQ(result.at("step_time_s").get<double>(), four.timeline.makespan_s / 4.0);
  EXPECT_FALSE(result_json(one.view()).contains("steps"));
  for (const ScenarioRun* run : {&one, &four, &stale, &free}) {
    const Breakdown times = run->view().breakdown_of(0);
    const double sum = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
    EXPECT_NEAR(sum, step_s(*run), 1e-9 * sum);
  }
}

// Do dedicated parameter servers use separate GPUs?
TEST(ParameterServers, DedicatedOnesTakeGpusOfTheirOwn) {
  const ScenarioRun run = with_servers({{"servers", 2}, {"dedicated", true}}, 6);
  EXPECT_EQ(run.workload->ranks.size(), 8U);
  EXPECT_GT(run.timeline.makespan_s, 0.0);
}

// Is it reported if experts drop rows, and only then? MFU counts dropped rows.
TEST(ExpertCapacity, DroppedRowsAreSaid) {
  const auto says = [](const nlohmann::ordered_json& experts) {
    auto document = small_document({.data = 8});
    document["model"].update({{"experts", 8}, {"experts_per_token", 2}, {"expert_ffn", 512}});
    document["parallelism"]["expert"] = 4;
    document["experts"] = experts;
    const ScenarioRun run = simulate(load(document), {});
    const std::vector<Approximation>& all = run.facts.approximations;
    return std::ranges::count(all, "dropped_rows_counted", &Approximation::name) == 1;
  };
  EXPECT_TRUE(says({{"capacity_factor", 0.5}}));
  EXPECT_TRUE(says({{"routing", "zipf"}, {"capacity_factor", 1.0}}));
  EXPECT_FALSE(says({{"routing", "zipf"}}));
  EXPECT_FALSE(says({{"capacity_factor", 1.0}, {"pad_to_capacity", true}}));
}

// Do frozen layers count only the FLOPs that run?
TEST(FrozenLayers, CountTheFlopsThatRun) {
  auto document = small_document({});
  document["cluster"]["node"] = "dgx_a100_80gb";
  document["parallelism"]["tensor"] = 8;
  document["parallelism"]["sequence_parallel"] = true;
  document["training"]["frozen_layers"] = {0, 1, 2, 3};
  document["training"]["frozen_embedding"] = true;
  const ScenarioRun run = simulate(load(document), {});
  expect_sound(run);
  const double layer = 2.0 * (4.0 * 512 * 512 + 3.0 * 512 * 2048);
  const double core = 2.0 * 512 * 1024 * 0.5;
  const double head = 2.0 * 512 * 8192;
  const double token = 4 * (layer + core) + 4 * 3.0 * (layer + core) + 3.0 * head;
  EXPECT_NEAR(run.facts.model_flops.value(), token * 4 * 512, 1e-9 * token * 4 * 512);
}

}  // namespace
}  // namespace trainyard
