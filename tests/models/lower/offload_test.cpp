// Offloading to the host: how many bytes are copied and when, the memory of the GPU meanwhile, and
// the time of the CPU's optimizer.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "models/layers/layer_memory.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/options.hpp"
#include "models/trained_weights.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan offloaded(const OffloadSettings& offload, std::int64_t microbatches = 2) {
  TrainingPlan plan = plan_of(small_llama(4), {}, microbatches);
  plan.offload = offload;
  plan.host.bandwidth = BytesPerSecond{1e9};
  return plan;
}

// Copies take `copy` seconds each, a layer 1 s forward and 2 s backward.
Step played(const TrainingPlan& plan, double copy) {
  const CallModel communication(
      [copy](const Call& call) { return op_of(call) == CollectiveOp::HostCopy ? copy : 0.0; });
  return replay(lower(plan), communication, core_seconds(1.0, 2.0));
}

std::map<HostDirection, std::int64_t> copied(const Workload& workload) {
  std::map<HostDirection, std::int64_t> bytes;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.kind != OpKind::Collective) return;
    const auto* copy = std::get_if<HostCopyCall>(&workload.calls[view.op.payload]);
    if (copy != nullptr) bytes[copy->direction] += copy->bytes;
  });
  return bytes;
}

void expect_returned(const Workload& workload) {
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  for (const Program& program : workload.programs)
    for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
}

// Are activations copied concurrently with layers? Hidden stores cost the last store and its fetch
// before the backward can begin. Slow stores delay the forward two layers later: 2F + (k - 2) t =
// 8, the last store ends at F + k t = 13, and every fetch takes another 3.
TEST(Offload, ActivationsTravelBesideLayers) {
  const TrainingPlan plan = offloaded({.activations = 1.0});
  EXPECT_DOUBLE_EQ(played(plan, 0.0).timeline.makespan_s, 2 * (4.0 + 8.0));
  EXPECT_DOUBLE_EQ(played(plan, 0.5).timeline.makespan_s, 2 * (4.0 + 2 * 0.5 + 8.0));
  EXPECT_DOUBLE_EQ(played(plan, 3.0).timeline.makespan_s, 2 * 27.0);
}

// Is every byte stored and fetched back?
TEST(Offload, EveryByteGoesAndComesBack) {
  TrainingPlan plan = offloaded({.activations = 0.5, .activation_layers = 3});
  const Workload workload = lower(plan);
  const std::int64_t half = std::llround(
      0.5 *
      static_cast<double>(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept));
  EXPECT_EQ(copied(workload)[HostDirection::ToHost], 2 * 3 * half);
  EXPECT_EQ(copied(workload)[HostDirection::FromHost], 2 * 3 * half);
  expect_returned(workload);
  plan.training.recompute = Recompute::Full;
  plan.training.recompute_num_layers = 2;
  plan.offload = {.activations = 1.0};
  const Workload checkpoints = lower(plan);
  EXPECT_EQ(copied(checkpoints)[HostDirection::ToHost],
            2 * 2 * layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept);
  expect_returned(checkpoints);
}

// Is the resident memory of a stage one sum per category? Offloaded bytes reduce it: a workload
// states how much of each category the stage holds, not how much is missing.
TEST(Offload, WhatIsHeldIsOneSumOfEachCategory) {
  TrainingPlan plan = offloaded({.weights = true});
  const Workload workload = lower(plan);
  std::set<std::uint16_t> categories;
  for (const ResidentMemory& held : workload.programs[0].resident) {
    EXPECT_GE(held.bytes, 0) << held.category;
    EXPECT_TRUE(categories.insert(held.category).second) << held.category;
  }
  EXPECT_FALSE(categories.empty());
}

