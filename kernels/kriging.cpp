#include "kernels/kriging.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

double covariance(const Spot& a, const Spot& b, const KrigingRule& rule) {
  double squares = 0.0;
  for (std::size_t d = 0; d < kriging_dimensions; ++d)
    squares += (a.place[d] - b.place[d]) * (a.place[d] - b.place[d]);
  const double smooth = std::exp(-std::sqrt(squares) / rule.place_length);
  if (a.family != b.family) return smooth;
  return smooth +
         rule.family_variance * std::exp(-std::abs(a.along - b.along) / rule.family_length);
}

// Solves C x = y in place by Cholesky's decomposition. REQUIRES: C is positive definite, row-major;
// its lower half is read and overwritten.
void solve(std::vector<double>& matrix, std::vector<double>& y) {
  const std::size_t n = y.size();
  for (std::size_t column = 0; column < n; ++column)
    for (std::size_t row = column; row < n; ++row) {
      double rest = matrix[row * n + column];
      for (std::size_t i = 0; i < column; ++i) rest -= matrix[row * n + i] * matrix[column * n + i];
      TY_CHECK(row != column || rest > 0.0, rest);
      matrix[row * n + column] =
          row == column ? std::sqrt(rest) : rest / matrix[column * n + column];
    }
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t i = 0; i < row; ++i) y[row] -= matrix[row * n + i] * y[i];
    y[row] /= matrix[row * n + row];
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t i = row + 1; i < n; ++i) y[row] -= matrix[i * n + row] * y[i];
    y[row] /= matrix[row * n + row];
  }
}

struct Near {
  double covariance = 0.0;
  std::size_t index = 0;
};

std::vector<Near> nearest(std::span<const Observation> observations, const Spot& query,
                          const KrigingRule& rule) {
  std::vector<Near> near;
  near.reserve(observations.size());
  for (std::size_t i = 0; i < observations.size(); ++i)
    near.push_back({covariance(observations[i].spot, query, rule), i});
  const auto closer = [](const Near& a, const Near& b) {
    return std::pair(-a.covariance, a.index) < std::pair(-b.covariance, b.index);
  };
  const std::size_t count = std::min(rule.nearest, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(),
                    closer);
  near.resize(count);
  return near;
}

double median_of(std::span<const Observation> observations, const std::vector<Near>& near) {
  std::vector<double> values;
  for (const Near& n : near) values.push_back(observations[n.index].value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double kriged(std::span<const Observation> observations, const Spot& query,
              const KrigingRule& rule) {
  if (observations.empty()) return 0.0;
  const std::vector<Near> near = nearest(observations, query, rule);
  const double mean = rule.mean ? *rule.mean : median_of(observations, near);
  const std::size_t n = near.size();
  std::vector<double> matrix(n * n);
  std::vector<double> weights(n);
  for (std::size_t row = 0; row < n; ++row) {
    const Spot& spot = observations[near[row].index].spot;
    for (std::size_t column = 0; column < row; ++column)
      matrix[row * n + column] = covariance(spot, observations[near[column].index].spot, rule);
    matrix[row * n + row] = 1.0 + rule.family_variance + rule.noise;
    weights[row] = observations[near[row].index].value - mean;
  }
  solve(matrix, weights);
  double prediction = mean;
  for (std::size_t i = 0; i < n; ++i) prediction += near[i].covariance * weights[i];
  return prediction;
}

}  // namespace trainyard
