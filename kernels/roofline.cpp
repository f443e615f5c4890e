#include "kernels/roofline.hpp"

#include <algorithm>

namespace trainyard {

Seconds roofline(Flops flops, Bytes bytes, FlopsPerSecond peak, BytesPerSecond hbm) {
  const Seconds arithmetic = peak.value() > 0.0 ? flops / peak : Seconds{0.0};
  const Seconds traffic = hbm.value() > 0.0 ? bytes / hbm : Seconds{0.0};
  return std::max(arithmetic, traffic);
}

Cost at_least(const Cost& found, Seconds bound) {
  // Tables hold shares of the roofline in ten-thousandths: equal up to rounding is no correction.
  constexpr double rounding = 1.0 + 1e-9;
  if (bound.value() > found.time.value() * rounding) return {bound, Provenance::Roofline};
  return {std::max(found.time, bound), found.provenance};
}

double ridge(FlopsPerSecond peak, BytesPerSecond hbm) { return peak.value() / hbm.value(); }

}  // namespace trainyard
