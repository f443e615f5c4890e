// Experts and latent attention: shapes, FLOPs and bytes of all ranks together, balanced and uneven
// loads, folded and unfolded runs, memory (DeepSeek-AI 2024, arXiv 2412.19437, section 2.1;
// Megatron-LM core/transformer/moe/token_dispatcher.py; oracles 60 and 69).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "models/architecture/flops.hpp"
#include "models/expert_routing.hpp"
#include "models/layers/token_dispatcher.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/options.hpp"
#include "models/rank_groups.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

Architecture small_latent(std::int64_t layers) {
  Architecture a = with_latents(small_moe(layers));
  a.name = "small latent mixture";
  return a;
}

struct Layout {
  Parallelism parallelism;
  std::int64_t microbatches = 4;
};

std::vector<Layout> layouts() {
  return {{{.expert_tensor = 1}, 2},
          {{.data = 4, .expert = 4, .expert_tensor = 1}, 2},
          {{.data = 8, .expert = 2, .expert_tensor = 1, .zero_stage = 1}, 2},
          {{.tensor = 2, .sequence_parallel = true, .data = 4, .expert = 8, .expert_tensor = 1}, 2},
          {{.tensor = 2, .sequence_parallel = true, .data = 4, .expert = 4, .expert_tensor = 2}, 2},
          {{.data = 8, .expert = 4, .expert_tensor = 1, .zero_stage = 3}, 2},
          {{.data = 4, .expert = 4, .expert_tensor = 1, .zero_stage = 3}, 2},
          {{.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1, .schedule = "zb_h1"}, 4},
          {{.pipeline = 4,
            .interleave = 2,
            .data = 2,
            .expert = 2,
            .expert_tensor = 1,
            .schedule = "dualpipe",
            .zero_stage = 1},
           8}};
}

double model_flops_of(const TrainingPlan& plan) {
  // Flash attention executes s(s+1)/2 pairs, and five GEMMs backward for two forward.
  const TokenFlops token =
      token_flops(plan.architecture, {.sequence_length = plan.training.sequence_length + 1,
                                      .vocab = plan.vocab(),
                                      .mtp_layers = plan.training.mtp_layers});
  const double tokens =
      static_cast<double>(plan.training.global_batch_size * plan.training.sequence_length);
  return tokens *
         (3.0 * (token.linear() + token.projection + token.head) + 3.5 * token.attention());
}

// Do all ranks together execute the model's FLOPs on every layout?
TEST(MoeFlops, AllRanksTogetherExecuteTheModelsOnEveryLayout) {
  for (const Layout& layout : layouts()) {
    for (const Architecture& model : {small_moe(8), small_latent(8)}) {
      const TrainingPlan plan = plan_of(model, layout.parallelism, layout.microbatches);
      const double wanted = model_flops_of(plan);
      EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted) << model.name;
    }
  }
}

// Do all ranks together execute the model's FLOPs with MTP layers? An MTP layer has a projection,
// and the head runs once more.
TEST(MultiTokenPrediction, AllRanksTogetherExecuteTheModels) {
  for (const Layout& layout : layouts()) {
    for (const Architecture& model : {small_llama(8), small_moe(8), small_latent(8)}) {
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        TrainingPlan plan = plan_of(model, layout.parallelism, layout.microbatches);
        if (!model.has_experts()) plan.parallelism.expert = 1;
        const double without = executed_flops(lower(plan)).value();
        plan.training.mtp_layers = 2;
        plan.training.recompute = recompute;
        const double wanted = model_flops_of(plan);
        const Workload workload = lower(plan);
        EXPECT_GT(wanted, without);
        if (recompute == Recompute::None) {
          EXPECT_NEAR(executed_flops(workload).value(), wanted, 1e-12 * wanted) << model.name;
        }
        for (const Program& program : workload.programs)
          for (const std::int64_t left : unreturned_bytes(workload, program)) EXPECT_EQ(left, 0);
      }
    }
  }
}

