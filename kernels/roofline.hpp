// The roofline: no kernel is faster than its arithmetic at peak rate or its traffic at full
// bandwidth.
//
//   roofline(Flops{5.4976e11}, Bytes{2.6844e8}, h100.bf16, h100.hbm);   // 555.65 us, compute-bound
//   ridge(h100.bf16, h100.hbm);                                         // 295.3 FLOP/B
//
// Question it answers: can this kernel be faster at all? t = max(F / R, B / W) with F the
// operations, R the peak rate, B the bytes that must cross HBM, W its bandwidth (Williams et al.
// 2009).
#pragma once

#include "sim/base/units.hpp"
#include "sim/engine/cost_model.hpp"

namespace trainyard {

// max(F / R, B / W). A rate of zero (dtype not supported) leaves the other bound. One worked
// number: a bf16 product with m = 64, n = k = 8192 on an H100 reads 136.3 MB, 40.691 us; its FLOPs
// need 8.68 us.
[[nodiscard]] Seconds roofline(Flops flops, Bytes bytes, FlopsPerSecond peak, BytesPerSecond hbm);

// The answer, or the bound, tagged Roofline, where the answer is less.
[[nodiscard]] Cost at_least(const Cost& found, Seconds bound);

// The arithmetic intensity (FLOP per byte) at which the two bounds meet: R / W.
[[nodiscard]] double ridge(FlopsPerSecond peak, BytesPerSecond hbm);

}  // namespace trainyard
