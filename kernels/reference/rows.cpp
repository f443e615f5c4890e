#include "kernels/reference/rows.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::reference {

std::vector<double> rms_norm_row(std::span<const double> x, std::span<const double> weight,
                                 double epsilon) {
  TY_CHECK(!x.empty() && x.size() == weight.size(), x.size(), weight.size());
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> normed;
  for (std::size_t i = 0; i < x.size(); ++i) normed.push_back(x[i] * scale * weight[i]);
  return normed;
}

std::vector<double> layer_norm_row(std::span<const double> x,
                                   std::span<const double> weight_and_bias, double epsilon) {
  TY_CHECK(!x.empty() && 2 * x.size() == weight_and_bias.size(), x.size(), weight_and_bias.size());
  const auto count = static_cast<double>(x.size());
  double mean = 0.0;
  for (const double value : x) mean += value / count;
  double variance = 0.0;
  for (const double value : x) variance += (value - mean) * (value - mean) / count;
  const double scale = 1.0 / std::sqrt(variance + epsilon);
  std::vector<double> normed;
  for (std::size_t i = 0; i < x.size(); ++i)
    normed.push_back((x[i] - mean) * scale * weight_and_bias[i] + weight_and_bias[x.size() + i]);
  return normed;
}

std::vector<double> swiglu_row(std::span<const double> gate_and_up) {
  TY_CHECK(gate_and_up.size() % 2 == 0, gate_and_up.size());
  const std::size_t columns = gate_and_up.size() / 2;
  std::vector<double> activated;
  for (std::size_t i = 0; i < columns; ++i)
    activated.push_back(gate_and_up[i] / (1.0 + std::exp(-gate_and_up[i])) *
                        gate_and_up[columns + i]);
  return activated;
}

std::vector<double> softmax_row(std::span<const double> x) {
  TY_CHECK(!x.empty(), x.size());
  const double largest = *std::ranges::max_element(x);
  double sum = 0.0;
  std::vector<double> share;
  for (const double value : x) {
    share.push_back(std::exp(value - largest));
    sum += share.back();
  }
  for (double& value : share) value /= sum;
  return share;
}

std::vector<double> rope_row(std::span<const double> x, std::span<const double> table) {
  const std::size_t half = table.size() / 2;
  TY_CHECK(half > 0 && x.size() % table.size() == 0, x.size(), table.size());
  std::vector<double> turned(x.size());
  for (std::size_t head = 0; head < x.size(); head += table.size())
    for (std::size_t i = 0; i < half; ++i) {
      const double a = x[head + i];
      const double b = x[head + half + i];
      turned[head + i] = a * table[i] - b * table[half + i];
      turned[head + half + i] = b * table[i] + a * table[half + i];
    }
  return turned;
}

std::vector<double> cross_entropy_gradient_row(std::span<const double> x, std::size_t target) {
  TY_CHECK(target < x.size(), target, x.size());
  std::vector<double> gradient = softmax_row(x);
  gradient[target] -= 1.0;
  return gradient;
}

AdamState adam_step(const AdamState& before, double gradient, const AdamConstants& c) {
  AdamState after;
  after.momentum = c.beta1 * before.momentum + (1.0 - c.beta1) * gradient;
  after.variance = c.beta2 * before.variance + (1.0 - c.beta2) * gradient * gradient;
  // At the first step the bias corrections are 1 - beta^1.
  const double momentum = after.momentum / (1.0 - c.beta1);
  const double variance = after.variance / (1.0 - c.beta2);
  after.weight = before.weight -
                 c.rate * (momentum / (std::sqrt(variance) + c.epsilon) + c.decay * before.weight);
  return after;
}

}  // namespace trainyard::reference