// Are the inputs of both GEMMs of an expert quantised? If the recipe multiplies in 8 bits, both
// take 8-bit inputs, and 16-bit outputs are quantised first.
TEST(Experts, InputsOfBothProductsAreQuantised) {
  TrainingPlan plan = plan_of(small_moe(2), {.data = 4, .expert = 4, .expert_tensor = 1}, 2);
  const auto counts = [&plan] {
    std::map<std::string, std::size_t> named;
    const Workload workload = lower(plan);
    for_each_operation(workload, workload.programs[0],
                       [&](const OperationView& view) { ++named[std::string(view.name)]; });
    return named;
  };
  EXPECT_FALSE(counts().contains("expert_down_input_quantise"));
  plan.recipe = load_recipe("fp8_cached");
  auto in_8_bits = counts();
  EXPECT_GT(in_8_bits["expert_down_gemm"], 0U);
  EXPECT_EQ(in_8_bits["expert_up_quantise"], in_8_bits["expert_up_gemm"]);
  EXPECT_EQ(in_8_bits["expert_down_input_quantise"], in_8_bits["expert_down_gemm"]);
}

// Is the operand of every GEMM of latent attention and of shared experts quantised, forward and
// backward, where the recipe multiplies in 8 bits?
TEST(LatentAttention, OperandsAreQuantised) {
  TrainingPlan plan = plan_of(small_latent(2), {.data = 4, .expert = 4, .expert_tensor = 1}, 2);
  plan.recipe = load_recipe("fp8_cached");
  std::map<std::string, std::size_t> named;
  const Workload workload = lower(plan);
  for_each_operation(workload, workload.programs[0],
                     [&](const OperationView& view) { ++named[std::string(view.name)]; });
  std::size_t gemms = 0;
  for (const std::string name : {"query_down", "query", "key_value_down", "key_value", "projection",
                                 "shared_up", "shared_down"}) {
    if (named[name + "_gemm"] == 0) continue;
    ++gemms;
    EXPECT_EQ(named[name + "_quantise"], named[name + "_gemm"] + named[name + "_dgrad"]) << name;
  }
  EXPECT_GE(gemms, 5U);
}

// Does the MTP module of DeepSeek-V3 have the published size? DeepSeek-AI 2412.19437 section 2.2
// and its README: 671B and a module of 14B, which counts the embedding and head that it shares with
// the model (2 x 0.93B). Its own parameters are a layer, 2h x h and three norms.
TEST(MultiTokenPrediction, DeepSeekV3Module) {
  TrainingPlan plan;
  plan.architecture = load_architecture("deepseek-v3");
  plan.training.mtp_layers = 1;
  const ChunkWeights weights =
      chunk_weights(weight_options(plan), {.first_layer = 60, .layers = 1, .has_head = true});
  plan.training.mtp_layers = 0;
  const ChunkWeights without =
      chunk_weights(weight_options(plan), {.first_layer = 60, .layers = 1, .has_head = true});
  const std::int64_t module = weights.parameters() + weights.expert_parameters() -
                              without.parameters() - without.expert_parameters();
  const std::int64_t h = 7168;
  EXPECT_EQ(module, layer_parameter_count(plan.architecture, moe_layer(plan.architecture)) +
                        2 * h * h + 3 * h);
  EXPECT_NEAR(static_cast<double>(module + 2 * 129'280 * h), 14e9, 0.6e9);
}

// Do the first and last stage share the embedding? On the last of several stages the MTP module
// reads a copy of the embedding, and both ends sum its gradients. If both ends are on one rank
// there is only one copy.
TEST(MultiTokenPrediction, EndsShareTheEmbedding) {
  const auto joins = [](const Parallelism& parallelism) {
    TrainingPlan plan = plan_of(small_llama(8), parallelism, 8);
    plan.training.mtp_layers = 1;
    std::size_t found = 0;
    const Workload workload = lower(plan);
    for (const Program& program : workload.programs)
      for_each_operation(workload, program, [&](const OperationView& view) {
        if (view.name == "embedding_gradient_all_reduce") ++found;
      });
    return found;
  };
  EXPECT_EQ(joins({.pipeline = 4}), 2U);
  EXPECT_EQ(joins({}), 0U);
  EXPECT_EQ(joins({.pipeline = 4, .interleave = 2, .schedule = "dualpipe"}), 0U);
}

// Does the last stage hold the embedding once, however many layers read it? Layers, projections of
// 2h to h and three norms of h = 256 come once for each; the table has 2048 rows.
TEST(MultiTokenPrediction, LayersReadOneCopyOfTheEmbedding) {
  const std::int64_t matrices = 256 * (256 + 2 * 128) + 256 * 256 + 3 * 256 * 512;
  const std::int64_t layer = matrices + 2 * 256;
  const std::int64_t table = 2048 * 256;
  TrainingPlan plan = plan_of(small_llama(8), {.pipeline = 8}, 8);
  for (const std::int64_t mtp_layers : {1, 2, 3}) {
    plan.training.mtp_layers = mtp_layers;
    const ChunkWeights weights =
        chunk_weights(weight_options(plan), {.first_layer = 7, .layers = 1, .has_head = true});
    const std::int64_t added = mtp_layers * (layer + 2 * 256 * 256 + 3 * 256) + table;
    EXPECT_EQ(weights.parameters(), layer + 256 + table + added) << mtp_layers;
  }
}

// Do sequence-parallel ranks gather both inputs of an MTP layer's projection? The projection from
// 2h to h reads the embedding and the hidden state of 128 tokens, h = 256 numbers of 2 bytes each,
// and its columns are joined to one such state.
TEST(MultiTokenPrediction, GathersBothInputsOfTheProjection) {
  TrainingPlan plan = plan_of(small_llama(2), {.tensor = 2, .sequence_parallel = true}, 1);
  plan.training.mtp_layers = 1;
  const Workload workload = lower(plan);
  std::map<std::string, std::int64_t> gathered;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.kind == OpKind::Collective)
      gathered[std::string(view.name)] += bytes_of(workload.calls[view.op.payload]);
  });
  EXPECT_EQ(gathered["mtp_all_gather"], 2 * 128 * 256 * 2);
  EXPECT_EQ(gathered["mtp_join"], 128 * 256 * 2);
}

