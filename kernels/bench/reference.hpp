// The results of kernels on the CPU, in double precision, against which a GPU's results are
// checked: number formats, entries of products, rows of attention and of memory-bound kernels.
//
//   rounded(DataType::Bf16, 1.00390625);   // 1.0: halfway between 1 and 1 + 2^-7, ties to even
//   rounded(DataType::Fp8, 1000.0);        // 448, the largest E4M3 value: conversions saturate
//   gemm_entry(gemm, {.row = 0, .column = 3}, a, b);   // sum over l of A[0, l] * B[l, 3]
//   attention_row(attention, {.head = 3, .position = 17}, {q, k, v});   // the result's row
//   softmax_row(std::vector{0.0, std::log(3.0)});                       // 0.25, 0.75
//
// A profiled product or attention is too large to be computed here as a whole, so it is judged by
// entries or rows drawn at random. Operands are functions from a place in memory to the value
// there.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/workload/kernel.hpp"

namespace trainyard::reference {

// A binary floating-point format: a value is sign * 1.fraction * 2^exponent, and below the least
// exponent fractions lose their leading one (subnormal numbers).
struct NumberFormat {
  int fraction_bits = 0;
  int least_exponent = 0;
  double largest = 0.0;
};

// fp8 is E4M3 as tensor cores have it: no infinity, 448 the largest (Micikevicius et al. 2022,
// arXiv 2209.05433, table 1). tf32 has the range of fp32 and the fraction of fp16.
[[nodiscard]] NumberFormat number_format(DataType dtype);

// The nearest value of the format, ties to even; beyond the largest, the largest.
// REQUIRES: value is finite.
[[nodiscard]] double rounded(DataType dtype, double value);

// The value that the bits stand for, in the storage of the dtype (tf32: four bytes).
//
//   decoded(DataType::Bf16, 0x3f80);   // 1.0
[[nodiscard]] double decoded(DataType dtype, std::uint32_t bits);

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

// Rows of attention's result and gradients; operands are laid out [batch, position, head, column].
// With s = q k / sqrt(d_qk), P = softmax(s) over the keys that a query may see, dP = dO v and
// D = dO O: dS = P (dP - D), dV = P^T dO, dQ = dS k / sqrt(d_qk), dK likewise (Dao et al. 2022,
// arXiv 2205.14135, appendix B.4).

// A query's row, or (in gradients of keys and values) a key's with the key head's number.
struct AttentionRow {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t position = 0;
};
// The place of the first column of a row, where each position has `heads` heads of `columns`
// columns.
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

// Backward also takes the result, its gradient, and the log of each row's sum, laid out [batch,
// head, position].
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
// Summed over the query heads that share the key head.
[[nodiscard]] KeyGradientRow key_gradient_row(const Attention& attention, const AttentionRow& row,
                                              const GradientOperands& operands);

// x_i * w_i / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4).
// With x = (3, 4), w = 1 and epsilon = 0: mean 12.5, so 3 / 3.5355 = 0.8485.
inline constexpr double norm_epsilon = 1e-5;
[[nodiscard]] std::vector<double> rms_norm_row(std::span<const double> x,
                                               std::span<const double> weight,
                                               double epsilon = norm_epsilon);

// (x_i - mean) * w_i / sqrt(variance + epsilon) + b_i (Ba, Kiros and Hinton 2016, arXiv 1607.06450,
// equation 3), the weights w followed by the biases b. With x = (1, 3), w = 1, b = 0 and
// epsilon = 0: mean 2, variance 1, so (-1, 1).
[[nodiscard]] std::vector<double> layer_norm_row(std::span<const double> x,
                                                 std::span<const double> weight_and_bias,
                                                 double epsilon = norm_epsilon);

// silu(gate) * up with silu(g) = g / (1 + exp(-g)) (Shazeer 2020, arXiv 2002.05202, equation 5).
// The first half of the row is the gate.
[[nodiscard]] std::vector<double> swiglu_row(std::span<const double> gate_and_up);

// exp(x_i - max) / sum of the same.
[[nodiscard]] std::vector<double> softmax_row(std::span<const double> x);

// Rotary embedding (Su et al. 2021, arXiv 2104.09864, equation 34) of heads of as many columns as
// the table has; the table holds a row's cosines, then its sines, half as many each. Column i and
// the one half a head further turn together: x_i c_i - x_j s_i and x_j c_i + x_i s_i.
[[nodiscard]] std::vector<double> rope_row(std::span<const double> x,
                                           std::span<const double> cosines_and_sines);

// The gradient of -log softmax(x)_target: the softmax, less one at the target.
[[nodiscard]] std::vector<double> cross_entropy_gradient_row(std::span<const double> x,
                                                             std::size_t target);

// One parameter of AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2) at step t = 1.
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
