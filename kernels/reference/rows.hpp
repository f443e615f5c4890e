// CPU references of the memory-bound kernels, one row at a time, in double precision.
//
//   softmax_row(std::vector{0.0, std::log(3.0)});   // 0.25, 0.75
#pragma once

#include <span>
#include <vector>

namespace trainyard::reference {

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
