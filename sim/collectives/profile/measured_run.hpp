// One test as nccl-tests measured it: its rows and their source. scenarios/import/nccl_log.hpp
// reads them from logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// One time of the table. The bandwidths are as printed, so 0.00 for the smallest sizes.
struct RunRow {
  std::int64_t bytes = 0;  // nccl-tests' size, as in Call
  std::string dtype = {};  // nccl-tests' name: "float", "half", "bfloat16"
  double time_us = 0.0;
  double algbw_GBps = 0.0;
  double busbw_GBps = 0.0;
  bool in_place = false;
};

// Sizes, times and rates outside these bounds are no measurements, and no fit can divide by them.
inline constexpr double kLogBytesMost = 1e15;
[[nodiscard]] constexpr bool is_measured_time(double time_us) {
  return time_us >= 1e-3 && time_us <= 1e12;
}
[[nodiscard]] constexpr bool is_measured_rate(double rate_GBps) {
  return rate_GBps >= 0.0 && rate_GBps <= 1e12;
}

struct MeasuredRun {
  std::string file = {};  // as the user named it
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};  // as the driver names it, "NVIDIA H100 80GB HBM3"; empty: not told
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string nccl_version = {};  // "2.27.3"; empty: not told
  bool cuda_graph = false;        // -G: launched from a CUDA graph
  std::vector<RunRow> rows = {};
  std::vector<std::string> notes = {};  // what was left out, one sentence each
};

// nccl-tests' name of a type: "float" of Fp32.
[[nodiscard]] std::string_view nccl_type_name(DataType dtype);

}  // namespace trainyard
