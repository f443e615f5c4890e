// Tests as nccl-tests measured them (rows and their source), and the curves that their times make.
//
// scenarios/import/nccl_log.hpp reads the rows from logs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/profile/time_fit.hpp"
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

// One test of nccl-tests.
struct MeasuredRun {
  std::string file = {};  // as the user named it
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};  // as the driver names it, "NVIDIA H100 80GB HBM3"; empty: not told
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string nccl_version = {};  // "2.27.3"; empty: not told
  bool cuda_graph = false;        // -G: launched from a CUDA graph
  std::vector<RunRow> rows = {};
  std::vector<std::string> notes = {};  // one sentence for each thing left out
};

// nccl-tests' name of a type: "float" of Fp32.
[[nodiscard]] std::string_view nccl_type_name(DataType dtype);

struct CurveTime {
  double latency_s = 0.0;
  double transfer_s = 0.0;
  bool measured_range = true;  // within the sizes that were measured
};

// The times of one collective on groups of one shape, and what they say of any size.
//
//   latency(S) = r(S) a      transfer(S) = r(S) S / B      r = measured / fitted
//
// a and B are those of the range the size is in (time_fit.hpp). r is 1 but for noise and rounding;
// between two measured sizes it is interpolated in log S, beyond the smallest and the largest it
// stays what it was there. So a measured size takes exactly its measured time. Worked: a measured
// 21 us where the fit says 20 (a = 8 us, S / B = 12 us): r = 1.05, 8.4 us of latency, 12.6 us of
// transfer.
struct MeasuredCurve {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string dtype = {};
  bool in_place = false;
  std::vector<SizeTime> points = {};  // by size; the median where there are several
  TimeFit fit = {};

  // REQUIRES: bytes above zero.
  [[nodiscard]] CurveTime at(double bytes) const;
};

// One curve for each operation, shape, GPU, type and place. Sorted by these.
[[nodiscard]] std::vector<MeasuredCurve> curves_of(std::span<const MeasuredRun> runs);

}  // namespace trainyard
