// The median of numbers: median({4, 1, 3}) is 3, median({1, 2, 3, 4}) is 2.5.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

// For an even count it is the mean of the middle two. REQUIRES: not empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  TY_CHECK(!values.empty(), values.size());
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

}  // namespace trainyard
