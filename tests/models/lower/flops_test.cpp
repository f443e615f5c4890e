// The kernels of a lowered step: their shapes, and that all ranks together execute exactly the
// model's FLOPs.
#include "models/architecture/flops.hpp"

#include <gtest/gtest.h>

#include <set>

#include "models/recompute.hpp"
#include "step.hpp"
#include "tests/models/architecture/step_flops.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan llama_70b() {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-70b");
  plan.parallelism = {.tensor = 8, .sequence_parallel = true};
  plan.training.sequence_length = 8192;
  return plan;
}

// The kernel that every operation of that name has.
Kernel kernel_of(const Workload& workload, std::string_view name) {
  std::set<std::uint32_t> found;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name == name) found.insert(view.op.payload);
  });
  EXPECT_EQ(found.size(), 1U) << name;
  return found.empty() ? Kernel{} : workload.kernels[*found.begin()];
}

// M x K x N and 2MKN FLOPs of Llama-3 70B per rank, t = 8, s = 8192, b = 1, from its widths. The
// vocabulary is padded to 129 024.
struct GemmRow {
  std::string name;
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  double flops = 0.0;
};
const std::vector<GemmRow> kRows = {{"qkv", 8192, 8192, 1280, 171'798'691'840},
                                    {"projection", 8192, 1024, 8192, 137'438'953'472},
                                    {"ffn_up", 8192, 8192, 7168, 962'072'674'304},
                                    {"ffn_down", 8192, 3584, 8192, 481'036'337'152},
                                    {"head", 8192, 8192, 16'128, 2'164'663'517'184}};

// Do the GEMMs of Llama 70B have these shapes?
TEST(LoweredGemms, Llama70BPerRank) {
  const Workload workload = lower(llama_70b());
  for (const GemmRow& row : kRows) {
    SCOPED_TRACE(row.name);
    const Gemm forward = std::get<Gemm>(kernel_of(workload, row.name + "_gemm"));
    EXPECT_EQ(forward.m, row.m);
    EXPECT_EQ(forward.k, row.k);
    EXPECT_EQ(forward.n, row.n);
    EXPECT_EQ(forward.pass, GemmPass::Forward);
    const Gemm dgrad = std::get<Gemm>(kernel_of(workload, row.name + "_dgrad"));
    const Gemm wgrad = std::get<Gemm>(kernel_of(workload, row.name + "_wgrad"));
    EXPECT_EQ(dgrad.pass, GemmPass::DataGrad);
    EXPECT_EQ(wgrad.pass, GemmPass::WeightGrad);
    EXPECT_EQ((std::array{dgrad.m, dgrad.k, dgrad.n}), (std::array{row.m, row.n, row.k}));
    EXPECT_EQ(wgrad.k, row.m) << "summed over the tokens";
    for (const Gemm& gemm : {forward, dgrad, wgrad}) {
      EXPECT_EQ(flops(Kernel{gemm}).value(), row.flops);
    }
  }
}

// Does the attention core of Llama 70B have 4 FLOPs per pair and element of its 8 heads of 128?
// With s*s/2 pairs they are 137 438 953 472; the diagonal makes it s(s+1)/2.
TEST(LoweredGemms, Llama70BAttentionCore) {
  const Workload workload = lower(llama_70b());
  const Kernel forward = kernel_of(workload, "attention");
  EXPECT_EQ(std::get<Attention>(forward).query_heads, 8);
  EXPECT_EQ(std::get<Attention>(forward).kv_heads, 1);
  EXPECT_DOUBLE_EQ(flops(forward).value(), 137'438'953'472.0 * 8193.0 / 8192.0);
  EXPECT_DOUBLE_EQ(flops(kernel_of(workload, "attention_backward")).value(),
                   2.5 * flops(forward).value());
}

struct Grid {
  std::int64_t tensor, pipeline, chunks, data;
  bool sequence_parallel;
};
const std::vector<Grid> kGrids = {{1, 1, 1, 1, false}, {2, 1, 1, 1, false}, {4, 1, 1, 2, true},
                                  {1, 4, 1, 1, false}, {2, 2, 2, 2, true},  {8, 4, 1, 2, false},
                                  {16, 1, 1, 1, true}};  // more than key-value heads

TrainingPlan on_grid(const Architecture& architecture, const Grid& grid) {
  TrainingPlan plan = plan_of(architecture,
                              {.tensor = grid.tensor,
                               .sequence_parallel = grid.sequence_parallel,
                               .pipeline = grid.pipeline,
                               .interleave = grid.chunks,
                               .data = grid.data,
                               .schedule = grid.chunks > 1 ? "interleaved_1f1b" : "1f1b"},
                              8);
  plan.training.micro_batch_size = 2;
  plan.training.global_batch_size *= 2;
  return plan;
}

FlopsQuery query_of(const TrainingPlan& plan, AttentionCount attention) {
  return {.sequences = plan.training.global_batch_size,
          .sequence_length = plan.training.sequence_length,
          .vocab = plan.vocab(),
          .attention = attention};
}

void expect_flops(const TrainingPlan& plan, double wanted) {
  EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted);
}

// Does a GPT execute the model's FLOPs on every grid? Unfused attention multiplies the whole
// square, as Narayanan et al. count.
TEST(ExecutedFlops, GptIsTheModelsOnEveryGrid) {
  for (const Grid& grid : kGrids) {
    TrainingPlan plan = on_grid(small_gpt(8), grid);
    plan.training.attention = AttentionKind::Unfused;
    const FlopsQuery query = query_of(plan, AttentionCount::Full);
    const Flops model = model_flops(plan.architecture, query);
    expect_flops(plan, model.value());
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      plan.training.recompute = recompute;
      const Flops extra = recomputed_flops(plan.architecture, query, recompute);
      EXPECT_GT(extra.value(), 0.0);
      expect_flops(plan, (model + extra).value());
    }
  }
}

// Does a Llama execute the model's FLOPs on every grid? Flash attention has s(s+1)/2 pairs, two
// GEMMs forward and five backward. The value is computed from the shape, not from the library.
TEST(ExecutedFlops, LlamaIsTheModelsOnEveryGrid) {
  for (const Grid& grid : kGrids) {
    TrainingPlan plan = on_grid(small_llama(8), grid);
    const double sequences = static_cast<double>(plan.training.global_batch_size);
    const double tokens = sequences * 128.0;
    const double weights = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 512;
    const double linear = 8.0 * 2.0 * tokens * weights;
    const double core = 8.0 * 4.0 * sequences * (128.0 * 129.0 / 2.0) * 256.0;
    const double head = 2.0 * tokens * 256.0 * 2048.0;
    expect_flops(plan, 3.0 * (linear + head) + 3.5 * core);
    plan.training.recompute = Recompute::Full;
    expect_flops(plan, 4.0 * linear + 3.0 * head + 4.5 * core);
    plan.training.recompute = Recompute::Selective;  // the fused kernel runs once more
    expect_flops(plan, 3.0 * (linear + head) + 4.5 * core);
    plan.training.recompute_modules = flags_of(kRecomputeModules, {"layernorm", "mlp"});
    expect_flops(plan, 3.0 * (linear + head) + 3.5 * core + 8.0 * 6.0 * tokens * 256.0 * 512.0);
  }
}

// Does full recomputation repeat a layer's forward kernel by kernel, with its tag?
TEST(ExecutedFlops, FullRecomputationRunsTheForwardAgain) {
  TrainingPlan plan = on_grid(small_gpt(4), {2, 2, 1, 1, true});
  plan.training.attention = AttentionKind::Unfused;
  plan.training.recompute = Recompute::Full;
  const Workload workload = lower(plan);
  for (const Program& program : workload.programs) {
    std::vector<std::string> forward;
    std::vector<std::string> recomputed;
    for_each_operation(workload, program, [&](const OperationView& view) {
      if (view.op.microbatch != 3 || view.op.layer % 2 != 1) return;
      if (view.op.part == StepPart::Forward) forward.emplace_back(view.name);
      if (view.op.part == StepPart::Recompute) recomputed.emplace_back(view.name);
    });
    EXPECT_FALSE(forward.empty());
    EXPECT_EQ(forward, recomputed);
  }
}

// Does a recipe of 8-bit GEMMs keep their number? It applies to the GEMMs of layers only, each
// after its cast; new weights are gathered as wide as they are stored.
TEST(ExecutedFlops, EightBitProductsKeepTheirNumber) {
  TrainingPlan plan = on_grid(small_llama(4), {2, 2, 1, 2, true});
  plan.parallelism.zero_stage = 1;
  const double before = executed_flops(lower(plan)).value();
  plan.recipe = load_recipe("fp8");
  const Workload workload = lower(plan);
  EXPECT_EQ(executed_flops(workload).value(), before);
  for (const Program& program : workload.programs) {
    std::size_t gathers = 0;
    std::size_t products = 0;
    for_each_operation(workload, program, [&](const OperationView& view) {
      if (view.name == "parameter_all_gather") {
        EXPECT_EQ(dtype_of(workload.calls[view.op.payload]), DataType::Fp8);
        ++gathers;
      }
      if (view.op.kind != OpKind::Compute) return;
      const auto* gemm = std::get_if<Gemm>(&workload.kernels[program.kernel_of(view.op)]);
      if (gemm == nullptr) return;
      const bool head = view.name.starts_with("head");
      EXPECT_EQ(gemm->dtype, head ? DataType::Bf16 : DataType::Fp8) << view.name;
      ++products;
    });
    EXPECT_GE(gathers, 1U);
    // Two layers with four weights, three products of each for each of eight microbatches.
    EXPECT_GE(products, 2U * 4U * 3U * 8U);
  }
}

// Does Muon orthogonalise every matrix? Five iterations of 2(2n^2 m) + 2n^3 per matrix, n the
// smaller side, computed from the shape.
TEST(ExecutedFlops, MuonMakesEveryMatrixOrthogonal) {
  TrainingPlan plan = on_grid(small_llama(4), {1, 1, 1, 1, false});
  const double before = executed_flops(lower(plan)).value();
  plan.optimizer = load_optimizer("muon");
  const auto matrix = [](double n, double m) { return 5.0 * (4.0 * n * n * m + 2.0 * n * n * n); };
  // Queries; keys and values; projection; gate and up; down.
  const double layer = 3.0 * matrix(256, 256) + matrix(256, 1024) + matrix(256, 512);
  EXPECT_NEAR(executed_flops(lower(plan)).value() - before, 4.0 * layer, 1e-9 * before);
}

}  // namespace
}  // namespace trainyard
