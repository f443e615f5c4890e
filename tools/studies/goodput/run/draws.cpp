#include "tools/studies/goodput/run/draws.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/random/seed_seq.hpp>
#include <cmath>

namespace trainyard {

namespace {

// Antithetic partners have the same seed, so they draw the same u and one of them takes 1 - u.
boost::random::taus88 engine_of(const DrawsOf& what) {
  constexpr int kHalf = 32;
  const auto low = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
  const auto high = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(number >> kHalf);
  };
  const std::uint64_t pair = what.run / 2;
  boost::random::seed_seq words{low(what.seed), high(what.seed), low(pair), high(pair),
                                low(what.stream)};
  return boost::random::taus88(words);
}

}  // namespace

Draws::Draws(const DrawsOf& what) : engine_(engine_of(what)), antithetic_(what.run % 2 == 1) {}

// The middle of one of 2^53 equal intervals: u and 1 - u are both such middles.
double Draws::uniform() {
  constexpr double kLowBits = 0x1p21;
  const auto high = static_cast<double>(engine_());
  const auto low = static_cast<double>(engine_() >> 11U);
  const double u = (high * kLowBits + low + 0.5) * 0x1p-53;
  return antithetic_ ? 1.0 - u : u;
}

double Draws::exponential(double mean) { return -mean * std::log(uniform()); }

// The inverse distribution function, (-ln u)^(1/shape), over its mean, Gamma(1 + 1/shape).
double Draws::weibull(double shape) {
  const double value = -std::log(uniform());
  if (shape == 1.0) return value;
  return std::pow(value, 1.0 / shape) / boost::math::tgamma(1.0 + 1.0 / shape);
}

// A moment at random falls into a gap with a probability in proportion to its length, and anywhere
// within it. For a gap x of such a length, (x/scale)^shape has a gamma distribution of shape
// 1 + 1/shape.
double Draws::weibull_residual(double shape) {
  if (shape == 1.0) return weibull(shape);
  const double power = boost::math::gamma_p_inv(1.0 + 1.0 / shape, uniform());
  const double gap = std::pow(power, 1.0 / shape) / boost::math::tgamma(1.0 + 1.0 / shape);
  return gap * uniform();
}

// The mean of exp(sigma z) is exp(sigma^2/2), hence the last term.
double Draws::lognormal(double mean, double sigma) {
  const double z = quantile(boost::math::normal(), uniform());
  return mean * std::exp(sigma * z - sigma * sigma / 2.0);
}

// Geometric: k trials fail with the probability (1 - p)^k. log1p keeps small probabilities exact.
double Draws::failed_trials(double probability) {
  if (probability >= 1.0) return 0.0;
  return std::floor(std::log(uniform()) / std::log1p(-probability));
}

void Arrivals::add(double rate, double weibull_shape, const DrawsOf& what,
                   const std::vector<double>* trace_s) {
  causes_.push_back({.mean = rate > 0.0 ? 1.0 / rate : kNever,
                     .shape = weibull_shape,
                     .draws = Draws(what),
                     .trace_s = trace_s});
  Cause& cause = causes_.back();
  double first = kNever;
  if (trace_s != nullptr)
    first = next_of_trace(cause);
  else if (cause.mean != kNever)
    first = cause.mean * cause.draws.weibull_residual(weibull_shape);
  next_.push_back(first);
  place_.push_back(cause.draws.uniform());
  find_first();
}

double Arrivals::next_of_trace(Cause& cause) {
  return cause.taken < cause.trace_s->size() ? (*cause.trace_s)[cause.taken++] : kNever;
}

// With half of the parts at work, events are twice as far apart; those of a trace are not.
void Arrivals::draw(std::size_t cause, double now, double share) {
  Cause& one = causes_[cause];
  if (one.trace_s != nullptr)
    next_[cause] = next_of_trace(one);
  else
    next_[cause] =
        one.mean == kNever ? kNever : now + one.mean / share * one.draws.weibull(one.shape);
  place_[cause] = one.draws.uniform();
  find_first();
}

// The next event was drawn at the old rate, so the time until it changes in inverse proportion to
// the rate. For exponential times this has the distribution of a new draw and takes no random
// number.
void Arrivals::rescale(const std::vector<bool>& causes, double now, double before, double after) {
  for (std::size_t i = 0; i < next_.size(); ++i)
    if (causes[i] && next_[i] != kNever && causes_[i].trace_s == nullptr)
      next_[i] = now + (next_[i] - now) * before / after;
  find_first();
}

void Arrivals::find_first() {
  first_ = static_cast<std::size_t>(std::min_element(next_.begin(), next_.end()) - next_.begin());
}

}  // namespace trainyard
