// Are traces of the PyTorch profiler and of Nsight Systems read as what ran on the GPU?
#include "scenarios/import/gpu_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "scenarios/import/kineto.hpp"
#include "scenarios/import/nsys.hpp"
#include "scenarios/import/trace_builder.hpp"
#include "scenarios/import/traced_collectives.hpp"
#include "scenarios/import/traced_kernels.hpp"
#include "scenarios/import/traced_shapes.hpp"
#include "sim/base/error.hpp"
#include "sim/base/median.hpp"
#include "sim/base/random.hpp"
#include "tests/scenarios/import/trace_writer.hpp"

namespace trainyard {
namespace {

using test::TraceWriter;
using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kTraces = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/traces/";

fs::path trace_file(const std::string& name, const std::string& text) {
  const fs::path file = fs::path(testing::TempDir()) / name;
  write_file(file, text);
  return file;
}

GpuTrace read_text(const std::string& text) { return read_kineto(trace_file("trace.json", text)); }

fs::path nsys_file(const std::string& more_sql = "") {
  return test::database_of(read_file(kTraces + "nsys.sql") + more_sql,
                           fs::path(testing::TempDir()) / "nsys.sqlite");
}

// The message of the refusal; empty if there is none.
template <class Read>
std::string refusal_when(const Read& read) {
  try {
    static_cast<void>(read());
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string name_of_operation(const GpuTrace& trace, const TracedKernel& kernel) {
  if (kernel.operation == kAbsent) return "none";
  return trace.names[trace.operations[kernel.operation].name];
}

// The rows by the text of their kernel: number and median of the repetitions.
std::map<std::string, std::pair<std::size_t, double>> rows_of(const TracedKernels& kernels) {
  std::map<std::string, std::pair<std::size_t, double>> rows;
  for (const TracedRow& row : kernels.rows)
    rows[to_text(row.kernel)] = {row.times_us.size(), median(row.times_us)};
  return rows;
}

// Do kernels have the kind that their names tell?
TEST(GpuTrace, KernelsHaveTheKindOfTheirName) {
  const std::map<std::string, OperationKind> known{
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       OperationKind::AllGather},
      {"ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", OperationKind::AllReduce},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", OperationKind::ReduceScatter},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", OperationKind::SendRecv},
      {"ncclDevKernel_Broadcast_RING_LL", OperationKind::Broadcast},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", OperationKind::Gemm},
      {"nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", OperationKind::Gemm},
      {"ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn", OperationKind::Gemm},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", OperationKind::Attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", OperationKind::Attention},
      {"void cuApplyLayerNorm<float, c10::Half>(...)", OperationKind::NormElementwise},
      {"void at::native::vectorized_elementwise_kernel<4, ...>", OperationKind::NormElementwise},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>",
       OperationKind::Optimizer},
      {"void cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>",
       OperationKind::EmbeddingLoss}};
  for (const auto& [name, kind] : known) EXPECT_EQ(kind_of_kernel(name), kind) << name;
  std::set<std::string_view> words;
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind)
    words.insert(to_string(static_cast<OperationKind>(kind)));
  EXPECT_EQ(words.size(), kOperationKinds);
  EXPECT_EQ(words.count(""), 0U);
}