// Does the GPU hold less? Two layers are on the GPU in addition to the running one, the others on
// the host.
TEST(Offload, TheGpuHoldsLess) {
  const auto peak = [](const TrainingPlan& plan) {
    const Step step = played(plan, 0.5);
    const MemoryPeak most = memory_peak(step.workload, step.partition, step.timeline, 0);
    return std::pair{most.by_category[static_cast<std::size_t>(Category::Activations)],
                     host_memory_peak(step.workload, step.partition, step.timeline, 0)};
  };
  const TrainingPlan plain = offloaded({});
  const std::int64_t kept =
      layer_memory(memory_options(plain), dense_layer(plain.architecture)).kept;
  const auto [without, nothing] = peak(offloaded({}));
  const auto [with, on_host] = peak(offloaded({.activations = 1.0}));
  EXPECT_EQ(nothing, 0);
  EXPECT_EQ(on_host, 4 * kept);
  EXPECT_LE(with, without - 2 * kept);
}

// Do pipelines and split backwards return all bytes?
TEST(Offload, PipelinesAndSplitBackwardsReturnEverything) {
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1", "zb_v", "interleaved_1f1b", "dualpipe"}) {
    const bool chunks = std::string(schedule) != "1f1b" && std::string(schedule) != "gpipe" &&
                        std::string(schedule) != "zb_h1";
    TrainingPlan plan = pipeline_plan(
        {.schedule = schedule, .pipeline = 2, .microbatches = 8, .chunks = chunks ? 2 : 1});
    plan.offload = {.activations = 1.0, .weights = true};
    expect_returned(lower(plan));
  }
}

// Does the CPU's optimizer run at the pace of its memory? In one piece: gradients to the host, the
// CPU's step, weights back. Ren et al. 2101.06840 reached 0.456 of the memory bandwidth of their
// CPU.
TEST(Offload, TheCpuStepsAtThePaceOfItsMemory) {
  TrainingPlan plan = offloaded({.optimizer = OffloadedOptimizer::Cpu});
  const double parameters = static_cast<double>(parameter_count(plan.architecture));
  plan.host.bandwidth = BytesPerSecond{30.0 * parameters / kCpuOptimizerShare / 4.0};
  const Step step = played(plan, 1.0);
  EXPECT_NEAR(step.timeline.makespan_s, 24.0 + 1.0 + 4.0 + 1.0, 1e-9 * 30.0);
  const auto count = static_cast<std::int64_t>(parameters);
  EXPECT_EQ(copied(step.workload)[HostDirection::ToHost], 4 * count);    // fp32 gradients
  EXPECT_EQ(copied(step.workload)[HostDirection::FromHost], 2 * count);  // bf16 weights
  EXPECT_EQ(host_memory_peak(step.workload, step.partition, step.timeline, 0), 12 * count);
  const auto resident = resident_bytes(step.workload, step.workload.programs[0]);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::OptimizerState)], 0);
}

// Is the CPU that of its source? 30 bytes of 10e9 parameters: the paper's 2.57 s, within the spread
// of its five rows.
TEST(Offload, TheCpuIsThatOfItsSource) {
  const double seconds = 30.0 * 10e9 / (kCpuOptimizerShare * 2 * 128e9);
  EXPECT_NEAR(seconds, 2.57, 0.02 * 2.57);
}

// Is the optimizer state fetched, updated and stored?
TEST(Offload, StateIsFetchedUpdatedAndStored) {
  const TrainingPlan plan = offloaded({.optimizer = OffloadedOptimizer::Fetch});
  const Step step = played(plan, 1.0);
  EXPECT_DOUBLE_EQ(step.timeline.makespan_s, 24.0 + 1.0 + 1.0);
  const std::int64_t count = parameter_count(plan.architecture);
  EXPECT_EQ(copied(step.workload)[HostDirection::ToHost], 12 * count);
  EXPECT_EQ(copied(step.workload)[HostDirection::FromHost], 12 * count);
  expect_returned(step.workload);
}

// How many bytes does the step on fetched state move? Master copy and moments are read and written,
// the gradient read and the weight written: 2 (4 + 4 + 4) + 4 + 2 = 30 of each parameter. Clipping
// reads and writes the gradient of 4 bytes once more.
TEST(Offload, ClippingReadsAndWritesTheGradientOnceMore) {
  for (const bool clips : {false, true}) {
    TrainingPlan plan = offloaded({.optimizer = OffloadedOptimizer::Fetch});
    plan.training.gradient_clipping = clips;
    EXPECT_EQ(traffic_of(lower(plan), "adam"),
              (Traffic{1, (clips ? 38 : 30) * parameter_count(plan.architecture)}));
  }
}