// Do they gather in the backward what the projection and the table read? These are the gradient of
// the output, the input a second time unless it was kept, and the gradient of the embedding.
TEST(MultiTokenPrediction, GathersGradientsAndInputsInTheBackward) {
  using Gathers = std::map<std::string, std::int64_t>;
  const std::int64_t message = 128 * 256 * 2;
  for (const bool kept : {false, true}) {
    TrainingPlan plan = plan_of(small_llama(2), {.tensor = 2, .sequence_parallel = true}, 1);
    plan.training.mtp_layers = 1;
    plan.elementwise_kernels.keeps_gathered = kept;
    Gathers wanted{{"mtp_gradient_all_gather", message},
                   {"mtp_dgrad_join", 2 * message},
                   {"mtp_embedding_gradient_all_gather", message}};
    if (!kept) wanted["mtp_input_all_gather"] = 2 * message;
    const Workload workload = lower(plan);
    Gathers found;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.op.kind == OpKind::Collective && view.op.part == StepPart::Backward &&
          view.name.starts_with("mtp_"))
        found[std::string(view.name)] += bytes_of(workload.calls[view.op.payload]);
    });
    EXPECT_EQ(found, wanted) << kept;
    for (const std::int64_t bytes : unreturned_bytes(workload, workload.programs[0]))
      EXPECT_EQ(bytes, 0);
  }
}

// Are the inputs of shared experts and the latents gathered in 8 bits, forward and backward, where
// the recipe gathers operands so? 128 tokens of 256, 96 and 64 numbers; the 8 positional columns
// enter no GEMM and keep 16 bits.
TEST(LatentAttention, OperandsAreGatheredInEightBits) {
  TrainingPlan plan = plan_of(small_latent(2), {.tensor = 2, .sequence_parallel = true}, 1);
  plan.recipe = load_recipe("fp8");
  const Workload workload = lower(plan);
  std::map<std::string, std::set<std::int64_t>> gathered;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.kind == OpKind::Collective)
      gathered[std::string(view.name)].insert(bytes_of(workload.calls[view.op.payload]));
  });
  using OneSize = std::set<std::int64_t>;
  EXPECT_EQ(gathered["shared_all_gather"], (OneSize{128 * 256}));
  EXPECT_EQ(gathered["shared_up_input_all_gather"], (OneSize{128 * 256}));
  EXPECT_EQ(gathered["query_down_all_gather"], (OneSize{128 * 96}));
  EXPECT_EQ(gathered["query_input_all_gather"], (OneSize{128 * 96}));
  EXPECT_EQ(gathered["key_value_down_all_gather"], (OneSize{128 * (64 + 2 * 8)}));
  EXPECT_EQ(gathered["key_value_input_all_gather"], (OneSize{128 * 64}));
}