// Is the trace of the file read with all its links? The forward GEMM has an external id, the norm
// only the correlation of its launch, attention only the flow from its launch.
TEST(Kineto, LinksKernelsByExternalIdCorrelationAndFlow) {
  const GpuTrace trace = read_kineto(kTraces + "kineto.json");
  EXPECT_EQ(trace.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(trace.sms, 132);
  EXPECT_EQ(trace.software, "PyTorch 2.6.0");
  EXPECT_EQ(trace.rank, 0U);
  EXPECT_FALSE(trace.simulated);
  ASSERT_EQ(trace.steps.size(), 3U);
  EXPECT_EQ(trace.steps[0].start_ns, 5'000'000'250);
  EXPECT_EQ(median_step(trace.steps), 2U);
  ASSERT_EQ(trace.kernels.size(), 27U);
  const std::vector<std::pair<OperationKind, std::string>> expected{
      {OperationKind::AllGather, "record_param_comms"},
      {OperationKind::Gemm, "aten::mm"},
      {OperationKind::NormElementwise, "aten::_fused_rms_norm"},
      {OperationKind::Attention, "aten::_scaled_dot_product_flash_attention"},
      {OperationKind::NormElementwise, "none"},
      {OperationKind::Gemm, "aten::mm"},
      {OperationKind::Gemm, "aten::mm"},
      {OperationKind::ReduceScatter, "none"},
      {OperationKind::Copy, "none"}};
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const TracedKernel& kernel = trace.kernels[i];
    EXPECT_EQ(kernel.kind, expected[i % 9].first) << i;
    EXPECT_EQ(name_of_operation(trace, kernel), expected[i % 9].second) << i;
  }
}

// Does the example have the shapes and times that it was written with? The forward GEMM takes 190,
// 230 and 200 us. Kernels and copies take 3 * 765 + (190 - 200) + (230 - 200) = 2315 us, and the
// fused kernel without a shape 30 of them.
TEST(TracedKernels, TheExampleHasItsShapesAndMedians) {
  const std::vector<GpuTrace> traces{read_kineto(kTraces + "kineto.json")};
  const TracedKernels kernels = traced_kernels(traces, {});
  const std::map<std::string, std::pair<std::size_t, double>> expected{
      {"gemm m1024 n14336 k4096 bf16 forward", {3, 200.0}},
      {"gemm m1024 n4096 k14336 bf16 dgrad", {3, 210.0}},
      {"gemm m14336 n4096 k1024 bf16 wgrad", {3, 220.0}},
      {"attention batch1 heads32/8 q1024 kv1024 d128/128 causal bf16 forward", {3, 100.0}},
      {"norm 16777216 B", {3, 20.0}},
      {"copy host_to_device 65536 B", {3, 5.0}}};
  EXPECT_EQ(rows_of(kernels), expected);
  EXPECT_NEAR(kernels.seconds, 2315e-6, 1e-12);
  ASSERT_EQ(kernels.unclassified.size(), 1U);
  EXPECT_EQ(kernels.unclassified[0].name, "triton_poi_fused_mul_silu_0");
  EXPECT_EQ(kernels.unclassified[0].kernels, 3U);
  EXPECT_NEAR(kernels.unclassified[0].share, 30.0 / 2315.0, 1e-12);
  EXPECT_THAT(kernels.assumptions, testing::IsEmpty());
}

// Is the share of what has a row and what has none the whole?
TEST(TracedKernels, WhatHasARowAndWhatHasNoneIsAll) {
  const std::vector<GpuTrace> traces{read_kineto(kTraces + "kineto.json"),
                                     read_nsys(nsys_file(), {})[0]};
  const TracedKernels kernels = traced_kernels(traces, {});
  double left = 0.0;
  for (const UnclassifiedKernels& entry : kernels.unclassified) left += entry.seconds;
  EXPECT_NEAR(kernels.classified_s + left, kernels.seconds, 1e-12);
}

// Does a GEMM that is split over k, or has a bias kernel, count with all its kernels?
TEST(TracedKernels, AnOperationTakesTheSumOfItsKernels) {
  TraceWriter trace;
  trace.operation("aten::addmm", 0, 20, "[[64], [128, 32], [32, 64]]", 1,
                  R"("Input type": ["c10::Half", "c10::Half", "c10::Half"])");
  trace.kernel("cutlass_80_gemm_splitK", 7, 100, 30, R"("External id": 1)");
  trace.kernel("void cublasLt::splitKreduce_kernel", 7, 130, 5, R"("External id": 1)");
  const std::vector<GpuTrace> traces{read_text(trace.text())};
  const TracedKernels kernels = traced_kernels(traces, {});
  ASSERT_EQ(kernels.rows.size(), 1U);
  EXPECT_EQ(to_text(kernels.rows[0].kernel), "gemm m128 n64 k32 fp16 forward");
  EXPECT_DOUBLE_EQ(kernels.rows[0].times_us[0], 35.0);
}

// Does the forward tell the two gradients apart, in each layout that PyTorch multiplies them in?
TEST(TracedKernels, TheForwardTellsWhichGradientAGemmIs) {
  const GemmDims forward{.m = 8, .n = 6, .k = 4};
  struct Case {
    GemmDims gemm;
    bool first = false;
    std::string text;
  };
  const std::vector<Case> cases{
      {{.m = 8, .n = 4, .k = 6}, true, "gemm m8 n4 k6 bf16 dgrad"},
      {{.m = 4, .n = 8, .k = 6}, true, "gemm m8 n4 k6 bf16 dgrad"},
      {{.m = 6, .n = 4, .k = 8}, false, "gemm m6 n4 k8 bf16 wgrad"},
      {{.m = 4, .n = 6, .k = 8}, false, "gemm m6 n4 k8 bf16 wgrad"},
      {{.m = 4, .n = 6, .k = 8}, true, "gemm m6 n4 k8 bf16 wgrad"},  // frozen input
      {{.m = 8, .n = 6, .k = 4}, true, ""},
      {{.batch = 2, .m = 8, .n = 4, .k = 6}, true, ""}};
  for (const Case& one : cases) {
    const auto found = backward_gemm(one.gemm, forward, one.first);
    EXPECT_EQ(found ? to_text(Kernel{*found}) : "", one.text);
  }
  const GemmDims square{.m = 8, .n = 8, .k = 4};
  EXPECT_EQ(backward_gemm(square, square, true), std::nullopt);
  const GemmDims both{.m = 8, .n = 4, .k = 8};
  EXPECT_EQ(backward_gemm(both, square, true)->pass, GemmPass::DataGrad);
  EXPECT_EQ(backward_gemm(both, square, false)->pass, GemmPass::WeightGrad);
}

// Is a forward that checkpointing computes again, within a node of the backward, a forward?
TEST(TracedKernels, ARecomputedForwardIsAForward) {
  TraceWriter trace;
  const std::string types = R"("Input type": ["c10::BFloat16", "c10::BFloat16"])";
  trace.operation("MmBackward0", 0, 100, "", 1, R"("Sequence number": 5)", 2);
  trace.operation("aten::linear", 10, 30, "[[8, 4], [6, 4]]", 2, types, 2);
  trace.operation("aten::mm", 12, 20, "[[8, 4], [4, 6]]", 3, types, 2);
  trace.operation("aten::mm", 50, 20, "[[8, 6], [6, 4]]", 4, types, 2);
  trace.kernel("gemm_a", 7, 100, 30, R"("External id": 3)");
  trace.kernel("gemm_b", 7, 200, 40, R"("External id": 4)");
  const std::vector<GpuTrace> traces{read_text(trace.text())};
  const TracedKernels kernels = traced_kernels(traces, {});
  ASSERT_EQ(kernels.rows.size(), 1U);
  EXPECT_EQ(to_text(kernels.rows[0].kernel), "gemm m8 n6 k4 bf16 forward");
  ASSERT_EQ(kernels.unclassified.size(), 1U);
  EXPECT_THAT(kernels.unclassified[0].reason, HasSubstr("whose forward is not in the trace"));
}

// Do memory-bound operations have the bytes that they read and write?
TEST(TracedKernels, MemoryBoundOperationsHaveTheirBytes) {
  struct Case {
    std::string operation, dims, types, text;
  };
  const std::string half = "\"c10::Half\"";
  const std::vector<Case> cases{
      {"aten::native_layer_norm", "[[8, 16], [], [16], [16], []]", half, "norm 512 B"},
      {"aten::native_layer_norm_backward", "[[8, 16], [8, 16]]", half + "," + half, "norm 768 B"},
      {"aten::silu", "[[8, 16]]", half, "activation 512 B"},
      {"aten::add", "[[8, 16], [16]]", half + "," + half, "elementwise 544 B"},
      {"aten::copy_", "[[8, 16], [8, 16]]", half + ",\"float\"", "cast 768 B"},
      {"aten::copy_", "[[8, 16], [8, 16]]", half + "," + half, "elementwise 512 B"},
      {"aten::embedding", "[[100, 16], [2, 4]]", half + ",\"long int\"", "embedding 512 B"},
      {"aten::zero_", "[[8, 16]]", half, "zero 256 B"},
      {"aten::_log_softmax", "[[8, 16], [], []]", "\"float\"", "cross_entropy 1024 B"}};
  for (const Case& one : cases) {
    TraceWriter trace;
    trace.operation(one.operation, 0, 20, one.dims, 1,
                    fmt::format(R"("Input type": [{}])", one.types));
    trace.kernel("elementwise_kernel", 7, 100, 30, R"("External id": 1)");
    const std::vector<GpuTrace> traces{read_text(trace.text())};
    const TracedKernels kernels = traced_kernels(traces, {});
    ASSERT_EQ(kernels.rows.size(), 1U) << one.operation;
    EXPECT_EQ(to_text(kernels.rows[0].kernel), one.text) << one.operation;
  }
}

// Is attention read in each library's layout, and left out where the shape does not say all?
TEST(TracedKernels, AttentionHasTheLayoutOfItsLibrary) {
  struct Case {
    std::string operation, dims, scalars, text;
  };
  const std::string four = "[[2, 8, 64, 32], [2, 2, 64, 32], [2, 2, 64, 32]";
  const std::string none = R"("", "", "", "", "", "", "", "", "", "", "")";
  const std::vector<Case> cases{
      {"aten::_scaled_dot_product_flash_attention", four + "]", R"("", "", "", "0.", "False")",
       "attention batch2 heads8/2 q64 kv64 d32/32 full bf16 forward"},
      {"aten::_scaled_dot_product_flash_attention_backward",
       "[[2, 8, 64, 32], " + four.substr(1) + "]", none + R"(, "True")",
       "attention batch2 heads8/2 q64 kv64 d32/32 causal bf16 backward"},
      {"flash_attn::_flash_attn_forward", "[[2, 64, 8, 32], [2, 64, 2, 32], [2, 64, 2, 32]]",
       R"("", "", "", "0.", "0.1", "True", "-1")",
       "attention batch2 heads8/2 q64 kv64 d32/32 causal bf16 forward"},
      {"flash_attn::_flash_attn_forward", "[[2, 64, 8, 32], [2, 64, 2, 32], [2, 64, 2, 32]]",
       R"("", "", "", "0.", "0.1", "True", "128")", ""},
      {"flash_attn::_flash_attn_varlen_forward", "[[128, 8, 32], [128, 2, 32], [128, 2, 32]]", "",
       ""}};
  for (const Case& one : cases) {
    TraceWriter trace;
    trace.operation(one.operation, 0, 20, one.dims, 1,
                    fmt::format(R"("Concrete Inputs": [{}])", one.scalars));
    trace.kernel("flash_kernel_bf16", 7, 100, 30, R"("External id": 1)");
    const std::vector<GpuTrace> traces{read_text(trace.text())};
    const TracedKernels kernels = traced_kernels(traces, {});
    EXPECT_EQ(kernels.rows.empty() ? "" : to_text(kernels.rows[0].kernel), one.text)
        << one.operation;
    EXPECT_EQ(kernels.unclassified.size(), one.text.empty() ? 1U : 0U);
  }
}

// Is what the trace leaves open named among the assumptions?
TEST(TracedKernels, AssumptionsAreNamed) {
  TraceWriter trace;
  trace.operation("aten::_scaled_dot_product_flash_attention", 0, 20,
                  "[[2, 8, 64, 32], [2, 2, 64, 32], [2, 2, 64, 32]]", 1);
  trace.kernel("flash_kernel", 7, 100, 30, R"("External id": 1)");
  const std::vector<GpuTrace> traces{read_text(trace.text())};
  const TracedKernels kernels = traced_kernels(traces, {.dtype = DataType::Fp16});
  ASSERT_EQ(kernels.rows.size(), 1U);
  EXPECT_THAT(to_text(kernels.rows[0].kernel), HasSubstr("causal fp16"));
  EXPECT_THAT(kernels.assumptions,
              testing::UnorderedElementsAre(HasSubstr("attention is causal"), HasSubstr("fp16")));
}

// Do random kernels come back with their shapes and times? The writer knows the answer.
TEST(TracedKernels, RandomGemmsComeBackAsWritten) {
  Random random(7);
  std::size_t cases = 0;
  for (int seed = 0; seed < 20; ++seed) {
    TraceWriter trace;
    std::map<std::string, std::vector<double>> expected;
    double time_us = 0.0;
    for (int i = 1; i <= 30; ++i) {
      const auto dim = [&random] { return std::int64_t{8} << (random.word() % 6); };
      const Gemm gemm{.m = dim(), .n = dim(), .k = dim(), .dtype = DataType::Bf16};
      const double length_us = 1.0 + static_cast<double>(random.word() % 1000) / 8.0;
      trace.operation("aten::mm", time_us, 2.0,
                      fmt::format("[[{}, {}], [{}, {}]]", gemm.m, gemm.k, gemm.k, gemm.n), i,
                      R"("Input type": ["c10::BFloat16", "c10::BFloat16"])");
      trace.kernel("gemm", 7, time_us + 1e4, length_us, fmt::format(R"("External id": {})", i));
      expected[to_text(Kernel{gemm})].push_back(length_us);
      time_us += 200.0;
    }
    const std::vector<GpuTrace> traces{read_text(trace.text())};
    const TracedKernels kernels = traced_kernels(traces, {});
    ASSERT_EQ(kernels.rows.size(), expected.size());
    for (const TracedRow& row : kernels.rows) {
      EXPECT_NEAR(median(row.times_us), median(expected.at(to_text(row.kernel))), 1e-9);
      ++cases;
    }
  }
  EXPECT_GT(cases, 300U);
}

// Are collectives rows as nccl-tests would print them? The all_gather gathers 25 165 824 elements
// of 2 bytes in 150 us: 335.54 GB/s, busbw 7/8 of it.
TEST(TracedCollectives, RowsAreThoseOfNcclTests) {
  const std::vector<GpuTrace> traces{read_kineto(kTraces + "kineto.json")};
  const TracedCollectives found = traced_collectives(traces, {.gpus_per_node = 8});
  ASSERT_EQ(found.runs.size(), 2U);
  const MeasuredRun& gather = found.runs[0];
  EXPECT_EQ(gather.op, CollectiveOp::AllGather);
  EXPECT_EQ(gather.ranks, 8U);
  EXPECT_EQ(gather.nodes, 1U);
  EXPECT_EQ(gather.gpu, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(gather.rows.size(), 1U);
  EXPECT_EQ(gather.rows[0].bytes, 50'331'648);
  EXPECT_EQ(gather.rows[0].dtype, "bfloat16");
  EXPECT_DOUBLE_EQ(gather.rows[0].time_us, 150.0);
  EXPECT_NEAR(gather.rows[0].busbw_GBps, 50.331648 / 0.150 * 7.0 / 8.0, 1e-9);
  EXPECT_EQ(found.runs[1].rows[0].bytes, 16'777'216) << "reduce_scatter counts what goes in";
  EXPECT_EQ(traced_collectives(traces, {.gpus_per_node = 4}).runs[0].nodes, 2U);
  EXPECT_THAT(found.assumptions, testing::Contains(HasSubstr("includes waiting")));
}

// Is the time of a call that of the rank which arrived last, where several ranks' traces are given?
TEST(TracedCollectives, TheLastRankHasTheTimeOfACall) {
  const auto trace_of = [](const std::vector<double>& lengths_us) {
    TraceWriter trace;
    double time_us = 0.0;
    for (const double length_us : lengths_us) {
      trace.kernel(
          "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, time_us += 1000.0, length_us,
          R"("Collective name": "allreduce", "In msg nelems": 500, "Out msg nelems": 500, )"
          R"("Group size": 16, "dtype": "BFloat16", "Process Group Name": "1", )"
          R"("Process Group Ranks": "[0, 4, 8, ..., 60]")");
    }
    return read_text(trace.text());
  };
  // calls: least 20, 30, 40; median 30
  const std::vector<GpuTrace> traces{trace_of({90, 30, 40}), trace_of({20, 70, 95})};
  const TracedCollectives found = traced_collectives(traces, {.gpus_per_node = 8});
  ASSERT_EQ(found.runs.size(), 1U);
  EXPECT_DOUBLE_EQ(found.runs[0].rows.at(0).time_us, 30.0);
  EXPECT_EQ(found.runs[0].rows[0].bytes, 1000);
  EXPECT_EQ(found.runs[0].nodes, 2U) << "members cut by the profiler: sixteen ranks fill two nodes";
  EXPECT_EQ(found.calls, 3U);
  EXPECT_EQ(found.calls_of_several, 3U);
  EXPECT_THAT(found.assumptions, testing::Contains(HasSubstr("arrived last")));
  EXPECT_THAT(found.assumptions, testing::Contains(HasSubstr("fills its nodes")));
}

// Is a NCCL kernel without the name of its collective left out, with the reason?
TEST(TracedCollectives, CallsWithoutSizeAreLeftOutWithTheReason) {
  TraceWriter trace;
  trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 0, 50);
  const std::vector<GpuTrace> traces{read_text(trace.text())};
  const TracedCollectives found = traced_collectives(traces, {});
  EXPECT_TRUE(found.runs.empty());
  EXPECT_EQ(found.left_out, 1U);
  EXPECT_NEAR(found.left_out_s, 50e-6, 1e-15);
  EXPECT_THAT(found.reasons, testing::ElementsAre(HasSubstr("does not name the collective")));
}

// Does an export of Nsight Systems give the same value? The weight gradient is (2048, 4096) x
// (4096, 1024), in 220 us.
TEST(Nsys, RangesGiveShapesStepsAndCollectives) {
  const std::vector<GpuTrace> traces = read_nsys(nsys_file(), {});
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].gpu, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(traces[0].sms, 108);
  ASSERT_EQ(traces[0].steps.size(), 3U);
  EXPECT_EQ(traces[0].kernels.size(), 12U);
  const std::map<std::string, std::pair<std::size_t, double>> expected{
      {"gemm m4096 n2048 k1024 bf16 forward", {3, 200.0}},
      {"gemm m2048 n1024 k4096 bf16 wgrad", {3, 220.0}},
      {"copy host_to_device 65536 B", {3, 5.0}}};
  EXPECT_EQ(rows_of(traced_kernels(traces, {})), expected);
  EXPECT_TRUE(traced_collectives(traces, {}).runs.empty()) << "the ranks are not in the export";
  const TracedCollectives found = traced_collectives(traces, {.ranks = 8});
  ASSERT_EQ(found.runs.size(), 1U);
  EXPECT_EQ(found.runs[0].op, CollectiveOp::AllReduce);
  EXPECT_EQ(found.runs[0].rows.at(0).bytes, 8'388'608);
  EXPECT_DOUBLE_EQ(found.runs[0].rows[0].time_us, 100.0);
}