// Has the state that is fetched weights only where these are its master copy and on the host? The
// moments take 4 + 4 bytes and a master copy 4. Weights without one that stay on the GPU are not
// copied, and neither are those on the host that have one.
TEST(Offload, FetchedStateHasNoWeightsBesideMasters) {
  for (const auto& [on_host, master, each] :
       {std::tuple{false, 4.0, 12}, {false, 0.0, 8}, {true, 4.0, 12}}) {
    TrainingPlan plan = offloaded({.optimizer = OffloadedOptimizer::Fetch, .weights = on_host});
    plan.recipe.master_bytes = master;
    const Workload workload = lower(plan);
    std::int64_t fetched = 0;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == "optimizer_state_fetch")
        fetched += bytes_of(workload.calls[view.op.payload]);
    });
    EXPECT_EQ(fetched, each * parameter_count(plan.architecture)) << on_host << " " << master;
  }
}

// Are weights fetched for every use? Those of each layer are fetched for its forward and for its
// backward, one layer ahead, and at most two layers are on the GPU. The optimizer stores new ones.
TEST(Offload, WeightsComeForEveryUse) {
  const TrainingPlan plan = offloaded({.weights = true});
  const Step step = played(plan, 0.5);
  const ChunkWeights weights =
      chunk_weights(weight_options(plan),
                    {.first_layer = 0, .layers = 4, .has_embedding = true, .has_head = true});
  std::int64_t layers = 0;
  for (const WeightUnit& unit : weights.units)
    if (unit.is_layer()) layers += 2 * weights.parameters(unit);
  EXPECT_EQ(copied(step.workload)[HostDirection::FromHost], 2 * 2 * layers);
  EXPECT_EQ(copied(step.workload)[HostDirection::ToHost], layers);
  expect_returned(step.workload);
  std::int64_t most = 0;
  for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
    most = std::max(most, point.by_category[static_cast<std::size_t>(Category::UnshardedWeights)]);
  EXPECT_EQ(most, layers / 2);
  EXPECT_EQ(host_memory_peak(step.workload, step.partition, step.timeline, 0), layers);
}

std::int64_t bytes_of_layers(const TrainingPlan& plan, bool reached) {
  const ChunkWeights weights = chunk_weights(weight_options(plan), {0, 4, true, true});
  std::int64_t bytes = 0;
  for (const WeightUnit& unit : weights.units)
    if (unit.is_layer() && (unit.reached || !reached))
      bytes += unit_bytes(weight_options(plan), weights, unit);
  return bytes;
}

// Does each new weight come to where the next step reads it? Those of embedding and head stay on
// the GPU and those of the layers on the host, whoever updates them. Gradients have 4 bytes, state
// 12 beside weights of 2, or 8 beside weights that are their own master copy.
TEST(Offload, NewWeightsComeToTheirPlace) {
  for (const double master : {4.0, 0.0}) {
    TrainingPlan plan = offloaded({.optimizer = OffloadedOptimizer::Cpu, .weights = true});
    plan.recipe.master_bytes = master;
    const std::int64_t all = parameter_count(plan.architecture);
    const std::int64_t layers = bytes_of_layers(plan, false) / 2;
    const std::int64_t used = 2 * 2 * 2 * layers;  // in forward and backward of two microbatches
    const std::int64_t own = master > 0.0 ? 0 : 2 * layers;  // fetched once more for the update
    std::map<HostDirection, std::int64_t> bytes = copied(lower(plan));
    EXPECT_EQ(bytes[HostDirection::ToHost], 4 * all);
    EXPECT_EQ(bytes[HostDirection::FromHost], used + 2 * (all - layers));

    plan.offload.optimizer = OffloadedOptimizer::Fetch;
    const std::int64_t state = static_cast<std::int64_t>(8.0 + master) * all;
    bytes = copied(lower(plan));
    EXPECT_EQ(bytes[HostDirection::ToHost], state + 2 * layers);
    EXPECT_EQ(bytes[HostDirection::FromHost], used + state + own);

    plan.offload.optimizer = OffloadedOptimizer::None;
    const Workload workload = lower(plan);
    expect_returned(workload);
    bytes = copied(workload);
    EXPECT_EQ(bytes[HostDirection::ToHost], 2 * layers);
    EXPECT_EQ(bytes[HostDirection::FromHost], used + own);
  }
}

