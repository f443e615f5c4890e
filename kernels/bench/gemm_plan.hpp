// A GEMM as cuBLASLt describes it, and the algorithms that its heuristic offers.
//
//    const GemmPlan plan(bench, gemm);
//    plan.run(plan.algorithms().front(), operands);
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/bench/measure.hpp"

namespace trainyard::bench {

// Type of the result: fp32 where it accumulates into a gradient or has tf32 operands, bf16 for fp8
// operands, otherwise that of the operands.
[[nodiscard]] DataType result_dtype(const Gemm& gemm);

struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* result = nullptr;
};

class GemmPlan {
 public:
  // Throws Unsupported when this GPU has no algorithm for the GEMM.
  GemmPlan(const Bench& bench, const Gemm& gemm);
  // The same with an epilogue on the result. `bias` has n elements of the result's type.
  GemmPlan(const Bench& bench, const FusedGemm& fused, const void* bias);
  [[nodiscard]] const std::vector<cublasLtMatmulHeuristicResult_t>& algorithms() const {
    return algorithms_;
  }
  // Queues result = A B, or result += A B when the GEMM accumulates.
  void run(const cublasLtMatmulHeuristicResult_t& algorithm, const GemmOperands& operands) const;

 private:
  struct DestroyOperation {
    void operator()(cublasLtMatmulDesc_t made) const { (void)cublasLtMatmulDescDestroy(made); }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t made) const { (void)cublasLtMatrixLayoutDestroy(made); }
  };
  using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
  struct Shape;
  [[nodiscard]] Layout make_layout(const Shape& shape) const;
  void describe_operation();
  void describe_epilogue(Epilogue epilogue, const void* bias);
  void describe_layouts();
  void ask_heuristic();

  const Bench& bench_;
  Gemm gemm_;
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyOperation> operation_;
  Layout first_, second_, result_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

// "tile 20, stages 7, split_k 1, waves 0.97": cuBLASLt's settings of an algorithm.
[[nodiscard]] std::string algorithm_text(const cublasLtMatmulHeuristicResult_t& algorithm);

}  // namespace trainyard::bench