// Are ranges that mark steps found by their name, or by the user's prefix?
TEST(Nsys, StepsAreMarkedByTheUsersRanges) {
  const fs::path file = nsys_file(
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES "
      "(1000000, 4300000, 59, 'epoch 1', 1291845633), (5, 6, 59, 'stepper', 1291845633);");
  EXPECT_EQ(read_nsys(file, {}).at(0).steps.size(), 3U);
  EXPECT_EQ(read_nsys(file, {.step_range = "epoch"}).at(0).steps.size(), 1U);
}

// Does each GPU of an export have a trace of its own?
TEST(Nsys, EachGpuHasATrace) {
  const fs::path file = nsys_file(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1100000, 1200000, 1, 1, 7, 900, 1308622848, "
      "1, 2, 1, 1, 1, 1, 1, 1);");
  const std::vector<GpuTrace> traces = read_nsys(file, {});
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[1].kernels.size(), 1U);
  EXPECT_THAT(traces[1].file, HasSubstr("(GPU 1)"));
}

// Do wrong exports give one clear error?
TEST(Nsys, WrongFilesAreRefusedWithARemedy) {
  const auto refused = [](const fs::path& file) {
    return refusal_when([&] { return read_nsys(file, {}); });
  };
  const fs::path other = test::database_of("CREATE TABLE songs (id INTEGER);",
                                           fs::path(testing::TempDir()) / "songs.sqlite");
  EXPECT_THAT(refused(other), HasSubstr("of another program"));
  EXPECT_THAT(refused(nsys_file("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;")),
              HasSubstr("has no table CUPTI_ACTIVITY_KIND_KERNEL (record CUDA and export: nsys "
                        "profile --trace=cuda,nvtx"));
  EXPECT_THAT(refused(nsys_file("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL;")),
              HasSubstr("has no kernel"));
  EXPECT_THAT(
      refused(nsys_file("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME demangledName TO d;")),
      HasSubstr("has no column demangledName"));
  EXPECT_THAT(refused(nsys_file("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 0;")),
              HasSubstr("to 0 ns"));
  EXPECT_THAT(refused(nsys_file("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW "
                                "CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM StringIds;")),
              HasSubstr("has no table CUPTI_ACTIVITY_KIND_KERNEL"));
  EXPECT_THAT(refused(trace_file("report.nsys-rep", "NVIDIA")), HasSubstr("not its export"));
  EXPECT_THAT(refused(trace_file("text.sqlite", "no database")),
              HasSubstr("is no SQLite database"));
  EXPECT_THAT(refused("absent.sqlite"), HasSubstr("no such file"));
  std::string damaged = read_file(nsys_file());
  damaged.replace(4096, 8192, std::string(8192, '\x7f'));
  EXPECT_THAT(refused(trace_file("damaged.sqlite", damaged)), HasSubstr("SQLite database"));
  EXPECT_THAT(refused(trace_file("short.sqlite", read_file(nsys_file()).substr(0, 5000))),
              HasSubstr("SQLite database"));
}