// Are all weights of a layer fetched? Experts, adapters, and frozen weights in their stored bits:
// all of a layer for the forward, and once more if a gradient passes through it.
TEST(Offload, AllWeightsOfALayerCome) {
  std::vector<TrainingPlan> plans;
  for (const FrozenFormat format : {FrozenFormat::AsTrained, FrozenFormat::Nf4}) {
    plans.push_back(offloaded({.weights = true}));
    plans.back().training.lora_rank = 8;
    plans.back().training.frozen_weights = format;
  }
  for (const bool ends : {false, true}) {
    plans.push_back(offloaded({.weights = true}));
    plans.back().training.frozen_layers = {0, 1};
    plans.back().training.frozen_embedding = plans.back().training.frozen_head = ends;
  }
  plans.push_back(plan_of(small_moe(4), {.data = 4, .expert = 4, .expert_tensor = 1}, 2));
  plans.back().offload.weights = true;
  for (const TrainingPlan& plan : plans) {
    const Step step = played(plan, 0.5);
    expect_returned(step.workload);
    const std::int64_t all = bytes_of_layers(plan, false);
    EXPECT_EQ(copied(step.workload)[HostDirection::FromHost],
              2 * (all + bytes_of_layers(plan, true)));
    EXPECT_EQ(host_memory_peak(step.workload, step.partition, step.timeline, 0), all);
    const auto resident = resident_bytes(step.workload, step.workload.programs[0]);
    EXPECT_GT(resident[static_cast<std::size_t>(Category::Weights)], 0) << "embedding and head";
  }
}

// Is the size of a layer correct? It includes the experts of a rank; in 4 bits it is at most a
// seventh of the bytes.
TEST(Offload, BytesOfALayer) {
  TrainingPlan plan = offloaded({.weights = true});
  const std::int64_t layer = bytes_of_layers(plan, false) / 4;
  EXPECT_EQ(layer, 2 * (256 * (256 + 2 * 128) + 256 * 256 + 3 * 256 * 512 + 2 * 256));
  plan.training.lora_rank = 8;
  plan.training.frozen_weights = FrozenFormat::Nf4;
  const std::int64_t matrices = layer / 2 - 2 * 256;
  const std::int64_t adapters = adapter_parameters(plan.architecture, plan.training) / 4;
  EXPECT_NEAR(static_cast<double>(bytes_of_layers(plan, false)) / 4.0,
              frozen_bytes(plan.training) * static_cast<double>(matrices) +
                  2.0 * static_cast<double>(2 * 256 + adapters),
              1.0);
}

// Does a recomputed group read its weights once more? Two groups of two layers: 4 fetches forward,
// 4 for the recomputation, and for each group the first layer once more for its backward.
TEST(Offload, AGroupThatIsComputedAgainReadsItsWeightsOnceMore) {
  TrainingPlan plan = offloaded({.activations = 1.0, .weights = true}, 1);
  plan.training.recompute = Recompute::Full;
  for (const auto& [together, uses] : {std::pair{1, 8}, {2, 10}, {4, 11}}) {
    plan.training.recompute_num_layers = together;
    const Step step = played(plan, 0.5);
    expect_returned(step.workload);
    const std::int64_t layer = bytes_of_layers(plan, false) / 4;
    std::int64_t fetched = 0;
    for_each_operation(step.workload, step.workload.programs[0], [&](const OperationView& view) {
      if (view.name == "weight_fetch") fetched += bytes_of(step.workload.calls[view.op.payload]);
    });
    EXPECT_EQ(fetched, uses * layer) << together;
    for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
      EXPECT_LE(point.by_category[static_cast<std::size_t>(Category::UnshardedWeights)], 2 * layer);
  }
}