// Do shared experts split their backward too? A split backward leaves the weight gradients of
// shared experts, and only those, to its second part.
TEST(MoeFlops, SharedExpertsSplitTheirBackwardToo) {
  const TrainingPlan plan =
      plan_of(small_moe(4), {.pipeline = 2, .expert_tensor = 1, .schedule = "zb_h1"}, 4);
  const Workload workload = lower(plan);
  std::map<std::string, int> count;
  for (const Program& program : workload.programs)
    for_each_operation(workload, program,
                       [&](const OperationView& view) { ++count[std::string(view.name)]; });
  for (const char* name :
       {"shared_up_dgrad", "shared_down_dgrad", "shared_up_wgrad", "shared_down_wgrad"})
    EXPECT_EQ(count[name], 3 * 4) << name;
}

// Does uneven routing move work between ranks without losing any?
TEST(MoeFlops, UnevenRoutingMovesWorkAndLosesNone) {
  for (const RoutingKind kind : {RoutingKind::Zipf, RoutingKind::Dirichlet}) {
    for (const bool independent : {false, true}) {
      TrainingPlan plan =
          plan_of(small_moe(3), {.data = 8, .expert = 4, .expert_tensor = 1, .zero_stage = 1}, 2);
      plan.experts.routing = kind;
      plan.experts.independent_replicas = independent;
      const Workload workload = lower(plan);
      EXPECT_EQ(workload.programs.size(), independent ? 8U : 4U);
      const double wanted = model_flops_of(plan);
      EXPECT_NEAR(executed_flops(workload).value(), wanted, 1e-12 * wanted);
    }
  }
}

// Layers of DeepSeek-V3 with dense feed-forward parts, on 4096 tokens.
TrainingPlan dense_deepseek(std::int64_t layers, const Parallelism& parallelism) {
  TrainingPlan plan;
  plan.architecture = load_architecture("deepseek-v3");
  plan.architecture.layers = plan.architecture.dense_layers = layers;
  plan.architecture.experts = 0;
  plan.training.sequence_length = 4096;
  plan.parallelism = parallelism;
  return plan;
}

// Do the projections of DeepSeek-V3 have 2 FLOPs per token for each of their 187 105 280 weights
// (deepseek-ai/DeepSeek-V3 inference/model.py and configs/config_671B.json)?
TEST(LatentAttention, DeepSeekV3Projections) {
  const Workload workload = lower(dense_deepseek(1, {}));
  double projections = 0.0;
  Attention core;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.op.kind != OpKind::Compute || view.op.part != StepPart::Forward) return;
    const Kernel& kernel = workload.kernels[workload.programs.front().kernel_of(view.op)];
    if (const auto* attention = std::get_if<Attention>(&kernel)) core = *attention;
    if (std::holds_alternative<Gemm>(kernel) && !view.name.starts_with("ffn") &&
        view.name != "head_gemm")
      projections += flops(kernel).value();
  });
  EXPECT_EQ(projections, 4096.0 * 374'210'560.0);
  EXPECT_EQ(core.head_dim_qk, 192);
  EXPECT_EQ(core.head_dim_v, 128);
  EXPECT_DOUBLE_EQ(flops(Kernel{core}).value(), 4096.0 * 167'772'160.0 * 4097.0 / 4096.0);
}

// Does a rank assemble only the keys of its own heads? 128 tokens of 16 heads of 24 dimensions are
// read and written in bf16, divided by the tensor ranks.
TEST(LatentAttention, ARankAssemblesTheKeysOfItsHeads) {
  for (const std::int64_t tensor : {1, 2, 4}) {
    const TrainingPlan plan = plan_of(with_latents(small_llama(2)), {.tensor = tensor}, 2);
    const Traffic all = traffic_of(lower(plan), "key_assembly");
    ASSERT_GT(all.kernels, 0) << tensor;
    EXPECT_EQ(all.bytes / all.kernels, 2 * 2 * 128 * 16 / tensor * 24) << tensor;
  }
}

// Do the backward's collectives and its addition move the bytes of DeepSeek-V3's latents? The
// gradients of the 512 kv latents and 64 rotary dimensions are reduced together, those of 1536
// query latents alone.
TEST(LatentAttention, DeepSeekV3BackwardBytes) {
  const Workload workload = lower(dense_deepseek(4, {.tensor = 2, .sequence_parallel = true}));
  std::set<std::int64_t> joined;
  std::size_t additions = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name == "latent_gradient_add") {
      const auto& kernel =
          std::get<MemoryBound>(workload.kernels[workload.programs.front().kernel_of(view.op)]);
      EXPECT_EQ(kernel.bytes, 3 * 2 * 2048 * 7168);
      ++additions;
    }
    if (view.name == "query_dgrad_join" || view.name == "key_value_dgrad_join")
      joined.insert(std::get<CollectiveCall>(workload.calls[view.op.payload]).bytes);
  });
  EXPECT_EQ(additions, 4U);
  EXPECT_EQ(joined, (std::set<std::int64_t>{4096 * 1536 * 2, 4096 * (512 + 64) * 2}));
}