// Do optional tables that are missing leave the kernels readable, and is their absence stated?
TEST(Nsys, MissingRangesAreStated) {
  const std::vector<GpuTrace> traces = read_nsys(
      nsys_file("DROP TABLE NVTX_EVENTS; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE "
                "CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE TARGET_INFO_GPU;"),
      {});
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].kernels.size(), 9U);
  EXPECT_THAT(traces[0].assumptions, testing::ElementsAre(HasSubstr("CUPTI_ACTIVITY_KIND_RUNTIME"),
                                                          HasSubstr("NVTX_EVENTS")));
}

// Do wrong traces give one clear error?
TEST(Kineto, WrongFilesAreRefusedWithARemedy) {
  const std::string good = read_file(kTraces + "kineto.json");
  const auto refused = [](const std::string& name, const std::string& text) {
    const fs::path file = trace_file(name, text);
    return refusal_when([&] { return read_kineto(file); });
  };
  EXPECT_THAT(refused("cut.json", good.substr(0, good.size() / 2)),
              HasSubstr("the trace is damaged or was not written to its end"));
  EXPECT_THAT(refused("none.json", R"({"traceEvents": []})"), HasSubstr("category \"kernel\""));
  EXPECT_THAT(refused("other.json", R"({"songs": []})"), HasSubstr("is no list of events"));
  EXPECT_THAT(refused("times.json", "[1.0, 2.0]"), HasSubstr("is a list of numbers"));
  EXPECT_THAT(refused("word.json", "kernel"), HasSubstr("parse error"));
  EXPECT_THAT(refusal_when([] { return read_kineto(testing::TempDir()); }),
              HasSubstr("is a folder"));
  EXPECT_THAT(refusal_when([] { return read_kineto("absent.json"); }), HasSubstr("no such file"));
  // The compressed bytes of a file, cut and changed: write_file compresses by the name alone.
  const fs::path whole = trace_file("whole.json.gz", good);
  const fs::path bytes = fs::path(testing::TempDir()) / "whole.bin";
  fs::copy_file(whole, bytes, fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_kineto(bytes).kernels.size(), 27U) << "gzip by its first bytes";
  std::string packed = read_file(bytes);
  EXPECT_THAT(refused("cut.bin", packed.substr(0, packed.size() / 2)),
              HasSubstr("is not a whole gzip file"));
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  EXPECT_THAT(refused("bad.bin", packed), testing::Not(testing::IsEmpty()));
}