TrainingPlan infinity(std::int64_t reshard) {
  TrainingPlan plan =
      plan_of(small_llama(4), {.data = 4, .zero_stage = 3, .reshard_group = reshard}, 2);
  plan.offload = {.optimizer = OffloadedOptimizer::Cpu, .weights = true};
  plan.host.bandwidth = BytesPerSecond{1e9};
  return plan;
}

// Are shards fetched before they are gathered (ZeRO 3)? The rank's fp32 shard is fetched before
// every gather, 4P/s bytes, except when the backward starts from weights kept on the GPU. Its
// gradients are stored, 4P/s once, and no weight stays on the GPU.
TEST(Offload, ShardsComeBeforeTheyAreGathered) {
  for (const std::int64_t reshard : {0, 2}) {
    const TrainingPlan plan = infinity(reshard);
    const Step step = played(plan, 0.5);
    expect_returned(step.workload);
    const std::int64_t all = parameter_count(plan.architecture);
    const std::int64_t layers = bytes_of_layers(plan, false) / 2;
    const std::int64_t uses = all - layers + (reshard > 0 ? 1 : 2) * layers;
    EXPECT_EQ(copied(step.workload)[HostDirection::FromHost], 2 * 4 * uses / 4);
    EXPECT_EQ(copied(step.workload)[HostDirection::ToHost], 4 * all / 4);
    const auto resident = resident_bytes(step.workload, step.workload.programs[0]);
    EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)], 0);
    EXPECT_EQ(host_memory_peak(step.workload, step.partition, step.timeline, 0), (4 + 8) * all / 4);
  }
}

// Are shards fetched as wide as they are stored, whether trained or frozen? Recipes store a weight
// in 2 bytes, in 1 beside a copy of 1, or in 2 beside a copy of 2.
TEST(Offload, ShardsComeAsWideAsTheyAreStored) {
  for (const auto& [recipe, each] :
       {std::pair{"standard", 4}, {"pure_16bit", 2}, {"fp8", 1 + 1}, {"fp8_cached", 2 + 2}}) {
    for (const std::vector<std::int64_t>& frozen : {std::vector<std::int64_t>{}, {1, 2}}) {
      TrainingPlan plan = infinity(0);
      plan.recipe = load_recipe(recipe);
      plan.training.frozen_layers = frozen;
      const std::int64_t all = parameter_count(plan.architecture);
      const std::int64_t uses = all + bytes_of_layers(plan, false) / 2;
      EXPECT_EQ(copied(lower(plan))[HostDirection::FromHost], 2 * each * uses / 4) << recipe;
    }
  }
}

// Are shards updated on the GPU? The GPU's own step copies weights and moments in both directions.
TEST(Offload, ShardsAreUpdatedOnTheGpu) {
  TrainingPlan plan = infinity(0);
  plan.offload.optimizer = OffloadedOptimizer::Fetch;
  const Workload workload = lower(plan);
  expect_returned(workload);
  EXPECT_EQ(copied(workload)[HostDirection::ToHost], 12 * parameter_count(plan.architecture) / 4);
  plan.offload.optimizer = OffloadedOptimizer::None;
  EXPECT_EQ(copied(lower(plan))[HostDirection::ToHost], 4 * parameter_count(plan.architecture) / 4)
      << "the shards, which are in fp32";
}

// Are the shards of experts and of frozen weights fetched too?
TEST(Offload, ShardsOfExpertsAndFrozenWeightsComeToo) {
  TrainingPlan experts = plan_of(
      small_moe(4), {.data = 8, .expert = 2, .expert_tensor = 1, .zero_stage = 3, .shard = 4}, 2);
  experts.offload.weights = true;
  TrainingPlan adapted = infinity(0);
  adapted.training.lora_rank = 8;
  adapted.training.frozen_weights = FrozenFormat::Nf4;
  for (const TrainingPlan& plan : {experts, adapted}) {
    const Workload workload = lower(plan);
    expect_returned(workload);
    const auto resident = resident_bytes(workload, workload.programs[0]);
    EXPECT_NEAR(static_cast<double>(resident[static_cast<std::size_t>(Category::Weights)]), 0.0,
                2.0);
    EXPECT_GT(copied(workload)[HostDirection::FromHost], 0);
  }
}

}  // namespace
}  // namespace trainyard