// Are the dispatch bytes of DeepSeek-V3 exact (oracle 69)? 4096 tokens have 8 rows of 7168 each; in
// fp8 every 128 elements have a scale of 4 bytes.
TEST(Dispatch, DeepSeekV3Bytes) {
  const std::int64_t rows = 4096 * 8;
  EXPECT_EQ(rows * dispatch_row_bytes(7168, DataType::Bf16).payload, 469'762'048);
  EXPECT_EQ(rows * dispatch_row_bytes(7168, DataType::Fp8).payload, 234'881'024);
  EXPECT_EQ(dispatch_row_bytes(7168, DataType::Fp8).scales, 224);
}

// Do ranks gather the tokens of every expert of every EP rank, 4 bytes each?
TEST(Dispatch, CountsAreOneFp32ForEachExpertAndRank) {
  const TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 3);
  const Workload workload = lower(plan);
  std::size_t calls = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name != kExpertCountsOperation) return;
    EXPECT_EQ(std::get<CollectiveCall>(workload.calls[view.op.payload]).bytes,
              4 * plan.architecture.experts * 4);
    ++calls;
  });
  EXPECT_GT(calls, 0U);
}

std::int64_t bytes_of_kernel(const Workload& workload, std::string_view name) {
  std::int64_t bytes = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name != name) return;
    bytes =
        std::get<MemoryBound>(workload.kernels[workload.programs.front().kernel_of(view.op)]).bytes;
  });
  return bytes;
}

// Are tokens that are sent once copied where they arrive, and not by their sender? The 2 experts of
// a token are among E, E/4 on each of 4 ranks: it arrives at 4 (1 - C(3E/4, 2) / C(E, 2)) of them.
TEST(Dispatch, TokensThatAreSentOnceAreCopiedWhereTheyArrive) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  const double experts = static_cast<double>(plan.architecture.experts);
  const double none = 0.75 * experts * (0.75 * experts - 1.0) / (experts * (experts - 1.0));
  const double rows = 128.0 * 2.0;
  ASSERT_EQ(plan.architecture.experts_per_token, 2);
  EXPECT_GT(bytes_of_kernel(lower(plan), "permute"), 0);
  for (const Dispatcher dispatcher : {Dispatcher::NodeLimited, Dispatcher::HybridEp}) {
    plan.experts.dispatcher = dispatcher;
    const Workload workload = lower(plan);
    EXPECT_EQ(bytes_of_kernel(workload, "permute"), 0);
    EXPECT_EQ(bytes_of_kernel(workload, "expert_sort"),
              2 * std::llround(rows * (1.0 + 4.0 * (1.0 - none) / 2.0)) * plan.architecture.hidden);
  }
}

// Do ranks gather their routing maps for HybridEP, a byte for each token and expert, and read all
// of them? 128 tokens on each of 4 ranks.
TEST(Dispatch, HybridEpGathersRoutingMaps) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  EXPECT_EQ(bytes_of_kernel(lower(plan), "routing_map_scan"), 0);
  plan.experts.dispatcher = Dispatcher::HybridEp;
  const Workload workload = lower(plan);
  const std::int64_t maps = 128 * 4 * plan.architecture.experts;
  EXPECT_EQ(bytes_of_kernel(workload, "routing_map_scan"), maps);
  std::size_t calls = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name != kExpertCountsOperation) return;
    EXPECT_EQ(std::get<CollectiveCall>(workload.calls[view.op.payload]).bytes, maps);
    ++calls;
  });
  EXPECT_GT(calls, 0U);
}

// Does the router work in fp32 where the dispatcher takes probabilities in fp32? It casts its input
// and its gradient, 2 + 4 bytes for each of 256 numbers of a token.
TEST(Dispatch, LibrariesOfDispatchTakeProbabilitiesInFp32) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  ASSERT_EQ(plan.architecture.hidden, 256);
  for (const Dispatcher dispatcher : {Dispatcher::AllToAll, Dispatcher::AllGather,
                                      Dispatcher::NodeLimited, Dispatcher::HybridEp}) {
    plan.experts.dispatcher = dispatcher;
    const Workload workload = lower(plan);
    const std::int64_t bytes = sends_tokens_once(dispatcher) ? 128 * 256 * (2 + 4) : 0;
    EXPECT_EQ(bytes_of_kernel(workload, "router_input_cast"), bytes);
    EXPECT_EQ(bytes_of_kernel(workload, "router_gradient_cast"), bytes);
  }
}

