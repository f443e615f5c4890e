// Frozen layers: no gradient of their weights, no state, no reduction, and no backward if nothing
// before them is trained.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "models/trained_weights.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan frozen(std::vector<std::int64_t> layers, bool ends, const Parallelism& parallelism) {
  TrainingPlan plan = plan_of(small_llama(4), parallelism, 2);
  plan.training.frozen_layers = std::move(layers);
  plan.training.frozen_embedding = plan.training.frozen_head = ends;
  return plan;
}

// How far does the backward go?
TEST(Frozen, HowFarTheBackwardGoes) {
  EXPECT_EQ(trained_weights(frozen({}, false, {})).first, -1);
  EXPECT_EQ(trained_weights(frozen({0, 1}, true, {})).first, 2);
  EXPECT_EQ(trained_weights(frozen({0, 1, 2, 3}, true, {})).first, 5);
  const TrainingPlan middle = frozen({1}, false, {});
  const TrainedWeights trained = trained_weights(middle);
  EXPECT_TRUE(trained.reaches(0));
  EXPECT_TRUE(trained.reaches(1));
  EXPECT_FALSE(trained.layer(1));
}

// Are only the needed FLOPs executed? Per token and weight 2 forward, 2 for the input's gradient if
// it is needed, 2 for the weight's if it is trained; the core has 2 forward and 5 backward.
TEST(Frozen, FlopsAreThoseThatAreNeeded) {
  const double weights = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 512;
  const double tokens = 2 * 128.0;
  const double core = 4.0 * 2.0 * (128.0 * 129.0 / 2.0) * 256.0;  // forward, of one layer
  const double head = 256.0 * 2048.0;
  const auto flops = [](const TrainingPlan& plan) { return executed_flops(lower(plan)).value(); };
  // Two layers before the first trained one: only the forward.
  const double first = 2 * (2.0 * tokens * weights + core) +
                       2 * (6.0 * tokens * weights + 3.5 * core) + 4.0 * tokens * head;
  EXPECT_NEAR(flops(frozen({0, 1}, true, {})), first, 1e-12 * first);
  // One layer in the middle: its input gradient is still needed.
  const double middle =
      3 * 6.0 * tokens * weights + 4.0 * tokens * weights + 4 * 3.5 * core + 6.0 * tokens * head;
  EXPECT_NEAR(flops(frozen({2}, false, {})), middle, 1e-12 * middle);
}

// Does a frozen layer of latent attention keep what a trained one keeps? What it could spare has no
// formula.
TEST(Frozen, ALayerOfLatentAttentionKeepsItsActivations) {
  const TrainingPlan plan = plan_of(with_latents(small_llama(2)), {}, 2);
  const MemoryOptions options = memory_options(plan);
  const LayerKind kind = layer_kind(plan.architecture, 0);
  EXPECT_EQ(layer_memory(options, kind, {}, false).kept, layer_memory(options, kind).kept);
}

// Does a frozen layer keep the same with every precision of GEMMs, and where inputs are kept
// gathered? It keeps, for each of 128 tokens, the inputs of both norms, queries, keys, values, the
// core's output and statistics, and the inputs of the activation: 16 bits each, 4672 bytes.
TEST(Frozen, ALayerKeepsNoInputsOfGemms) {
  for (const char* recipe : {"standard", "fp8"}) {
    for (const std::int64_t tensor : {1, 2}) {
      TrainingPlan plan =
          plan_of(small_llama(4), {.tensor = tensor, .sequence_parallel = tensor > 1}, 2);
      plan.recipe = load_recipe(recipe);
      for (const bool gathered : {false, true}) {
        plan.elementwise_kernels.keeps_gathered = gathered;
        const LayerKind kind = layer_kind(plan.architecture, 0);
        EXPECT_EQ(layer_memory(memory_options(plan), kind, {}, false).kept, 128 * 4672 / tensor)
            << recipe << tensor << gathered;
      }
    }
  }
}

