// Elements of GPU memory as numbers, for checks.
//
//   read_stored(result, {.dtype = DataType::Bf16, .first = 0, .count = 8});
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bench/device_memory.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

struct StoredRange {
  DataType dtype = DataType::Fp32;
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// Waits for nothing: the work that writes the memory must be done.
// REQUIRES: fp32, tf32, bf16 or fp16, and the range lies in the memory.
[[nodiscard]] std::vector<double> read_stored(const DeviceMemory& memory, const StoredRange& range);

}  // namespace trainyard::bench