// Are tokens padded for GEMMs in 8 bits by kernels of their own, unless HybridEP pads them, or they
// arrive in 8 bits? Each kernel reads and writes the 256 rows of a rank in 16 bits.
TEST(Experts, TokensArePaddedForEightBits) {
  const std::vector<std::string_view> kernels{"expert_pad", "expert_unpad", "expert_unpad_backward",
                                              "expert_pad_backward"};
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  const auto all_are = [&](std::int64_t bytes) {
    const Workload workload = lower(plan);
    for (const std::string_view kernel : kernels)
      EXPECT_EQ(bytes_of_kernel(workload, kernel), bytes) << kernel;
  };
  all_are(0);
  plan.recipe = load_recipe("fp8_cached");
  all_are(256 * 256 * 2 * 2);
  plan.experts.dispatcher = Dispatcher::HybridEp;
  all_are(0);
  plan.experts.dispatcher = Dispatcher::NodeLimited;
  all_are(256 * 256 * 2 * 2);
  plan.experts.dispatch_precision = DataType::Fp8;
  all_are(0);
}

// Does the gradient of a token's probability read gate, up and the gradient of their product?
TEST(Experts, GradientOfTheProbabilityReadsTheActivationAgain) {
  const TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  ASSERT_TRUE(plan.architecture.gated_ffn);
  EXPECT_EQ(bytes_of_kernel(lower(plan), "expert_probability_gradient"),
            256 * plan.architecture.expert_ffn * 3 * 2);
}

std::vector<Call> dispatches(const Workload& workload, std::size_t program) {
  std::vector<Call> calls;
  for_each_operation(workload, workload.programs[program], [&](const OperationView& view) {
    if (view.name == "dispatch") calls.push_back(workload.calls[view.op.payload]);
  });
  return calls;
}

// Do as many rows leave as arrive?
TEST(Dispatch, RowsLeaveAsTheyArrive) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 4, .expert = 4, .expert_tensor = 1}, 3);
  plan.experts.routing = RoutingKind::Dirichlet;
  plan.experts.dirichlet_alpha = 0.3;
  const ExpertRouting routing(plan);
  for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
    std::int64_t received = 0;
    std::vector<std::int64_t> arriving(4, 0);
    ExpertRows rows;
    for (std::int64_t place = 0; place < 4; ++place) {
      const RoutingQuery query{.layer = 1, .microbatch = microbatch, .place = place};
      const std::vector<std::int64_t> between = routing.between(query);
      rows = routing.of(query);
      received += rows.total();
      for (std::size_t from = 0; from < 4; ++from)
        arriving[static_cast<std::size_t>(place)] +=
            between[from * 4 + static_cast<std::size_t>(place)];
      EXPECT_EQ(arriving[static_cast<std::size_t>(place)], rows.total());
      EXPECT_EQ(rows.sent, 128 * 2);
    }
    EXPECT_EQ(received, 128 * 2 * 4) << "sum of rows is T K e";
  }
  // The call of every member is the same, and has the bytes of the busiest sender.
  const Workload workload = lower(plan);
  const auto first = dispatches(workload, 0);
  EXPECT_EQ(first.size(), 2U * 3U);
  for (std::size_t program = 1; program < 4; ++program)
    EXPECT_EQ(dispatches(workload, program), first);
  EXPECT_EQ(bytes_of(first.front()), 256 * dispatch_row_bytes(256, DataType::Bf16).total());
}

// Does every rank return the rows that it was sent? A row of the dispatch has 256 numbers of 2
// bytes and its probability of 4, one of the combine the numbers alone.
TEST(Dispatch, RowsReturnToTheirSenders) {
  TrainingPlan plan = plan_of(small_moe(2), {.data = 4, .expert = 4, .expert_tensor = 1}, 1);
  plan.experts.routing = RoutingKind::Dirichlet;
  plan.experts.dirichlet_alpha = 0.3;
  const Workload workload = lower(plan);
  std::map<std::string, std::span<const std::int64_t>> sent;
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.kind == OpKind::Collective)
      sent[std::string(view.name)] = matrix_of(workload.calls[view.op.payload]);
  });
  ASSERT_EQ(sent["dispatch"].size(), 16U);
  ASSERT_EQ(sent["combine"].size(), 16U);
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to)
      EXPECT_EQ(sent["combine"][to * 4 + from] * (2 * 256 + 4),
                sent["dispatch"][from * 4 + to] * (2 * 256));
}