// Is a time since 1970 read to the nanosecond, which a double does not hold?
TEST(Kineto, TimesAreReadToTheNanosecond) {
  const GpuTrace trace = read_text(
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
          "ts": 1732000000000000.125, "dur": 0.375}]})");
  EXPECT_EQ(trace.kernels.at(0).start_ns, 1'732'000'000'000'000'125);
  EXPECT_EQ(trace.kernels[0].duration_ns, 375);
}

// Do elements have the bytes of their type, whatever the trace calls it?
TEST(TraceBuilder, TypesAndCollectivesAreKnownByTheirNames) {
  for (const auto& [name, bytes] : std::map<std::string, std::int64_t>{{"c10::BFloat16", 2},
                                                                       {"BFloat16", 2},
                                                                       {"Float", 4},
                                                                       {"float", 4},
                                                                       {"Half", 2},
                                                                       {"long int", 8},
                                                                       {"Byte", 1},
                                                                       {"c10::Float8_e4m3fn", 1},
                                                                       {"Scalar", 0},
                                                                       {"", 0}})
    EXPECT_EQ(element_type(name).bytes, bytes) << name;
  for (const auto& [name, op] : std::map<std::string, CollectiveOp>{
           {"allreduce", CollectiveOp::AllReduce},
           {"_allgather_base", CollectiveOp::AllGather},
           {"reduce_scatter_tensor_coalesced", CollectiveOp::ReduceScatter},
           {"all_to_allv", CollectiveOp::AllToAll},
           {"ncclReduce", CollectiveOp::Reduce},
           {"ncclBroadcast", CollectiveOp::Broadcast},
           {"send", CollectiveOp::SendRecv}})
    EXPECT_EQ(collective_in_name(name), op) << name;
  EXPECT_EQ(collective_in_name("barrier"), std::nullopt);
}

}  // namespace
}  // namespace trainyard
