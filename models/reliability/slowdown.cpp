#include "models/reliability/slowdown.hpp"

#include <boost/math/constants/constants.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainyard::reliability {

namespace {

constexpr double kEuler = boost::math::double_constants::euler;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double real(std::int64_t number) { return static_cast<double>(number); }

// H_n = digamma(n + 1) + Euler's constant.
double harmonic(std::int64_t n) { return boost::math::digamma(real(n) + 1.0) + kEuler; }

}  // namespace

double normal_maximum(std::int64_t ranks) {
  const boost::math::normal normal;
  using Quadrature = boost::math::quadrature::gauss_kronrod<double, 61>;
  constexpr unsigned kDepth = 15;
  constexpr double kTolerance = 1e-12;
  // The mean of the maximum is the integral of 1 - F^n above zero less that of F^n below it. F is
  // near 1 in the upper tail, where 1 - F^n by itself would lose its digits.
  const auto above = [&](double x) {
    return -std::expm1(real(ranks) * std::log1p(-cdf(complement(normal, x))));
  };
  const auto below = [&](double x) { return std::pow(cdf(normal, x), real(ranks)); };
  return Quadrature::integrate(above, 0.0, kInfinity, kDepth, kTolerance) -
         Quadrature::integrate(below, -kInfinity, 0.0, kDepth, kTolerance);
}

double normal_maximum_gumbel(std::int64_t ranks) {
  const double logarithm = std::log(real(ranks));
  const double b = std::sqrt(2.0 * logarithm);
  const double four_pi = 2.0 * boost::math::double_constants::two_pi;
  return b - (std::log(logarithm) + std::log(four_pi)) / (2.0 * b) + kEuler / b;
}

double exponential_maximum(std::int64_t ranks) { return harmonic(ranks); }

double backup_wait(std::int64_t needed, std::int64_t backups) {
  return harmonic(needed + backups) - harmonic(backups);
}

double slow_step_share(double slow_probability, std::int64_t nodes) {
  return -std::expm1(real(nodes) * std::log1p(-slow_probability));
}

double slowdown_waste(double slowdown) { return 1.0 - 1.0 / slowdown; }

CheckInterval best_check_interval(const SilentErrorCheck& check) {
  const double intervals = 1.0 / check.coverage - 0.5;  // from an error to its detection
  const double interval = std::sqrt(check.time / (check.rate * intervals));
  const double delay = interval * intervals;
  return {
      .interval = interval, .delay = delay, .waste = check.time / interval + check.rate * delay};
}

double give_up_time(int timeout, int retries) {
  constexpr double kUnit = 4.096e-6;  // seconds
  return std::ldexp(kUnit, timeout) * retries;
}

FlapCost flap_cost(const LinkFlaps& flaps) {
  const double all = real(flaps.links) * flaps.rate;
  const double longer = std::exp(-flaps.give_up / flaps.duration);
  return {.kills = all * longer, .stalled = all * flaps.duration * (1.0 - longer)};
}

double shared_link_period(double compute, double transfer, double offset) {
  return offset < transfer ? compute + 2.0 * transfer - offset : compute + transfer;
}

Interleaving best_interleaving(const OnOffJob& first, const OnOffJob& second) {
  const std::int64_t circle = std::lcm(first.period, second.period);
  Interleaving best{.score = -1.0};
  for (std::int64_t shift = 0; shift < second.period; ++shift) {
    std::int64_t both = 0;
    for (std::int64_t t = 0; t < circle; ++t) {
      const std::int64_t later = (t - shift + second.period) % second.period;
      if (t % first.period < first.up && later < second.up) ++both;
    }
    const double score = 1.0 - real(both) / real(circle);
    if (score > best.score) best = {.score = score, .shift = shift};
  }
  return best;
}

}  // namespace trainyard::reliability
