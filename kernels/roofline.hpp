// The roofline: no kernel is faster than its arithmetic at peak rate, or its traffic at full
// bandwidth.
//
//    roofline(Flops{5.4976e11}, Bytes{2.6844e8}, h100.bf16, h100.hbm);  // 555.65 us, compute-bound
//    ridge(h100.bf16, h100.hbm);                                        // 295.3 FLOP/B
//
// t = max(F / R, B / W), with F the operations, R the peak rate, B the bytes that must cross HBM, W
// its bandwidth (Williams et al. 2009).
//
// Memory-bound kernels and copies take the time of their traffic, and a floor for each launch: t =
// launches * floor + bytes / (W e), where e is the share of the bandwidth that elementwise kernels
// reach. One megabyte at 2 TB/s is 0.5 us of traffic, less than a floor of 1.3 us.
#pragma once

#include "kernels/gpu.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/cost_model.hpp"

namespace trainyard {

// max(F / R, B / W). A rate of zero (dtype not supported) leaves only the other bound. Example: a
// bf16 GEMM with m = 64, n = k = 8192 on an H100 reads 136.3 MB, which takes 40.691 us; its FLOPs
// need 8.68 us.
[[nodiscard]] Seconds roofline(Flops flops, Bytes bytes, FlopsPerSecond peak, BytesPerSecond hbm);

// Returns `found`, or the bound with the provenance Roofline where `found` is below it.
[[nodiscard]] Cost at_least(const Cost& found, Seconds bound);

// The arithmetic intensity (FLOP per byte) at which the two bounds meet: R / W.
[[nodiscard]] double ridge(FlopsPerSecond peak, BytesPerSecond hbm);

struct MemoryModel {
  Seconds floor{1.333e-6};
  double bandwidth_efficiency = 0.85;
  bool measured_here = false;  // fitted on this GPU and not on a sibling
};

[[nodiscard]] Cost memory_bound_cost(const GpuSheet& sheet, const MemoryModel& model,
                                     const MemoryBound& kernel);
// A copy between device and host takes the rate of the host link, which is known only from the data
// sheet. A copy within the device crosses HBM twice.
[[nodiscard]] Cost copy_cost(const GpuSheet& sheet, const MemoryModel& model, const Copy& copy);

}  // namespace trainyard