double expert_makespan(const TrainingPlan& plan, bool fold = true) {
  Workload workload = lower(plan);
  for (Call& call : workload.calls)
    if (algorithm_of(call) == "nccl")
      call = with_algorithm(call, op_of(call) == CollectiveOp::AllToAll ? "direct" : "ring");
  const auto gpus = static_cast<std::uint32_t>(std::max<std::size_t>(2, workload.ranks.size()));
  Cluster cluster = testing::star(gpus);
  const AlgorithmModel communication(cluster);
  const auto seconds = [](const Kernel& kernel) { return 1e-6 + 1e-12 * flops(kernel).value(); };
  return replay_on(testing::star(gpus), std::move(workload), communication, seconds,
                   {.engine = "simgrid", .fold = fold})
      .timeline.makespan_s;
}

// Is balanced routing the closed form, with one program per stage?
TEST(Imbalance, BalancedIsTheClosedFormAndOneProgramAStage) {
  std::size_t spread_out = 0;
  for (const Layout& layout : layouts()) {
    TrainingPlan plan = plan_of(small_moe(8), layout.parallelism, layout.microbatches);
    const Workload balanced = lower(plan);
    EXPECT_EQ(balanced.programs.size(), static_cast<std::size_t>(plan.parallelism.pipeline));
    const double even = expert_makespan(plan);
    plan.experts.routing = RoutingKind::Zipf;
    plan.experts.zipf_exponent = 0.0;  // the general code, with equal shares
    EXPECT_NEAR(expert_makespan(plan), even, 1e-9 * even);
    plan.experts.zipf_exponent = 1.0;
    if (plan.parallelism.expert > 1) {
      EXPECT_GT(expert_makespan(plan), even);
      ++spread_out;
    }
  }
  EXPECT_EQ(spread_out, 8U) << "all layouts but the first";
}

// Does the step become longer with the exponent of the popularity? The most loaded rank decides.
TEST(Imbalance, TimeGrowsWithTheExponent) {
  for (const Parallelism& parallelism :
       {Parallelism{.data = 4, .expert = 4, .expert_tensor = 1},
        Parallelism{.data = 8, .expert = 8, .expert_tensor = 1, .zero_stage = 1}}) {
    TrainingPlan plan = plan_of(small_moe(4), parallelism, 2);
    plan.experts.routing = RoutingKind::Zipf;
    double before = 0.0;
    std::int64_t rows_before = 0;
    for (const double exponent : {0.0, 0.3, 0.6, 1.0, 1.5}) {
      plan.experts.zipf_exponent = exponent;
      const double seconds = expert_makespan(plan);
      EXPECT_GT(seconds, before) << exponent;
      before = seconds;
      const ExpertRouting routing(plan);
      std::int64_t most = 0;
      for (std::int64_t place = 0; place < parallelism.expert; ++place)
        most = std::max(most, routing.of({.layer = 1, .place = place}).total());
      EXPECT_GE(most, rows_before);
      rows_before = most;
    }
  }
}

// Do permuted replicas take the same time? Replicas of the experts with the same shares are
// isomorphic, so their placement changes nothing.
TEST(Imbalance, PermutedReplicasTakeTheSameTime) {
  TrainingPlan plan =
      plan_of(small_moe(4), {.data = 8, .expert = 2, .expert_tensor = 1, .zero_stage = 1}, 2);
  for (const RoutingKind kind : {RoutingKind::Balanced, RoutingKind::Zipf}) {
    plan.experts.routing = kind;
    plan.parallelism.placement.clear();
    const double in_order = expert_makespan(plan);
    plan.parallelism.placement = {4, 5, 0, 1, 6, 7, 2, 3};  // whole replicas swap their devices
    EXPECT_NEAR(expert_makespan(plan), in_order, 1e-9 * in_order);
  }
}