// Do frozen layers have no state and no reduction, and is all memory freed?
TEST(Frozen, NeitherStateNorReductionNorLeak) {
  const TrainingPlan all = frozen({}, false, {.data = 2});
  const TrainingPlan some = frozen({0, 1}, true, {.data = 2});
  const std::int64_t layer = layer_shard(all.architecture, layer_kind(all.architecture, 0)).total();
  const auto reduced = [](const Workload& workload) {
    std::int64_t bytes = 0;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == "gradient_all_reduce") bytes += bytes_of(workload.calls[view.op.payload]);
    });
    return bytes;
  };
  const Workload workload = lower(some);
  EXPECT_EQ(reduced(workload), 4 * 2 * layer);
  const auto resident = resident_bytes(workload, workload.programs[0]);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)],
            2 * parameter_count(all.architecture));
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)], 4 * 2 * layer);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::OptimizerState)], 12 * 2 * layer);
  for (const std::int64_t bytes : unreturned_bytes(workload, workload.programs[0]))
    EXPECT_EQ(bytes, 0);
}

// Layers that are recomputed together, of which the first ones are frozen: is their common input
// kept until the backward ends among them, and is everything freed then? A step of more
// microbatches needs no more memory.
TEST(Frozen, TheBackwardMayEndWithinLayersThatAreRecomputedTogether) {
  const auto peak_of = [](std::int64_t microbatches) {
    TrainingPlan plan = plan_of(small_llama(4), {}, microbatches);
    plan.training.frozen_layers = {0, 1, 2};
    plan.training.frozen_embedding = true;
    plan.training.recompute = Recompute::Full;
    plan.training.recompute_num_layers = 4;
    const Workload workload = lower(plan);
    const Program& program = workload.programs[0];
    for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
    std::int64_t held = 0, most = 0;
    program.for_each_effect([&](OpIndex, const Operation&, const MemoryEffect& effect) {
      held += effect.bytes;
      most = std::max(most, held);
    });
    return most;
  };
  EXPECT_EQ(peak_of(4), peak_of(2));
}

// Does a stage before the first trained weight have no backward? It sends its output and receives
// no gradient.
TEST(Frozen, PipelineStagesBeforeItHaveNoBackward) {
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1"}) {
    TrainingPlan plan = frozen({0, 1}, true, {.pipeline = 2, .schedule = schedule});
    plan.training.global_batch_size = 4;
    const Workload workload = lower(plan);
    ASSERT_NO_THROW(validate(workload, ""));
    ASSERT_NO_THROW(check_progress(workload, ""));
    for (const Program& program : workload.programs) {
      for_each_operation(workload, program, [&](const OperationView& view) {
        EXPECT_NE(view.name, "send_backward");
        EXPECT_FALSE(program.stage == 0 && view.op.part == StepPart::Backward) << view.name;
      });
      for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
    }
  }
}

// Frozen layers with weights that are gathered layer by layer.

struct Moved {
  std::int64_t gathered = 0;
  std::int64_t gathers = 0;
  std::int64_t reduced = 0;
};

Moved moved_by(const Workload& workload) {
  Moved moved;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.kind != OpKind::Collective) return;
    const Call& call = workload.calls[view.op.payload];
    if (view.name == "weight_all_gather") moved.gathered += bytes_of(call), ++moved.gathers;
    if (view.name == "gradient_reduce_scatter") moved.reduced += bytes_of(call);
  });
  return moved;
}

TrainingPlan sharded(TrainingPlan plan) {
  plan.parallelism.data = 4;
  plan.parallelism.zero_stage = 3;
  plan.training.global_batch_size = 4;
  return plan;
}

void expect_all_back(const Workload& workload) {
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  for (const Program& program : workload.programs)
    for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
}

// Are weights gathered where they are needed, and gradients reduced where they are trained? The
// forward needs all weights, the backward those through which a gradient passes.
TEST(FrozenShards, GatheredWhereNeededAndReducedWhereTrained) {
  const std::int64_t layer = layer_shard(small_llama(4), layer_kind(small_llama(4), 0)).total();
  const std::int64_t root = parameter_count(small_llama(4)) - 4 * layer;
  const auto first = moved_by(lower(sharded(frozen({0, 1}, true, {}))));
  EXPECT_EQ(first.gathers, 1 + 4 + 2);
  EXPECT_EQ(first.gathered, 2 * (root + 6 * layer));
  EXPECT_EQ(first.reduced, 4 * 2 * layer);
  const auto middle = moved_by(lower(sharded(frozen({2}, false, {}))));
  EXPECT_EQ(middle.gathers, 1 + 4 + 4);
  EXPECT_EQ(middle.gathered, 2 * (root + 8 * layer));
  EXPECT_EQ(middle.reduced, 4 * (root + 3 * layer));
}

