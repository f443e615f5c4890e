// How far predictions lie from measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::fit {

// Relative errors |predicted / measured - 1|, and the median of the signed ones.
struct Errors {
  std::size_t count = 0;
  double median = 0.0;
  double p95 = 0.0;
  double bias = 0.0;
};

struct HoldOut {
  double share = 0.2;
  std::uint64_t seed = 1;
};

// From predicted / measured.
[[nodiscard]] Errors errors_of(std::vector<double> ratios);
// "median 2.1 %, p95 9.8 %, bias +0.3 % (1053 shapes)".
[[nodiscard]] std::string to_text(const Errors& errors);

// Which of `count` samples are left out: a fixed draw for a seed, on every machine.
[[nodiscard]] std::vector<bool> draw(std::size_t count, const HoldOut& hold_out);

}  // namespace trainyard::fit