// Are experts sharded over their own replicas (ZeRO 3)? A layer's experts are gathered and reduced
// over their own replicas, all other weights over all ranks. If every rank has different experts,
// none of them is sent.
TEST(ShardedExperts, MoveOverTheirOwnReplicas) {
  const auto bytes_of = [](const TrainingPlan& plan, std::string_view name) {
    std::vector<std::int64_t> bytes;
    const Workload workload = lower(plan);
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == name) bytes.push_back(trainyard::bytes_of(workload.calls[view.op.payload]));
    });
    return bytes;
  };
  TrainingPlan plan =
      plan_of(small_moe(3), {.data = 8, .expert = 4, .expert_tensor = 1, .zero_stage = 3}, 1);
  const std::int64_t experts = 2 * 3 * 256 * 128;  // of a rank: two of them
  using Bytes = std::vector<std::int64_t>;
  // Two layers with experts, forward and backward; the last one is still gathered.
  EXPECT_EQ(bytes_of(plan, "expert_weight_all_gather"), Bytes(4, 2 * experts));
  EXPECT_EQ(bytes_of(plan, "expert_gradient_reduce_scatter"), Bytes(2, 4 * experts));
  const auto dense = bytes_of(plan, "weight_all_gather");
  plan.parallelism.expert = 8;
  EXPECT_EQ(bytes_of(plan, "expert_weight_all_gather"), Bytes{});
  EXPECT_EQ(bytes_of(plan, "expert_gradient_reduce_scatter"), Bytes{});
  EXPECT_EQ(bytes_of(plan, "weight_all_gather"), dense);
}

// Do folded and unfolded runs agree?
TEST(Imbalance, FoldedIsUnfolded) {
  for (const Layout& layout : layouts()) {
    for (const bool independent : {false, true}) {
      TrainingPlan plan = plan_of(small_moe(8), layout.parallelism, layout.microbatches);
      plan.experts.routing = RoutingKind::Dirichlet;
      plan.experts.independent_replicas = independent;
      const double folded = expert_makespan(plan, true);
      EXPECT_NEAR(expert_makespan(plan, false), folded, 1e-9 * folded);
    }
  }
}

// Is all memory freed (oracle 60), whatever the loads of each rank's experts are?
TEST(MoeMemory, ReturnsToTheStart) {
  for (const RoutingKind kind : {RoutingKind::Balanced, RoutingKind::Dirichlet}) {
    for (const Layout& layout : layouts()) {
      TrainingPlan plan = plan_of(small_latent(8), layout.parallelism, layout.microbatches);
      plan.experts.routing = kind;
      const Workload workload = lower(plan);
      for (const Program& program : workload.programs)
        for (const std::int64_t sum : unreturned_bytes(workload, program))
          EXPECT_EQ(sum, 0) << program.name;
    }
  }
}

// Do the entries add up to the model? Every parameter of the model is on some rank, and no more
// often than replicas and the weights on all tensor ranks explain.
TEST(MoeParameters, EntriesAddUpToTheModel) {
  for (const char* name : {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "llama4-scout"}) {
    TrainingPlan plan;
    plan.architecture = load_architecture(name);
    const auto sum = [](const std::vector<GradientEntry>& list) {
      return std::accumulate(
          list.begin(), list.end(), std::int64_t{0},
          [](std::int64_t all, const GradientEntry& entry) { return all + entry.parameters(); });
    };
    const LayerKind kind = moe_layer(plan.architecture);
    EXPECT_EQ(sum(layer_entries(weight_options(plan).division, kind)) +
                  sum(expert_entries(weight_options(plan).division, kind)),
              layer_parameter_count(plan.architecture, kind))
        << name;
    const std::int64_t all = sum(expert_entries(weight_options(plan).division, kind));
    plan.parallelism.expert = 8;
    EXPECT_EQ(8 * sum(expert_entries(weight_options(plan).division, kind)), all) << name;
  }
}

// Are expert groups laid out over tensor and data ranks?
TEST(ExpertGroups, FoldOverTensorAndDataRanks) {
  const Parallelism p{.tensor = 2, .pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1};
  EXPECT_EQ(p.expert_replicas(), 2);
  const ExpertGrid grid(p);
  for (RankId rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(grid.rank(grid.position(rank)), rank);
    EXPECT_EQ(grid.position(rank).expert, rank % 4);
    EXPECT_EQ(grid.position(rank).replica, rank / 4 % 2);
  }
  EXPECT_TRUE(ExpertGrid::same_stages(p));
  Parallelism torn = p;
  torn.rank_order = "tp-pp-cp-ep-dp";
  EXPECT_FALSE(ExpertGrid::same_stages(torn));
}

}  // namespace
}  // namespace trainyard
