// Results of nccl-tests (table rows and their source), and the curves of time over size computed
// from them.
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

// One time of the table. The bandwidths have the precision of the log, so they are 0.00 for the
// smallest sizes.
struct RunRow {
  std::int64_t bytes = 0;  // size as nccl-tests prints it, same meaning as in Call
  std::string dtype = {};  // nccl-tests' name: "float", "half", "bfloat16"
  double time_us = 0.0;
  double algbw_GBps = 0.0;
  double busbw_GBps = 0.0;
  bool in_place = false;
};

// Sizes, times and rates outside these bounds cannot be measurements, and a fit cannot divide by
// them.
inline constexpr double kLogBytesMost = 1e15;
[[nodiscard]] constexpr bool is_measured_time(double time_us) {
  return time_us >= 1e-3 && time_us <= 1e12;
}
[[nodiscard]] constexpr bool is_measured_rate(double rate_GBps) {
  return rate_GBps >= 0.0 && rate_GBps <= 1e12;
}

// One run of one test of nccl-tests.
struct MeasuredRun {
  std::string file = {};  // path as the user gave it
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};  // name from the driver, "NVIDIA H100 80GB HBM3"; empty: unknown
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string nccl_version = {};  // "2.27.3"; empty: unknown
  bool cuda_graph = false;        // -G: launched from a CUDA graph
  std::vector<RunRow> rows = {};
  std::vector<std::string> notes = {};  // one sentence for each omitted part of the log
};

// The name that nccl-tests uses for a type: "float" for Fp32.
[[nodiscard]] std::string_view nccl_type_name(DataType dtype);

struct CurveTime {
  double latency_s = 0.0;
  double transfer_s = 0.0;
  bool measured_range = true;  // within the sizes that were measured
};

// The times of one collective on groups of one shape, and the time that they predict for any size.
//
//    latency(S) = r(S) a      transfer(S) = r(S) S / B      r = measured / fitted
//
// a and B are those of the segment that contains the size (time_fit.hpp). r differs from 1 by noise
// and rounding. Between two measured sizes it is interpolated in log S; beyond the smallest and the
// largest size it is constant. A measured size therefore takes exactly its measured time. Example:
// a measured time of 21 us where the fit gives 20 us (a = 8 us, S / B = 12 us): r = 1.05, 8.4 us of
// latency, 12.6 us of transfer.
struct MeasuredCurve {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string dtype = {};
  bool in_place = false;
  std::vector<SizeTime> points = {};  // by size; the median of repeated times
  TimeFit fit = {};

  // REQUIRES: bytes above zero.
  [[nodiscard]] CurveTime at(double bytes) const;
};

// One curve for each combination of operation, shape, GPU, type, and in-placed or out-of-placed.
// Sorted by these.
[[nodiscard]] std::vector<MeasuredCurve> curves_of(std::span<const MeasuredRun> runs);

}  // namespace trainyard
