// Results of kernels on the CPU in double precision, to check those of a GPU: number formats,
// entries of GEMMs, rows of attention and of memory-bound kernels.
//
//    rounded(DataType::Bf16, 1.00390625);   // 1.0: halfway between 1 and 1 + 2^-7, ties to even
//    rounded(DataType::Fp8, 1000.0);        // 448, the largest E4M3 value: conversions saturate
//    gemm_entry(gemm, {.row = 0, .column = 3}, a, b);   // sum over l of A[0, l] * B[l, 3]
//    attention_row(attention, {.head = 3, .position = 17}, {q, k, v});   // one row of the result
//    softmax_row(std::vector{0.0, std::log(3.0)});                       // 0.25, 0.75
//
// A profiled GEMM or attention is too large to be computed here completely, so it is checked at
// entries or rows that are drawn at random. Operands are functions from a memory index to the value
// at that index.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/workload/kernel.hpp"

namespace trainyard::reference {

// A binary floating-point format. A value is sign * 1.fraction * 2^exponent. Below the least
// exponent the fraction has no leading one (subnormal numbers).
struct NumberFormat {
  int fraction_bits = 0;
  int least_exponent = 0;
  double largest = 0.0;
};

// fp8 is E4M3 as in tensor cores: no infinity, and 448 is the largest value (Micikevicius et al.
// 2022, arXiv 2209.05433, table 1). tf32 has the range of fp32 and the fraction of fp16.
[[nodiscard]] NumberFormat number_format(DataType dtype);

// The nearest value of the format, ties to even; beyond the largest value, the largest.
// REQUIRES: value is finite.
[[nodiscard]] double rounded(DataType dtype, double value);

// The value of the bits in the storage of the dtype (tf32: four bytes).
//
//    decoded(DataType::Bf16, 0x3f80);   // 1.0
[[nodiscard]] double decoded(DataType dtype, std::uint32_t bits);

// Layout of the operands of the three GEMMs of a linear layer (row-major, batch outermost).
//
//    forward  y = x W^T     A = x [m, k],     B = W stored [n, k]      (TN in BLAS terms)
//    dgrad    dx = dy W     A = dy [m, k],    B = W stored [k, n]      (NN)
//    wgrad    dW = dy^T x   A = dy stored [k, m],  B = x [k, n]        (NT)
//
// fp8 tensor cores read operands only along k, so fp8 GEMMs are TN in every pass. Frameworks store
// a transposed copy for that.
[[nodiscard]] bool a_is_transposed(const Gemm& gemm);
[[nodiscard]] bool b_is_transposed(const Gemm& gemm);

struct GemmEntry {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};
[[nodiscard]] std::int64_t a_index(const Gemm& gemm, const GemmEntry& entry, std::int64_t l);
[[nodiscard]] std::int64_t b_index(const Gemm& gemm, const GemmEntry& entry, std::int64_t l);
[[nodiscard]] std::int64_t result_place(const Gemm& gemm, const GemmEntry& entry);

// GeLU in its tanh form (Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2):
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). gelu(1) = 0.841192.
[[nodiscard]] double gelu(double x);

using StoredValue = std::function<double(std::int64_t place)>;
[[nodiscard]] double gemm_entry(const Gemm& gemm, const GemmEntry& entry, const StoredValue& a,
                                const StoredValue& b);

// Rows of the result and of the gradients of attention. Operands have the layout [batch, position,
// head, column]. With s = q k / sqrt(d_qk), P = softmax(s) over the keys that a query may attend
// to, dP = dO v and D = dO O: dS = P (dP - D), dV = P^T dO, dQ = dS k / sqrt(d_qk), and dK in the
// same way (Dao et al. 2022, arXiv 2205.14135, appendix B.4).

// The row of a query or, in gradients of keys and values, that of a key with the index of its key
// head.
struct AttentionRow {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t position = 0;
};
// Index of the first column of a row, where each position has `heads` heads of `columns` columns.
[[nodiscard]] std::int64_t row_place(const AttentionRow& row, std::int64_t positions,
                                     std::int64_t heads, std::int64_t columns);

struct AttentionOperands {
  StoredValue q, k, v;
};
struct ResultRow {
  std::vector<double> values;  // head_dim_v
  double log_sum = 0.0;        // log of the sum of exp(s)
};
[[nodiscard]] ResultRow attention_row(const Attention& attention, const AttentionRow& row,
                                      const AttentionOperands& operands);

// Operands of the backward: those of the forward, the result, its gradient, and the log of each
// row's sum with the layout [batch, head, position].
struct GradientOperands {
  AttentionOperands forward;
  StoredValue result, result_gradient, log_sum;
};
[[nodiscard]] std::vector<double> query_gradient_row(const Attention& attention,
                                                     const AttentionRow& row,
                                                     const GradientOperands& operands);
struct KeyGradientRow {
  std::vector<double> key, value;
};
// The sum over the query heads that share the key head.
[[nodiscard]] KeyGradientRow key_gradient_row(const Attention& attention, const AttentionRow& row,
                                              const GradientOperands& operands);

// x_i * w_i / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4).
// With x = (3, 4), w = 1 and epsilon = 0: mean 12.5, so 3 / 3.5355 = 0.8485.
inline constexpr double norm_epsilon = 1e-5;
[[nodiscard]] std::vector<double> rms_norm_row(std::span<const double> x,
                                               std::span<const double> weight,
                                               double epsilon = norm_epsilon);

// (x_i - mean) * w_i / sqrt(variance + epsilon) + b_i (Ba, Kiros and Hinton 2016, arXiv 1607.06450,
// equation 3). The weights w are followed by the biases b. With x = (1, 3), w = 1, b = 0 and
// epsilon = 0: mean 2, variance 1, so (-1, 1).
[[nodiscard]] std::vector<double> layer_norm_row(std::span<const double> x,
                                                 std::span<const double> weight_and_bias,
                                                 double epsilon = norm_epsilon);

// silu(gate) * up with silu(g) = g / (1 + exp(-g)) (Shazeer 2020, arXiv 2002.05202, equation 5).
// The first half of the row is the gate.
[[nodiscard]] std::vector<double> swiglu_row(std::span<const double> gate_and_up);

// exp(x_i - max), divided by the sum of these values over the row.
[[nodiscard]] std::vector<double> softmax_row(std::span<const double> x);

// Rotary embedding (Su et al. 2021, arXiv 2104.09864, equation 34) of heads with as many columns as
// the table. The table contains the cosines of a row and then its sines, half as many each. Column
// i and column j, which is half a head after it, are rotated together: x_i c_i - x_j s_i and x_j
// c_i + x_i s_i.
[[nodiscard]] std::vector<double> rope_row(std::span<const double> x,
                                           std::span<const double> cosines_and_sines);

// The gradient of -log softmax(x)_target: the softmax, minus one at the target.
[[nodiscard]] std::vector<double> cross_entropy_gradient_row(std::span<const double> x,
                                                             std::size_t target);

// The update of one parameter by AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2)
// at step t = 1.
struct AdamConstants {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
};
struct AdamState {
  double weight = 0.0;
  double momentum = 0.0;
  double variance = 0.0;
};
[[nodiscard]] AdamState adam_step(const AdamState& before, double gradient,
                                  const AdamConstants& constants = {});

}  // namespace trainyard::reference
