#include "sim/base/random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"

namespace trainyard {

// The state does not advance, so two splits by one number in succession are equal.
Random Random::split(std::uint64_t number) const {
  return Random(splitmix64_finaliser(mixed(state_) ^ (number + kGoldenGamma)));
}

Random Random::split(std::string_view name) const {
  std::uint64_t hash = name.size();
  for (const char letter : name)
    hash = splitmix64_finaliser(hash ^ static_cast<unsigned char>(letter)) + kGoldenGamma;
  return split(hash);
}

std::uint64_t Random::word() { return splitmix64_finaliser(state_ += kGoldenGamma); }

double Random::uniform() { return static_cast<double>(word() >> 11U) * 0x1p-53; }

double Random::gaussian() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Random::gamma(double alpha) {
  TY_CHECK(alpha > 0.0, alpha);
  // For alpha < 1: the gamma variate of alpha + 1 times a power of a uniform variate.
  const double boost = alpha < 1.0 ? std::pow(1.0 - uniform(), 1.0 / alpha) : 1.0;
  // Marsaglia and Tsang: with d = alpha - 1/3 and c = 1 / sqrt(9 d), d (1 + c x)^3 of a normal
  // variate x is accepted or drawn again.
  const double d = (alpha < 1.0 ? alpha + 1.0 : alpha) - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = gaussian();
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * boost;
  }
}

std::vector<std::uint32_t> Random::permutation(std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  // The bias of the modulo is below 2^-32.
  for (std::uint32_t left = count; left > 1; --left)
    std::swap(order[left - 1], order[word() % left]);
  return order;
}

}  // namespace trainyard
