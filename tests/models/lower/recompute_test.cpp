// Recomputation in the backward: units of layers by each method, modules by name, and that the run
// repeats exactly those kernels and holds exactly those bytes.
#include "models/recompute.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload_json.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"
#include "tests/models/architecture/step_flops.hpp"

namespace trainyard {
namespace {

using namespace test;

Training full(RecomputeMethod method, std::int64_t layers) {
  Training training;
  training.recompute = Recompute::Full;
  training.recompute_method = method;
  training.recompute_num_layers = layers;
  return training;
}

// Which layers do the methods uniform, block and every recompute?
TEST(RecomputeUnits, UniformGroupsBlockHeadsEverySoMany) {
  using Units = std::vector<RecomputeUnit>;
  EXPECT_EQ(recompute_units(full(RecomputeMethod::Uniform, 4), {.layers = 10}),
            (Units{{0, 4, true}, {4, 4, true}, {8, 2, true}}));
  EXPECT_EQ(recompute_units(full(RecomputeMethod::Block, 2), {.layers = 4}),
            (Units{{0, 1, true}, {1, 1, true}, {2, 1, false}, {3, 1, false}}));
  EXPECT_EQ(recompute_units(full(RecomputeMethod::Every, 2), {.layers = 3}),
            (Units{{0, 1, true}, {1, 1, false}, {2, 1, true}}));
  EXPECT_EQ(recompute_units(Training{}, {.layers = 2}), (Units{{0, 1, false}, {1, 1, false}}));
}

Training fraction(double of_each_chunk) {
  Training training = full(RecomputeMethod::Fraction, 1);
  training.recompute_fraction = of_each_chunk;
  return training;
}

Training listed(std::vector<std::int64_t> layers) {
  Training training = full(RecomputeMethod::Layers, 1);
  training.recompute_layers = std::move(layers);
  return training;
}

// Is a fraction the first layers of a chunk, rounded down?
TEST(RecomputeUnits, AFractionIsTheFirstLayersOfAChunkRoundedDown) {
  for (std::int64_t layers = 1; layers <= 40; ++layers) {
    EXPECT_EQ(recompute_units(fraction(0.0), {.layers = layers}),
              recompute_units(Training{}, {.layers = layers}));
    EXPECT_EQ(recompute_units(fraction(1.0), {.layers = layers}),
              recompute_units(full(RecomputeMethod::Uniform, 1), {.layers = layers}));
    for (std::int64_t k = 1; k <= layers; ++k) {
      const double share = static_cast<double>(k) / static_cast<double>(layers);
      EXPECT_EQ(recompute_units(fraction(share), {.layers = layers}),
                recompute_units(full(RecomputeMethod::Block, k), {.layers = layers}))
          << k << " of " << layers;
      EXPECT_EQ(recompute_units(fraction(share - 0.001), {.layers = layers}),
                k == 1 ? recompute_units(Training{}, {.layers = layers})
                       : recompute_units(full(RecomputeMethod::Block, k - 1), {.layers = layers}))
          << "less than " << k << " of " << layers;
    }
  }
}

// Does a list count the layers of the whole model?
TEST(RecomputeUnits, AListCountsLayersOfTheWholeModel) {
  using Units = std::vector<RecomputeUnit>;
  const Training training = listed({7, 0, 4});
  EXPECT_EQ(recompute_units(training, {.layers = 3}),
            (Units{{0, 1, true}, {1, 1, false}, {2, 1, false}}));
  EXPECT_EQ(recompute_units(training, {.first = 3, .layers = 3}),
            (Units{{0, 1, false}, {1, 1, true}, {2, 1, false}}));
  EXPECT_EQ(recompute_units(training, {.first = 6, .layers = 2}),
            (Units{{0, 1, false}, {1, 1, true}}));
}

// Are MTP layers counted after the last chunk? Each is a separate unit after those of the model:
// groups end before the head.
TEST(RecomputeUnits, FurtherLayersAreCountedBehindTheLastChunk) {
  using Units = std::vector<RecomputeUnit>;
  const LayerSpan last{.first = 6, .layers = 3, .mtp_layers = 2};
  EXPECT_EQ(recompute_units(full(RecomputeMethod::Uniform, 4), last),
            (Units{{0, 3, true}, {3, 1, true}, {4, 1, true}}));
  EXPECT_EQ(recompute_units(listed({8, 10}), last),
            (Units{{0, 1, false}, {1, 1, false}, {2, 1, true}, {3, 1, false}, {4, 1, true}}));
  EXPECT_EQ(recompute_units(full(RecomputeMethod::Block, 4), last),
            (Units{{0, 1, true}, {1, 1, true}, {2, 1, true}, {3, 1, false}, {4, 1, false}}));
}

TrainingPlan one_rank(const Architecture& model) { return plan_of(model, Parallelism{}, 1); }

std::map<std::string, int> repeated(const TrainingPlan& plan) {
  std::map<std::string, int> names;
  const Workload workload = lower(plan);
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.part == StepPart::Recompute) ++names[std::string(view.name)];
  });
  return names;
}

