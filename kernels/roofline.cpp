#include "kernels/roofline.hpp"

#include <algorithm>

namespace trainyard {

Seconds roofline(Flops flops, Bytes bytes, FlopsPerSecond peak, BytesPerSecond hbm) {
  const Seconds arithmetic = peak.value() > 0.0 ? flops / peak : Seconds{0.0};
  const Seconds traffic = hbm.value() > 0.0 ? bytes / hbm : Seconds{0.0};
  return std::max(arithmetic, traffic);
}

double ridge(FlopsPerSecond peak, BytesPerSecond hbm) { return peak.value() / hbm.value(); }

}  // namespace trainyard