// Does a rank hold its share of the state, and is all memory freed? Even if nothing in it is
// trained, the group of the head is needed until the last backward.
TEST(FrozenShards, HoldTheirShareAndGiveAllBack) {
  for (const bool ends : {false, true}) {
    const TrainingPlan plan = sharded(frozen({0, 3}, ends, {}));
    const Workload workload = lower(plan);
    expect_all_back(workload);
    const std::int64_t all = parameter_count(plan.architecture);
    const std::int64_t layer =
        layer_shard(plan.architecture, layer_kind(plan.architecture, 0)).total();
    const std::int64_t trained = ends ? 2 * layer : all - 2 * layer;
    const auto resident = resident_bytes(workload, workload.programs[0]);
    EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)], 4 * all / 4);
    EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)], 4 * trained / 4);
    EXPECT_EQ(resident[static_cast<std::size_t>(Category::OptimizerState)], 8 * trained / 4);
  }
}

// Does sharding of frozen layers work on pipelines and with every kind of reshard?
TEST(FrozenShards, OnPipelinesAndEveryKindOfReshard) {
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1"}) {
    for (const Reshard reshard : {Reshard::Auto, Reshard::Always, Reshard::Never}) {
      for (const std::int64_t adapters : {0, 8}) {
        TrainingPlan plan = sharded(
            frozen({0, 1}, adapters == 0,
                   {.pipeline = 2, .schedule = schedule, .reshard_after_forward = reshard}));
        plan.training.lora_rank = adapters;
        plan.training.global_batch_size = 4 * 4;
        expect_all_back(lower(plan));
      }
    }
  }
}

// Are only adapters reduced, and 4-bit weights gathered as stored? The gather of a layer carries
// its matrices in four bits (QLoRA) and its adapters.
TEST(FrozenShards, AdaptersAreReducedAndFourBitsGathered) {
  TrainingPlan plan = sharded(frozen({}, false, {}));
  plan.training.lora_rank = 8;
  const Architecture& a = plan.architecture;
  const std::int64_t trained = adapter_parameters(a, plan.training);
  const LayerShard layer = layer_shard(a, dense_layer(a), {.tensor = 1});
  const std::int64_t root = parameter_count(a) - 4 * layer.total();
  const auto whole = moved_by(lower(plan));
  EXPECT_EQ(whole.gathered, 2 * (root + 2 * (4 * layer.total() + trained)));
  EXPECT_EQ(whole.reduced, 4 * trained);
  plan.training.frozen_weights = FrozenFormat::Nf4;
  const Workload workload = lower(plan);
  expect_all_back(workload);
  const double matrices = frozen_bytes(plan.training) * static_cast<double>(4 * layer.sharded);
  const auto others = static_cast<double>(root + 4 * layer.replicated);
  const auto packed = moved_by(workload);
  EXPECT_NEAR(static_cast<double>(packed.gathered),
              2.0 * matrices + 2.0 * (others + static_cast<double>(4 * layer.replicated)) +
                  4.0 * static_cast<double>(trained),
              8.0);
  EXPECT_EQ(packed.reduced, 4 * trained);
  const auto held = resident_bytes(workload, workload.programs[0]);
  EXPECT_NEAR(static_cast<double>(held[static_cast<std::size_t>(Category::Weights)]),
              (matrices + 2.0 * others + 4.0 * static_cast<double>(trained)) / 4.0, 2.0);
}

// Are adapters only on the layers that are not frozen?
TEST(Frozen, AdaptersStandOnTheOtherLayersAlone) {
  TrainingPlan plan = frozen({0, 1}, false, {});
  plan.training.lora_rank = 8;
  const Workload workload = lower(plan);
  int adapted = 0;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.name != "query_adapter_in") return;
    ++adapted;
    EXPECT_GE(view.op.layer, 2);
  });
  EXPECT_EQ(adapted, 2 * 2);
  const auto resident = resident_bytes(workload, workload.programs[0]);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)],
            4 * adapter_parameters(plan.architecture, plan.training) / 2);
  for (const std::int64_t bytes : unreturned_bytes(workload, workload.programs[0]))
    EXPECT_EQ(bytes, 0);
}

}  // namespace
}  // namespace trainyard
