#include "kernels/bench/gemm_plan.hpp"

#include <fmt/format.h>

#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/reference.hpp"

namespace trainyard::bench {

namespace {

cudaDataType_t cuda_type(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
    case DataType::Tf32:
      return CUDA_R_32F;
    case DataType::Bf16:
      return CUDA_R_16BF;
    case DataType::Fp16:
      return CUDA_R_16F;
    case DataType::Fp8:
      return CUDA_R_8F_E4M3;
  }
  return CUDA_R_32F;
}

template <class Value>
Value setting(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  Value value{};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof value, &written),
        "reading an algorithm's settings");
  return value;
}

}  // namespace

DataType result_dtype(const Gemm& gemm) {
  if (gemm.accumulate_fp32) return DataType::Fp32;
  return gemm.dtype == DataType::Fp8    ? DataType::Bf16
         : gemm.dtype == DataType::Tf32 ? DataType::Fp32
                                        : gemm.dtype;
}

// cuBLASLt is column-major. A row-major [r, c] matrix is its c x r matrix, and the row-major
// product A B is its B' A', so B is the first operand.
struct GemmPlan::Shape {
  DataType dtype;
  std::int64_t rows, columns;  // as stored, row-major
};

GemmPlan::Layout GemmPlan::make_layout(const Shape& shape) const {
  cublasLtMatrixLayout_t made = nullptr;
  const auto height = static_cast<std::uint64_t>(shape.columns);
  check(cublasLtMatrixLayoutCreate(&made, cuda_type(shape.dtype), height,
                                   static_cast<std::uint64_t>(shape.rows), shape.columns),
        "describing a matrix");
  Layout layout(made);
  const auto batch = static_cast<std::int32_t>(gemm_.batch);
  const std::int64_t stride = shape.rows * shape.columns;
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                         sizeof batch),
        "describing a batch");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                         sizeof stride),
        "describing a batch");
  return layout;
}

void GemmPlan::describe_operation() {
  const bool tf32 = gemm_.dtype == DataType::Tf32;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "describing the GEMM");
  operation_.reset(made);
  const auto transposed = [made](cublasLtMatmulDescAttributes_t name, bool yes) {
    const cublasOperation_t operation = yes ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(made, name, &operation, sizeof operation),
          "describing the GEMM");
  };
  // cuBLASLt's first operand is B (see Shape).
  transposed(CUBLASLT_MATMUL_DESC_TRANSA, reference::b_is_transposed(gemm_));
  transposed(CUBLASLT_MATMUL_DESC_TRANSB, reference::a_is_transposed(gemm_));
  if (gemm_.dtype == DataType::Fp8 && gemm_.pass == GemmPass::Forward) {
    // Training frameworks use fast accumulation for forward GEMMs and precise accumulation for
    // gradients (Transformer Engine, documentation of the fp8 recipes).
    const std::int8_t fast = 1;
    check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast),
          "asking for fast accumulation");
  }
}

void GemmPlan::ask_heuristic() {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "describing a preference");
  struct Destroy {
    void operator()(cublasLtMatmulPreference_t p) const {
      (void)cublasLtMatmulPreferenceDestroy(p);
    }
  };
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy> owned(made);
  const std::size_t workspace = bench_.workspace.bytes();
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace),
        "offering a workspace");
  algorithms_.resize(algorithms_tried);
  int found = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(
      bench_.cublaslt.get(), operation_.get(), first_.get(), second_.get(), result_.get(),
      result_.get(), made, algorithms_tried, algorithms_.data(), &found);
  // cuBLASLt returns this code for shapes that tensor cores do not support, such as fp8 extents not
  // divisible by 16.
  if (code == CUBLAS_STATUS_INVALID_VALUE) throw Unsupported("cuBLASLt does not take this shape");
  check(code, "asking for an algorithm");
  algorithms_.resize(static_cast<std::size_t>(found));
  std::erase_if(algorithms_, [](const auto& a) { return a.state != CUBLAS_STATUS_SUCCESS; });
  if (algorithms_.empty()) throw Unsupported("cuBLASLt has no algorithm for it");
}

void GemmPlan::describe_epilogue(Epilogue epilogue, const void* bias) {
  // GeLU is cuBLASLt's tanh form. The columns of the result are rows for cuBLASLt, so each of them
  // has one bias.
  const cublasLtEpilogue_t name =
      epilogue == Epilogue::Bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
  check(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, &name,
                                       sizeof name),
        "asking for an epilogue");
  check(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias),
        "giving the bias");
}

void GemmPlan::describe_layouts() {
  const auto stored = [this](bool transposed, std::int64_t rows, std::int64_t columns) {
    return make_layout({gemm_.dtype, transposed ? columns : rows, transposed ? rows : columns});
  };
  first_ = stored(reference::b_is_transposed(gemm_), gemm_.k, gemm_.n);
  second_ = stored(reference::a_is_transposed(gemm_), gemm_.m, gemm_.k);
  result_ = make_layout({result_dtype(gemm_), gemm_.m, gemm_.n});
}

GemmPlan::GemmPlan(const Bench& bench, const Gemm& gemm) : bench_(bench), gemm_(gemm) {
  describe_operation();
  describe_layouts();
  ask_heuristic();
}

GemmPlan::GemmPlan(const Bench& bench, const FusedGemm& fused, const void* bias)
    : bench_(bench), gemm_(fused.gemm) {
  describe_operation();
  describe_epilogue(fused.epilogue, bias);
  describe_layouts();
  ask_heuristic();
}

void GemmPlan::run(const cublasLtMatmulHeuristicResult_t& algorithm,
                   const GemmOperands& operands) const {
  const float alpha = 1.0F;
  // A beta of 1 adds the product to the result in memory.
  const float beta = gemm_.accumulate_fp32 ? 1.0F : 0.0F;
  check(cublasLtMatmul(bench_.cublaslt.get(), operation_.get(), &alpha, operands.b, first_.get(),
                       operands.a, second_.get(), &beta, operands.result, result_.get(),
                       operands.result, result_.get(), &algorithm.algo, bench_.workspace.get(),
                       bench_.workspace.bytes(), bench_.watch.stream()),
        "multiplying");
}

std::string algorithm_text(const cublasLtMatmulHeuristicResult_t& a) {
  return fmt::format("tile {}, stages {}, split_k {}, waves {:.2f}",
                     setting<std::uint32_t>(a.algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     setting<std::uint32_t>(a.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     setting<std::int32_t>(a.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), a.wavesCount);
}

}  // namespace trainyard::bench