// Are recomputed modules repeated kernel by kernel?
TEST(RecomputedModules, RunAgainKernelByKernel) {
  TrainingPlan plan = one_rank(small_llama(2));
  plan.training.recompute = Recompute::Selective;
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{{"attention", 2}}));
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"layernorm"});
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{{"attention_norm", 2}, {"ffn_norm", 2}}));
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"mlp"});
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{
                                {"ffn_up_gemm", 2}, {"ffn_activation", 2}, {"ffn_down_gemm", 2}}));
}

Architecture latent_experts(std::int64_t layers) {
  Architecture a = small_llama(layers);
  a.experts = 8;
  a.experts_per_token = 2;
  a.expert_ffn = 128;
  a.shared_ffn = 64;
  return with_latents(a);
}

using Names = std::map<std::string, int>;

// Are recomputed modules of experts and latent attention repeated kernel by kernel?
TEST(RecomputedModules, OfExpertsAndLatentsRunAgainKernelByKernel) {
  TrainingPlan plan = one_rank(latent_experts(2));
  plan.training.recompute = Recompute::Selective;
  const auto recomputed = [&](const std::vector<std::string>& modules) {
    plan.training.recompute_modules = flags_of(kRecomputeModules, modules);
    return repeated(plan);
  };
  EXPECT_EQ(recomputed({"moe_act"}), (Names{{"expert_activation", 2}}));
  EXPECT_EQ(recomputed({"layernorm"}), (Names{{"attention_norm", 2}, {"ffn_norm", 2}}));
  EXPECT_EQ(recomputed({"shared_experts"}),
            (Names{{"shared_up_gemm", 2}, {"shared_activation", 2}, {"shared_down_gemm", 2}}));
  EXPECT_EQ(recomputed({"mla_up_proj"}), (Names{{"query_down_norm", 2},
                                                {"query_gemm", 2},
                                                {"key_value_down_norm", 2},
                                                {"key_value_gemm", 2},
                                                {"rope", 2},
                                                {"key_assembly", 2}}));
  const Names moe = recomputed({"moe"});
  EXPECT_EQ(moe.at("router_gemm"), 2);
  EXPECT_EQ(moe.at("expert_up_gemm"), 2);
  EXPECT_EQ(moe.at("expert_down_gemm"), 2);
  EXPECT_EQ(moe.at("shared_down_gemm"), 2);
  EXPECT_EQ(moe.count("attention_norm"), 0U);
}

// Does a recomputed expansion gather what it multiplies? Latents are stored in parts of the
// sequence under sequence parallelism, and the positional columns gathered. Queries that are not
// compressed come from the layer's input.
TEST(RecomputedModules, LatentsAreGatheredAgain) {
  TrainingPlan plan =
      plan_of(latent_experts(2), {.tensor = 2, .sequence_parallel = true, .expert_tensor = 1}, 1);
  plan.training.recompute = Recompute::Selective;
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"mla_up_proj"});
  const auto gathered = [&] {
    const Workload workload = lower(plan);
    std::map<std::string, std::int64_t> bytes;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.op.part == StepPart::Recompute && view.op.kind == OpKind::Collective)
        bytes[std::string(view.name)] += bytes_of(workload.calls[view.op.payload]);
    });
    return bytes;
  };
  using Gathers = std::map<std::string, std::int64_t>;
  EXPECT_EQ(gathered(), (Gathers{{"query_down_all_gather", 2 * 128 * 96 * 2},
                                 {"key_value_down_all_gather", 2 * 128 * 64 * 2}}));
  const auto kept = [&] {
    return layer_memory(memory_options(plan), moe_layer(plan.architecture), 256).kept;
  };
  const std::int64_t with = kept();
  plan.training.recompute = Recompute::None;
  EXPECT_EQ(kept() - with, 128 * 2 * (2 * 16 * 24 + 16 * 16 + 96 + 64) / 2 - 128 * 2 * 8);
  plan.training.recompute = Recompute::Selective;
  plan.architecture.query_latent = 0;
  EXPECT_EQ(gathered(), (Gathers{{"attention_all_gather", 2 * 128 * 256 * 2},
                                 {"key_value_down_all_gather", 2 * 128 * 64 * 2}}));
  EXPECT_EQ(repeated(plan).at("query_gemm"), 2);
}

