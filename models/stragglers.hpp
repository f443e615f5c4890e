// How late the last of many replicas is at what all of them wait for.
//
// Data-parallel replicas compute the same and meet at their gradients. Each is held up now and
// then: by its operating system, by a clock that its power and temperature lower, by switches it
// shares. With a delay of exponential distribution and mean b of the time (shifted-exponential
// stragglers: Lee et al. 2018, IEEE Trans. Inf. Theory 64(3), "Speeding Up Distributed Machine
// Learning Using Codes", section II), the last of n takes longer than one by
//
//   b (H_n - 1),    H_n = 1 + 1/2 + ... + 1/n    (mean of the largest of n exponential values)
//
// as one's own delay is part of what was measured on it. b is data
// (models/stragglers/replicas.json), with the command that fitted it to how measured runs slow down
// with replicas alone.
//
//   const Stragglers replicas = load_stragglers();
//   replicas.last_of(64);    // b = 0.01: 1 + 0.01 * 3.744 = 1.0374 (stragglers_test.cpp)
#pragma once

#include <cstdint>

#include "models/plan.hpp"

namespace trainyard {

struct Stragglers {
  double delay = 0.0;  // b above

  // The time of the last of so many replicas over that of one. REQUIRES: replicas >= 1.
  [[nodiscard]] double last_of(std::int64_t replicas) const;
};

// The time of the last of a plan's replicas over that of one; 1 where they do not wait for each
// other.
[[nodiscard]] double last_replica(const Stragglers& stragglers, const TrainingPlan& plan);

// Throws InputError.
[[nodiscard]] Stragglers load_stragglers();

}  // namespace trainyard
