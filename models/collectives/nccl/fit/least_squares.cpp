#include "models/collectives/nccl/fit/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace trainyard::nccl::fit {

namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double loss(const Vector& residuals, double scale) {
  double sum = 0.0;
  for (const double r : residuals)
    sum += scale * scale * (std::sqrt(1.0 + (r / scale) * (r / scale)) - 1.0);
  return sum;
}

// Gauss with partial pivoting; singular directions are left at zero.
Vector solve(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < n; ++row)
      if (std::abs(a[row][i]) > std::abs(a[pivot][i])) pivot = row;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    if (std::abs(a[i][i]) < 1e-14) continue;
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < n; ++column) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  }
  Vector x(n, 0.0);
  for (std::size_t i = n; i-- > 0;) {
    if (std::abs(a[i][i]) < 1e-14) continue;
    double sum = b[i];
    for (std::size_t column = i + 1; column < n; ++column) sum -= a[i][column] * x[column];
    x[i] = sum / a[i][i];
  }
  return x;
}

Vector stepped(const Vector& from, const Vector& step) {
  Vector to = from;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] *= std::exp(std::clamp(step[i], -0.7, 0.7));
  return to;
}

// The weighted normal equations J'WJ and -J'Wr, derivatives by the logarithm of each parameter.
struct Normal {
  Matrix curvature;
  Vector downhill;
};

Normal normal_equations(const Vector& at, const Vector& residuals, const Residuals& of,
                        double scale) {
  constexpr double kNudge = 1e-4;
  const std::size_t n = at.size();
  Matrix slopes;
  for (std::size_t i = 0; i < n; ++i) {
    Vector nudged = at;
    nudged[i] *= std::exp(kNudge);
    Vector slope = of(nudged);
    for (std::size_t k = 0; k < slope.size(); ++k) slope[k] = (slope[k] - residuals[k]) / kNudge;
    slopes.push_back(std::move(slope));
  }
  Normal made{Matrix(n, Vector(n, 0.0)), Vector(n, 0.0)};
  for (std::size_t k = 0; k < residuals.size(); ++k) {
    const double weight = 1.0 / std::sqrt(1.0 + std::pow(residuals[k] / scale, 2));
    for (std::size_t i = 0; i < n; ++i) {
      if (slopes[i][k] == 0.0) continue;
      made.downhill[i] -= weight * slopes[i][k] * residuals[k];
      for (std::size_t j = 0; j < n; ++j)
        made.curvature[i][j] += weight * slopes[i][k] * slopes[j][k];
    }
  }
  return made;
}

}  // namespace

std::vector<double> fit_positive(std::vector<double> start, const Residuals& residuals,
                                 const FitRule& rule) {
  Vector best = std::move(start);
  Vector at_best = residuals(best);
  double best_loss = loss(at_best, rule.scale);
  double damping = 1e-2;
  for (std::uint32_t round = 0; round < rule.rounds_most && damping < 1e8; ++round) {
    const Normal normal = normal_equations(best, at_best, residuals, rule.scale);
    const double before = best_loss;
    while (damping < 1e8) {
      Matrix damped = normal.curvature;
      for (std::size_t i = 0; i < damped.size(); ++i)
        damped[i][i] += damping * std::max(damped[i][i], 1e-6);
      const Vector tried = stepped(best, solve(damped, normal.downhill));
      Vector at_tried = residuals(tried);
      const double tried_loss = loss(at_tried, rule.scale);
      if (tried_loss < best_loss) {
        best = tried;
        at_best = std::move(at_tried);
        best_loss = tried_loss;
        damping = std::max(damping / 5.0, 1e-6);
        break;
      }
      damping *= 4.0;
    }
    if (before - best_loss < 1e-9 * before) break;
  }
  return best;
}

}  // namespace trainyard::nccl::fit
