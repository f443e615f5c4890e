#include "tools/studies/goodput/draws.hpp"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/random/seed_seq.hpp>
#include <cmath>

namespace trainyard {

namespace {

boost::random::mt19937_64 engine_of(const DrawsOf& what) {
  constexpr int kHalf = 32;
  const auto low = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
  const auto high = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(number >> kHalf);
  };
  const std::uint64_t pair = what.run / 2;
  boost::random::seed_seq words{low(what.seed), high(what.seed), low(pair), high(pair),
                                low(what.stream)};
  return boost::random::mt19937_64(words);
}

}  // namespace

Draws::Draws(const DrawsOf& what) : engine_(engine_of(what)), antithetic_(what.run % 2 == 1) {}

// The middle of one of 2^53 equal intervals: u and 1 - u are both such middles.
double Draws::uniform() {
  constexpr int kUnused = 11;
  const double u = (static_cast<double>(engine_() >> kUnused) + 0.5) * 0x1p-53;
  return antithetic_ ? 1.0 - u : u;
}

double Draws::exponential(double mean) { return -mean * std::log(uniform()); }

double Draws::weibull(double shape) {
  const double value = -std::log(uniform());
  if (shape == 1.0) return value;
  return std::pow(value, 1.0 / shape) / boost::math::tgamma(1.0 + 1.0 / shape);
}

double Draws::lognormal(double mean, double sigma) {
  const double z = quantile(boost::math::normal(), uniform());
  return mean * std::exp(sigma * z - sigma * sigma / 2.0);
}

double Draws::failed_trials(double probability) {
  if (probability >= 1.0) return 0.0;
  return std::floor(std::log(uniform()) / std::log1p(-probability));
}

Arrivals::Arrivals(double rate, double weibull_shape, const DrawsOf& what)
    : mean_(rate > 0.0 ? 1.0 / rate : kNever), shape_(weibull_shape), draws_(what) {}

void Arrivals::draw(double now, double share) {
  next_ = mean_ == kNever ? kNever : now + mean_ / share * draws_.weibull(shape_);
  place_ = draws_.uniform();
}

}  // namespace trainyard
