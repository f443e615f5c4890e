// The CPU reference of one matrix product: single entries of the result, in double precision.
//
// A profiled product is too large to be computed here as a whole, so it is judged by entries drawn
// at random; operands are given as functions from a place in memory to the value stored there.
//
//   gemm_entry(gemm, {.row = 0, .column = 3}, a, b);   // sum over l of A[0, l] * B[l, 3]
#pragma once

#include <cstdint>
#include <functional>

#include "sim/workload/kernel.hpp"

namespace trainyard::reference {

// Where operands lie, as a linear layer's three products find them (row-major, batch outermost).
//
//   forward  y = x W^T     A = x [m, k],     B = W stored [n, k]      (TN in BLAS words)
//   dgrad    dx = dy W     A = dy [m, k],    B = W stored [k, n]      (NN)
//   wgrad    dW = dy^T x   A = dy stored [k, m],  B = x [k, n]        (NT)
//
// fp8 tensor cores take operands only along k, so fp8 products are TN in every pass; frameworks
// keep a transposed copy for that.
[[nodiscard]] bool a_is_transposed(const Gemm& gemm);
[[nodiscard]] bool b_is_transposed(const Gemm& gemm);

struct GemmEntry {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};
[[nodiscard]] std::int64_t a_place(const Gemm& gemm, const GemmEntry& entry, std::int64_t l);
[[nodiscard]] std::int64_t b_place(const Gemm& gemm, const GemmEntry& entry, std::int64_t l);
[[nodiscard]] std::int64_t result_place(const Gemm& gemm, const GemmEntry& entry);

// GeLU in its tanh form (Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2): x / 2 (1 + tanh(
// sqrt(2 / pi) (x + 0.044715 x^3))). gelu(1) = 0.841192.
[[nodiscard]] double gelu(double x);

using StoredValue = std::function<double(std::int64_t place)>;
[[nodiscard]] double gemm_entry(const Gemm& gemm, const GemmEntry& entry, const StoredValue& a,
                                const StoredValue& b);

}  // namespace trainyard::reference
