#include "kernels/reference/gemm.hpp"

#include <cmath>

namespace trainyard::reference {

bool a_is_transposed(const Gemm& gemm) {
  return gemm.pass == GemmPass::WeightGrad && gemm.dtype != DataType::Fp8;
}

bool b_is_transposed(const Gemm& gemm) {
  return gemm.pass == GemmPass::Forward || gemm.dtype == DataType::Fp8;
}

std::int64_t a_place(const Gemm& gemm, const GemmEntry& entry, std::int64_t l) {
  const std::int64_t inside =
      a_is_transposed(gemm) ? l * gemm.m + entry.row : entry.row * gemm.k + l;
  return entry.batch * gemm.m * gemm.k + inside;
}

std::int64_t b_place(const Gemm& gemm, const GemmEntry& entry, std::int64_t l) {
  const std::int64_t inside =
      b_is_transposed(gemm) ? entry.column * gemm.k + l : l * gemm.n + entry.column;
  return entry.batch * gemm.k * gemm.n + inside;
}

std::int64_t result_place(const Gemm& gemm, const GemmEntry& entry) {
  return (entry.batch * gemm.m + entry.row) * gemm.n + entry.column;
}

double gelu(double x) {
  constexpr double root_of_two_over_pi = 0.7978845608028654;
  return 0.5 * x * (1.0 + std::tanh(root_of_two_over_pi * (x + 0.044715 * x * x * x)));
}

double gemm_entry(const Gemm& gemm, const GemmEntry& entry, const StoredValue& a,
                  const StoredValue& b) {
  double sum = 0.0;
  for (std::int64_t l = 0; l < gemm.k; ++l)
    sum += a(a_place(gemm, entry, l)) * b(b_place(gemm, entry, l));
  return sum;
}

}  // namespace trainyard::reference
