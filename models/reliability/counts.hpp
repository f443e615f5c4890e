// How well a number of failures is known from one count of them.
//
//    poisson_interval(419, 0.95);   // 379.8 to 461.1 (Llama 3's unexpected interruptions)
#pragma once

#include <cstdint>

namespace trainyard::reliability {

struct MeanInterval {
  double lower = 0.0;
  double upper = 0.0;
  [[nodiscard]] bool contains(double mean) const { return lower <= mean && mean <= upper; }
};

// The means of a Poisson distribution under which neither so few nor so many events have a
// probability below (1 - confidence)/2 (Garwood 1936, "Fiducial limits for the Poisson
// distribution", Biometrika 28): quantiles of the gamma distributions with shapes n and n + 1.
// REQUIRES: count >= 0 and 0 < confidence < 1.
[[nodiscard]] MeanInterval poisson_interval(std::int64_t count, double confidence);

}  // namespace trainyard::reliability
