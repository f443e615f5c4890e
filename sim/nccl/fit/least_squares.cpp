#include "sim/nccl/fit/least_squares.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace trainyard::nccl::fit {

namespace {

using Eigen::ArrayXd;
using Eigen::MatrixXd;

ArrayXd read(const Residuals& residuals, const ArrayXd& at) {
  const std::vector<double> made = residuals({at.begin(), at.end()});
  return Eigen::Map<const ArrayXd>(made.data(), static_cast<Eigen::Index>(made.size()));
}

// The pseudo-Huber loss: quadratic for |r| below the scale, linear beyond.
double loss(const ArrayXd& residuals, double scale) {
  return scale * scale * ((1.0 + (residuals / scale).square()).sqrt() - 1.0).sum();
}

// The weighted normal equations: J'WJ and -J'Wr. Derivatives are with respect to the logarithms of
// the parameters, by forward differences; the weights are those of the robust loss.
struct Normal {
  MatrixXd curvature;
  Eigen::VectorXd downhill;
};

Normal normal_equations(const ArrayXd& at, const ArrayXd& residuals, const Residuals& of,
                        double scale) {
  constexpr double kNudge = 1e-4;
  MatrixXd slopes(residuals.size(), at.size());
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    ArrayXd nudged = at;
    nudged[i] *= std::exp(kNudge);
    slopes.col(i) = (read(of, nudged) - residuals) / kNudge;
  }
  const ArrayXd weights = (1.0 + (residuals / scale).square()).rsqrt();
  const MatrixXd weighted = slopes.transpose() * weights.matrix().asDiagonal();
  return {weighted * slopes, -weighted * residuals.matrix()};
}

}  // namespace

// Levenberg-Marquardt: the damping decreases after a successful step and grows after a failed one,
// until the loss no longer improves. A step changes the logarithm of a parameter by at most 0.7, so
// that a parameter at most doubles or halves.
std::vector<double> fit_positive(std::vector<double> start, const Residuals& residuals,
                                 const FitRule& rule) {
  ArrayXd best = Eigen::Map<ArrayXd>(start.data(), static_cast<Eigen::Index>(start.size()));
  ArrayXd at_best = read(residuals, best);
  double best_loss = loss(at_best, rule.scale);
  double damping = 1e-2;
  for (std::uint32_t round = 0; round < rule.rounds_most && damping < 1e8; ++round) {
    const Normal normal = normal_equations(best, at_best, residuals, rule.scale);
    const double before = best_loss;
    while (damping < 1e8) {
      MatrixXd damped = normal.curvature;
      // The floor keeps the system solvable if no residual depends on a parameter; the parameter
      // then stays.
      damped.diagonal() += damping * normal.curvature.diagonal().cwiseMax(1e-6);
      const Eigen::VectorXd step = damped.ldlt().solve(normal.downhill);
      const ArrayXd tried = best * step.array().max(-0.7).min(0.7).exp();
      const ArrayXd at_tried = read(residuals, tried);
      const double tried_loss = loss(at_tried, rule.scale);
      if (tried_loss < best_loss) {
        best = tried;
        at_best = at_tried;
        best_loss = tried_loss;
        damping = std::max(damping / 5.0, 1e-6);
        break;
      }
      damping *= 4.0;
    }
    if (before - best_loss < 1e-9 * before) break;
  }
  return {best.begin(), best.end()};
}

}  // namespace trainyard::nccl::fit
