// Inference on counted failures: intervals of a Poisson rate, the shape of the gaps, and nodes that
// fail more often than chance explains.
//
//    const GammaRate rate{.shape = 3.5, .exposure = 100.0};   // 3 events in 100 days, Jeffreys
//    rate.mean();           // 0.035 a day
//    rate.quantile(0.95);   // 0.0703
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

// Intervals in reports hold this much of the posterior, with equal tails.
inline constexpr double kIntervalMass = 0.90;
// Below this probability a hypothesis counts as rejected.
inline constexpr double kRejectedBelow = 0.05;
// The expected share of nodes among those named as lemons that are none.
inline constexpr double kFalseDiscoveries = 0.10;

// The posterior of a Poisson rate, a Gamma distribution. n events in a time T with the prior
// Gamma(a, b) give Gamma(a + n, b + T) (Gelman et al., "Bayesian Data Analysis", 3rd edition,
// section 2.6). Jeffreys' prior is Gamma(1/2, 0).
struct GammaRate {
  double shape = 0.5;
  double exposure = 0.0;  // b + T, in any unit of time

  [[nodiscard]] double mean() const { return shape / exposure; }
  // REQUIRES: 0 < share < 1.
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] double low() const { return quantile((1.0 - kIntervalMass) / 2.0); }
  [[nodiscard]] double high() const { return quantile((1.0 + kIntervalMass) / 2.0); }
};

// Maximum-likelihood shape of Weibull distributed gaps, with the interval that the likelihood ratio
// gives (chi-square with one degree of freedom), and the p-value of shape 1, exponential gaps.
struct WeibullShape {
  double shape = 1.0;
  double low = 0.0;
  double high = 0.0;
  double p_exponential = 1.0;
  std::size_t gaps = 0;

  [[nodiscard]] bool rejects_exponential() const { return p_exponential < kRejectedBelow; }
};

// `open_gap` is the time from the last event to the end of the observation. Gaps of zero, events at
// one time, are left out. Returns nothing for fewer than five gaps, or for equal ones, whose
// likelihood has no maximum (Lawless 2003, "Statistical Models and Methods for Lifetime Data",
// section 5.2).
[[nodiscard]] std::optional<WeibullShape> weibull_shape(const std::vector<double>& gaps,
                                                        double open_gap);

// A node whose count of failures is too high for the common rate of all nodes.
struct LemonNode {
  std::string node;
  std::int64_t failures = 0;
  double p_value = 1.0;  // of so many failures or more, binomial with probability 1 / nodes
};

// Names the nodes with the procedure of Benjamini and Hochberg (1995, JRSS B 57(1)) at
// kFalseDiscoveries over all nodes, those without failures included; the most improbable first.
// REQUIRES: nodes >= failures.size().
[[nodiscard]] std::vector<LemonNode> lemon_nodes(
    const std::map<std::string, std::int64_t>& failures, std::int64_t nodes);

}  // namespace trainyard
