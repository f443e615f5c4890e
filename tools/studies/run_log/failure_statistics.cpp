#include "tools/studies/run_log/failure_statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/gamma.hpp>
#include <boost/math/tools/minima.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kGapsLeast = 5;
// The search for the shape stays within these. At the upper bound the gaps are practically equal.
constexpr double kShapeLeast = 0.02;
constexpr double kShapeMost = 50.0;

// The log-likelihood of gaps at a shape, with the best scale for it. With the scale eta of shape k,
// eta^k = sum of t^k / n, it is n log k - n log(eta^k) + (k - 1) sum log t - n. The open gap is
// censored: its event did not come yet, so it adds to the sum of t^k and not to n or to the sum of
// log t. Powers are of t / longest, because t^k of a gap of 1e7 seconds overflows at a shape of 50.
class WeibullLikelihood {
 public:
  WeibullLikelihood(const std::vector<double>& gaps, double open_gap)
      : gaps_(gaps), open_(open_gap) {
    for (const double gap : gaps) sum_log_ += std::log(gap);
    longest_ = std::max(open_gap, *std::ranges::max_element(gaps));
  }
  [[nodiscard]] double at(double shape) const {
    const auto count = static_cast<double>(gaps_.size());
    double powers = open_ > 0.0 ? std::pow(open_ / longest_, shape) : 0.0;
    for (const double gap : gaps_) powers += std::pow(gap / longest_, shape);
    return count * (std::log(shape) - std::log(powers / count) - shape * std::log(longest_) - 1.0) +
           (shape - 1.0) * sum_log_;
  }

 private:
  const std::vector<double>& gaps_;
  double open_;
  double sum_log_ = 0.0;
  double longest_ = 0.0;
};

// The shape between `best` and `bound` at which twice the logarithm falls by `drop`.
double crossing(const WeibullLikelihood& likelihood, double best, double bound, double drop) {
  const double level = likelihood.at(best) - drop / 2.0;
  const auto above = [&](double shape) { return likelihood.at(shape) - level; };
  // The solver needs a change of sign. With few gaps the likelihood may not fall that far before
  // the bound.
  if (above(bound) > 0.0) return bound;
  std::uintmax_t steps = 100;
  const auto [low, high] =
      boost::math::tools::toms748_solve(above, std::min(best, bound), std::max(best, bound),
                                        boost::math::tools::eps_tolerance<double>(40), steps);
  return (low + high) / 2.0;
}

// Probability that one node has so many failures or more, if every failure hits each node with
// equal probability.
double upper_tail(std::int64_t failures, std::int64_t all, std::int64_t nodes) {
  if (failures == 0) return 1.0;
  const boost::math::binomial counts(static_cast<double>(all), 1.0 / static_cast<double>(nodes));
  return cdf(complement(counts, static_cast<double>(failures - 1)));
}

}  // namespace

double GammaRate::quantile(double share) const {
  TY_CHECK(shape > 0.0 && exposure > 0.0, shape, exposure);
  return boost::math::quantile(boost::math::gamma_distribution(shape, 1.0 / exposure), share);
}

std::optional<WeibullShape> weibull_shape(const std::vector<double>& gaps, double open_gap) {
  std::vector<double> used;
  std::ranges::copy_if(gaps, std::back_inserter(used), [](double gap) { return gap > 0.0; });
  if (used.size() < kGapsLeast) return {};
  const WeibullLikelihood likelihood(used, open_gap);
  const auto loss = [&](double log_shape) { return -likelihood.at(std::exp(log_shape)); };
  // The logarithm of the shape, so that the search has equal precision below and above 1.
  const auto [log_best, worst] = boost::math::tools::brent_find_minima(
      loss, std::log(kShapeLeast), std::log(kShapeMost), std::numeric_limits<double>::digits / 2);
  const double best = std::exp(log_best);
  // Equal gaps: the likelihood grows with the shape up to the bound.
  if (best > kShapeMost * 0.99) return {};
  const boost::math::chi_squared one_degree(1.0);
  // 2.71 for 90 %: a shape is within the interval if twice its log-likelihood is at most 2.71 below
  // that of the best shape.
  const double drop = quantile(one_degree, kIntervalMass);
  const double ratio = std::max(0.0, 2.0 * (likelihood.at(best) - likelihood.at(1.0)));
  return WeibullShape{.shape = best,
                      .low = crossing(likelihood, best, kShapeLeast, drop),
                      .high = crossing(likelihood, best, kShapeMost, drop),
                      .p_exponential = cdf(complement(one_degree, ratio)),
                      .gaps = used.size()};
}

std::vector<LemonNode> lemon_nodes(const std::map<std::string, std::int64_t>& failures,
                                   std::int64_t nodes) {
  TY_CHECK(nodes >= static_cast<std::int64_t>(failures.size()), nodes, failures.size());
  std::int64_t all = 0;
  for (const auto& [node, count] : failures) all += count;
  std::vector<LemonNode> ranked;
  for (const auto& [node, count] : failures)
    ranked.push_back({node, count, upper_tail(count, all, nodes)});
  std::ranges::stable_sort(ranked, {}, &LemonNode::p_value);
  // The procedure steps up: it names every node up to the last rank i with p <= q i / nodes, also
  // nodes before it that exceed their own bound.
  std::size_t named = 0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const double bound =
        kFalseDiscoveries * static_cast<double>(i + 1) / static_cast<double>(nodes);
    if (ranked[i].p_value <= bound) named = i + 1;
  }
  ranked.resize(named);
  return ranked;
}

}  // namespace trainyard
