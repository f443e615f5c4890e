#include "models/reliability/redundancy.hpp"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/poisson.hpp>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::reliability {

namespace {

double real(std::int64_t number) { return static_cast<double>(number); }

}  // namespace

// C(n-m, k-m)/C(n, k) is the product of (k - i)/(n - i) over i < m.
double in_memory_survival(std::int64_t machines, std::int64_t replicas, std::int64_t lost) {
  TY_CHECK(replicas <= lost && lost < 2 * replicas, lost);
  double group_lost = 1.0;
  for (std::int64_t i = 0; i < replicas; ++i) group_lost *= real(lost - i) / real(machines - i);
  return std::max(0.0, 1.0 - real(machines) / real(replicas) * group_lost);
}

double ring_survival(std::int64_t stages, std::int64_t lost) {
  if (2 * lost > stages) return 0.0;
  double ways = real(stages) / real(stages - lost);
  for (std::int64_t i = 0; i < lost; ++i) ways *= real(stages - lost - i) / real(stages - i);
  return ways;
}

// The weights of the states are relative to that without a failed node. The loop ends where the
// rest has no weight in a double.
double spare_shortage(const SparePool& pool) {
  const std::int64_t total = pool.nodes + pool.spares;
  double weight = 1.0;
  double all = 1.0;
  double short_of = 0.0;
  for (std::int64_t down = 1; down <= total; ++down) {
    const std::int64_t working = std::min(pool.nodes, total - (down - 1));
    const std::int64_t repairs = pool.crews == 0 ? down : std::min(down, pool.crews);
    weight *= real(working) * pool.failure_rate / (real(repairs) * pool.repair_rate);
    all += weight;
    if (down > pool.spares) short_of += weight;
    if (weight < 1e-300 && down > pool.spares) break;
  }
  return short_of / all;
}

double poisson_shortage(double mean_in_repair, std::int64_t spares) {
  return cdf(complement(boost::math::poisson(mean_in_repair), real(spares)));
}

double at_least(std::int64_t needed, std::int64_t parts, double probability) {
  if (needed <= 0) return 1.0;
  return cdf(complement(boost::math::binomial(real(parts), probability), real(needed - 1)));
}

double rate_with_smaller_batch(std::int64_t replicas) {
  return real(replicas - 1) / real(replicas);
}

double rate_with_same_batch(std::int64_t replicas, std::int64_t microbatches, std::int64_t stages) {
  const std::int64_t others = replicas - 1;
  const std::int64_t more = (microbatches * replicas + others - 1) / others;
  return real(microbatches + stages - 1) / real(more + stages - 1);
}

double equal_wait(double repair, std::int64_t replicas) { return repair / real(replicas); }

std::int64_t spare_replicas(std::int64_t groups) {
  constexpr double kOffset = 0.833;  // of the paper's fit
  return static_cast<std::int64_t>(std::floor(std::log2(real(groups)) + kOffset));
}

double masked_failures(std::int64_t groups, std::int64_t copies) {
  const double share = 1.0 / real(copies);
  return std::tgamma(share) * std::pow(real(groups), 1.0 - share) * share;
}

double fleet_failure_rate(std::int64_t nodes, double rate, double bad_share, double multiple) {
  return real(nodes) * (rate + bad_share * multiple * rate);
}

}  // namespace trainyard::reliability
