// The delay of the slowest of many data-parallel replicas.
//
// Data-parallel replicas compute the same and synchronise at their gradients. Each of them is
// delayed from time to time: by its operating system, by a lower clock because of power and
// temperature, by switches that it shares. The model is an exponential distribution of the delay
// with mean b, in units of the time (shifted-exponential stragglers: Lee et al. 2018, IEEE Trans.
// Inf. Theory 64(3), "Speeding Up Distributed Machine Learning Using Codes", section II). The last
// of n replicas then takes longer than one replica by
//
//    b (H_n - 1),    H_n = 1 + 1/2 + ... + 1/n    (mean of the largest of n exponential values)
//
// because the delay of a single replica is already part of its measured time. b is data
// (models/stragglers/replicas.json), with the command that fitted it to the slowdown of measured
// runs that differ only in the number of replicas.
//
//    const Stragglers replicas{.delay = 0.01};   // b; load_stragglers() reads the fitted value
//    replicas.last_of(64);                       // 1 + 0.01 * 3.744 = 1.0374
#pragma once

#include <cstdint>

#include "models/plan.hpp"

namespace trainyard {

struct Stragglers {
  double delay = 0.0;  // b of the formula above

  // Time of the last of this number of replicas over the time of one. REQUIRES: replicas >= 1.
  [[nodiscard]] double last_of(std::int64_t replicas) const;
};

// Time of the last of a plan's replicas over the time of one; 1 where replicas do not wait for each
// other.
[[nodiscard]] double last_replica(const Stragglers& stragglers, const TrainingPlan& plan);

// Reads models/stragglers/replicas.json. Throws InputError.
[[nodiscard]] Stragglers load_stragglers();

}  // namespace trainyard