// Do recomputed modules of experts and latents keep the bytes of the formula? T = 128 tokens, two
// rows each. The tensors of a module are no longer kept, and exist while its layer's backward runs.
TEST(RecomputedModules, OfExpertsAndLatentsKeepWhatTheFormulaSays) {
  TrainingPlan plan = one_rank(latent_experts(2));
  const std::int64_t rows = 128 * 2;
  const auto memory = [&] {
    return layer_memory(memory_options(plan), moe_layer(plan.architecture), rows);
  };
  const std::int64_t everything = memory().kept;
  const std::int64_t heads = 2 * 16 * 24 + 2 * 16 * 16;  // queries, keys; values, output
  EXPECT_EQ(everything, 128 * 2 * (4 * 256 + 2 * (96 + 64) + 8 + heads + 3 * 64) +
                            128 * 4 * (16 + 8) + rows * 2 * (256 + 3 * 128));
  plan.training.recompute = Recompute::Selective;
  const auto kept = [&](const std::vector<std::string>& modules) {
    plan.training.recompute_modules = flags_of(kRecomputeModules, modules);
    EXPECT_EQ(memory().everything(), everything);
    return memory().kept;
  };
  EXPECT_EQ(kept({"moe_act"}), everything - rows * 2 * 128);
  EXPECT_EQ(kept({"layernorm"}), everything - 128 * 2 * 2 * 256);
  EXPECT_EQ(kept({"shared_experts"}), everything - 128 * 2 * 3 * 64);
  EXPECT_EQ(kept({"mla_up_proj"}), everything - 128 * 2 * (heads - 16 * 16 + 96 + 64));
  EXPECT_EQ(kept({"moe"}), everything - 128 * (2 * 3 * 64 + 4 * 8) - rows * 2 * (256 + 3 * 128));
}

// Do narrow inputs keep the bytes of the formula? fp8 recipes keep the inputs of GEMMs, and of
// activations, in w bytes per number instead of 2, and attention's output in addition to the
// projection's input.
TEST(NarrowInputs, KeepWhatTheFormulaSays) {
  TrainingPlan plan = one_rank(small_llama(2));
  const std::int64_t flash = 4 * 16;
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            128 * (8 * 256 + 4 * 256 + 4 * 128 + 6 * 512 + flash));
  plan.recipe.gemm_input_bytes = 1.0;
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            128 * ((4 + 2) * 256 + (4 + 1) * 256 + 4 * 128 + (4 + 1) * 512 + flash));
  plan.recipe.activation_input_bytes = 1.0;
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            128 * ((4 + 2) * 256 + (4 + 1) * 256 + 4 * 128 + (2 + 1) * 512 + flash));
  plan.recipe.attention_output_bytes = 1.5;  // one copy for attention and the projection
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            128 * ((4 + 2) * 256 + 2 * 256 + 256 * 3 / 2 + 4 * 128 + (2 + 1) * 512 + flash));
}

