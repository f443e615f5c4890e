// The roofline: no kernel is faster than its arithmetic at peak rate or its traffic at full
// bandwidth.
//
//   roofline(Flops{5.4976e11}, Bytes{2.6844e8}, h100.bf16, h100.hbm);   // 555.65 us, compute-bound
//   ridge(h100.bf16, h100.hbm);                                         // 295.3 FLOP/B
//
// Question it answers: can this kernel be faster at all? t = max(F / R, B / W) with F the
// operations, R the peak rate, B the bytes that must cross HBM, W its bandwidth (Williams et al.
// 2009).
//
// Memory-bound kernels and copies take what their traffic takes, and a floor for each launch:
// t = launches * floor + bytes / (W e), e the share of the bandwidth that streaming kernels reach.
// One megabyte at 2 TB/s is 0.5 us of traffic under a 1.3 us floor.
#pragma once

#include "kernels/gpu.hpp"
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

struct MemoryModel {
  Seconds floor{1.333e-6};
  double bandwidth_efficiency = 0.85;
  bool measured_here = false;  // fitted on this GPU rather than taken from a sibling
};

[[nodiscard]] Cost memory_bound_cost(const GpuSheet& sheet, const MemoryModel& model,
                                     const MemoryBound& kernel);
// Between device and host at the host link's rate, of which nothing but the data sheet tells;
// within the device the bytes cross HBM twice.
[[nodiscard]] Cost copy_cost(const GpuSheet& sheet, const MemoryModel& model, const Copy& copy);

}  // namespace trainyard
