// How long kernels take whose time is their memory traffic, and copies.
//
//   memory_bound_cost(sheet, model, MemoryBound{.kind = MemoryBoundKind::Optimizer, .bytes =
//   30'000'000'000});
//
// t = launches * floor + bytes / (W e): W the HBM bandwidth, e the share that streaming kernels
// reach. The floor makes small kernels launch-bound; one megabyte at 2 TB/s is 0.5 us of traffic
// under a 1.3 us floor.
#pragma once

#include "kernels/gpu.hpp"

namespace trainyard {

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
