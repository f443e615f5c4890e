#include "kernels/kriging.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// The sum of the covariances of the smooth field and, within a family, of its offset.
double covariance(const Spot& a, const Spot& b, const KrigingRule& rule) {
  double squares = 0.0;
  for (std::size_t d = 0; d < kriging_dimensions; ++d)
    squares += (a.place[d] - b.place[d]) * (a.place[d] - b.place[d]);
  const double smooth = std::exp(-std::sqrt(squares) / rule.place_length);
  if (a.family != b.family) return smooth;
  return smooth +
         rule.family_variance * std::exp(-std::abs(a.along - b.along) / rule.family_length);
}

struct Near {
  double covariance = 0.0;
  std::size_t index = 0;
};

// The observations with the largest covariance with the query. Ties are broken by index, so that
// the result is deterministic.
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
  const auto seen = [&](Eigen::Index i) -> const Observation& {
    return observations[near[static_cast<std::size_t>(i)].index];
  };
  const auto n = static_cast<Eigen::Index>(near.size());
  Eigen::MatrixXd covariances(n, n);  // LLT reads only the lower half
  Eigen::VectorXd deviations(n);
  Eigen::VectorXd to_query(n);
  for (Eigen::Index row = 0; row < n; ++row) {
    for (Eigen::Index column = 0; column < row; ++column)
      covariances(row, column) = covariance(seen(row).spot, seen(column).spot, rule);
    covariances(row, row) = 1.0 + rule.family_variance + rule.noise;
    deviations[row] = seen(row).value - mean;
    to_query[row] = near[static_cast<std::size_t>(row)].covariance;
  }
  // Cholesky decomposition of at most rule.nearest (160) observations; the noise on the diagonal
  // keeps the matrix positive definite.
  const Eigen::LLT<Eigen::MatrixXd> decomposed(covariances);
  TY_CHECK(decomposed.info() == Eigen::Success, n);
  return mean + to_query.dot(decomposed.solve(deviations));
}

}  // namespace trainyard