// Does checkpointing by operation keep one half of the GEMMs and repeat the other? PyTorch's
// variant keeps the layer's input, queries, values, attention's output, the gate and the down
// GEMM's output.
TEST(SecondGemms, KeepAndRepeatTheOtherHalf) {
  TrainingPlan plan = one_rank(small_llama(2));
  plan.training.recompute = Recompute::Selective;
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"every_second_gemm"});
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            128 * (2 * (2 * 256 + 256 + 128 + 256 + 512) + 4 * 16));
  EXPECT_EQ(repeated(plan), (Names{{"attention_norm", 2},
                                   {"key_gemm", 2},
                                   {"rope", 2},
                                   {"projection_gemm", 2},
                                   {"attention_residual", 2},
                                   {"ffn_norm", 2},
                                   {"ffn_up_gemm", 2},
                                   {"ffn_activation", 2}}));
  const FlopsQuery query{.sequences = plan.training.global_batch_size,
                         .sequence_length = plan.training.sequence_length,
                         .vocab = plan.vocab()};
  const Flops extra = recomputed_flops(plan.architecture, query, Recompute::Selective,
                                       plan.training.recompute_modules);
  EXPECT_EQ(extra.value(), 2 * 2.0 * 128 * 256 * (128 + 256 + 512));
  const double with = executed_flops(lower(plan)).value();
  plan.training.recompute = Recompute::None;
  EXPECT_EQ(with - executed_flops(lower(plan)).value(), extra.value());
}

// The peak of activations, whatever else is held.
std::int64_t activation_peak(const TrainingPlan& plan) {
  const Step step = replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
  std::int64_t peak = 0;
  for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0)) {
    peak = std::max(peak, point.by_category[static_cast<std::size_t>(Category::Activations)]);
  }
  return peak;
}

// Do recomputed modules keep the bytes of the formula? A layer has sb(8h + 4q + 4k + 6f) + 4asb
// bytes, of which the norms' outputs are 4sbh and SwiGLU's tensors 6sbf.
TEST(RecomputedModules, KeepWhatTheFormulaSays) {
  TrainingPlan plan = one_rank(small_llama(4));
  const std::int64_t tokens = 128;
  const std::int64_t everything =
      layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept;
  EXPECT_EQ(everything, tokens * (8 * 256 + 4 * 256 + 4 * 128 + 6 * 512) + 4 * 16 * tokens);
  plan.training.recompute = Recompute::Selective;
  const auto kept = [&](const std::vector<std::string>& modules) {
    plan.training.recompute_modules = flags_of(kRecomputeModules, modules);
    return layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept;
  };
  EXPECT_EQ(kept({"core_attn"}), everything - 4 * 16 * tokens);
  EXPECT_EQ(kept({"layernorm"}), everything - 4 * 256 * tokens);
  EXPECT_EQ(kept({"mlp"}), everything - 6 * 512 * tokens);
  EXPECT_EQ(kept({"mlp", "layernorm"}), everything - (6 * 512 + 4 * 256) * tokens);
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).everything(),
            everything);
}

// Does uniform recomputation hold checkpoints and one group? Sixteen layers, n of which share a
// checkpoint, hold their inputs, and one group's layers in full minus its own input. The minimum is
// at n = 4, the square root.
TEST(RecomputedLayers, UniformHoldsCheckpointsAndOneGroup) {
  TrainingPlan plan = one_rank(small_llama(16));
  const LayerMemory none = layer_memory(memory_options(plan), dense_layer(plan.architecture));
  const std::int64_t input = 2 * 128 * 256;
  const std::int64_t ids = activation_peak(plan) - 16 * none.kept;  // of the embedding
  EXPECT_GE(ids, 0);
  for (const std::int64_t n : {1, 2, 4, 8, 16}) {
    plan.training = full(RecomputeMethod::Uniform, n);
    plan.training.sequence_length = 128;
    const std::int64_t wanted = 16 / n * input + n * none.kept - input;
    const std::int64_t other = activation_peak(plan) - wanted;
    EXPECT_GE(other, 0) << n;
    EXPECT_LE(other, 8 * 128 + 2 * input) << n << ": ids, and the inputs of final norm and head";
  }
}

// Are only the chosen layers recomputed? A whole layer costs its forward once more; block and every
// leave the others unchanged.
TEST(RecomputedLayers, OnlyTheChosenRunAgain) {
  for (const auto& [method, layers] :
       {std::pair{RecomputeMethod::Block, 3}, {RecomputeMethod::Every, 2}}) {
    TrainingPlan plan = one_rank(small_llama(6));
    plan.training = full(method, layers);
    plan.training.sequence_length = 128;
    EXPECT_EQ(repeated(plan)["attention"], 3) << word_for(kRecomputeMethods, method);
    EXPECT_EQ(recomputed_layers(plan), method == RecomputeMethod::Block
                                           ? (std::vector<bool>{1, 1, 1, 0, 0, 0})
                                           : (std::vector<bool>{1, 0, 1, 0, 1, 0}));
    const Workload workload = lower(plan);
    for (const Program& program : workload.programs)
      for (const std::int64_t left : unreturned_bytes(workload, program)) EXPECT_EQ(left, 0);
  }
}

TrainingPlan with(TrainingPlan plan, Training training) {
  training.sequence_length = plan.training.sequence_length;
  training.micro_batch_size = plan.training.micro_batch_size;
  training.global_batch_size = plan.training.global_batch_size;
  plan.training = training;
  return plan;
}

std::string printed(const TrainingPlan& plan) { return to_json(lower(plan)); }

// Twelve layers on two interleaved stages, which hold 0 to 2 and 6 to 8, and 3 to 5 and 9 to 11.
TrainingPlan interleaved() {
  Parallelism p;
  p.pipeline = 2;
  p.interleave = 2;
  p.schedule = "interleaved_1f1b";
  return plan_of(small_llama(12), p, 8);
}

// Do different settings that name the same layers give the same program, operation by operation?
TEST(RecomputedLayers, NamedInAnyWayAreTheSameProgram) {
  const TrainingPlan plan = interleaved();
  const auto text = [&plan](const Training& training) { return printed(with(plan, training)); };
  EXPECT_EQ(text(listed({0, 3, 6, 9})), text(full(RecomputeMethod::Block, 1)));
  EXPECT_EQ(text(listed({9, 8, 6, 5, 3, 2, 0, 11})), text(full(RecomputeMethod::Every, 2)));
  EXPECT_EQ(text(listed({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})),
            text(full(RecomputeMethod::Uniform, 1)));
  EXPECT_EQ(text(full(RecomputeMethod::Every, 1)), text(full(RecomputeMethod::Uniform, 1)));
  EXPECT_EQ(text(fraction(1.0)), text(full(RecomputeMethod::Uniform, 1)));
  EXPECT_EQ(text(fraction(2.0 / 3.0)), text(full(RecomputeMethod::Block, 2)));
  EXPECT_EQ(text(fraction(0.0)), text(Training{}));
  EXPECT_NE(text(listed({0})), text(listed({1})));
}

// Does recomputation on one stage leave the others unchanged? Layer 4 is only on the second stage,
// so the program of the first one is that without recomputation.
TEST(RecomputedLayers, OfOneStageLeaveTheOthersAlone) {
  const TrainingPlan plan = interleaved();
  const auto recomputed = [](const Workload& workload, std::size_t program) {
    std::set<std::int32_t> layers;
    for_each_operation(workload, workload.programs.at(program), [&](const OperationView& view) {
      if (view.op.part == StepPart::Recompute) layers.insert(view.op.layer);
    });
    return layers;
  };
  const Workload workload = lower(with(plan, listed({4, 9})));
  EXPECT_EQ(recomputed(workload, 0), (std::set<std::int32_t>{}));
  EXPECT_EQ(recomputed(workload, 1), (std::set<std::int32_t>{4, 9}));
}

// Does each further recomputed layer cost time and save memory? The FLOPs never fall, and the
// memory never grows.
TEST(RecomputedLayers, CostTimeAndSaveMemoryOneByOne) {
  const TrainingPlan plan = one_rank(small_llama(8));
  std::vector<std::int64_t> layers;
  double flops = executed_flops(lower(plan)).value();
  std::int64_t peak = activation_peak(plan);
  const double whole =
      executed_flops(lower(with(plan, full(RecomputeMethod::Uniform, 1)))).value() - flops;
  for (const std::int64_t layer : {5, 0, 7, 2, 1, 6, 3, 4}) {
    layers.push_back(layer);
    const TrainingPlan more = with(plan, listed(layers));
    const double now = executed_flops(lower(more)).value();
    EXPECT_NEAR(now - flops, whole / 8, 1e-6 * whole);
    const std::int64_t held = activation_peak(more);
    EXPECT_LE(held, peak);
    flops = now;
    peak = held;
  }
}

}  // namespace
}  // namespace trainyard
