#include "sim/collectives/profile/measured.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/base/check.hpp"
#include "sim/base/median.hpp"

namespace trainyard {

std::string_view nccl_type_name(DataType dtype) {
  switch (dtype) {
    case DataType::Bf16:
      return "bfloat16";
    case DataType::Fp16:
      return "half";
    case DataType::Fp8:
      return "f8e4m3";
    case DataType::Fp32:
    case DataType::Tf32:
      return "float";
  }
  return "float";
}

namespace {

double ratio(const TimeFit& fit, const SizeTime& point) {
  const auto bytes = static_cast<double>(point.bytes);
  return point.time_s / fit.segment(bytes).time_s(bytes);
}

}  // namespace

CurveTime MeasuredCurve::at(double bytes) const {
  TY_CHECK(bytes > 0.0 && !points.empty(), bytes, points.size());
  const auto above = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const SizeTime& point, double size) { return static_cast<double>(point.bytes) < size; });
  const bool within = above != points.end() &&
                      (above != points.begin() || static_cast<double>(above->bytes) == bytes);
  // The ratio measured / fitted at `bytes`: interpolated in log(bytes) between measured sizes,
  // constant beyond the smallest and the largest one.
  double r = 0.0;
  if (above == points.end()) {
    r = ratio(fit, points.back());
  } else if (above == points.begin() || static_cast<double>(above->bytes) == bytes) {
    r = ratio(fit, *above);
  } else {
    const SizeTime& below = *(above - 1);
    const auto low = static_cast<double>(below.bytes);
    const double share = std::log(bytes / low) / std::log(static_cast<double>(above->bytes) / low);
    r = (1.0 - share) * ratio(fit, below) + share * ratio(fit, *above);
  }
  const FitSegment& segment = fit.segment(bytes);
  return {.latency_s = r * segment.latency_s,
          .transfer_s = r * bytes * segment.seconds_per_byte,
          .measured_range = within};
}

std::vector<MeasuredCurve> curves_of(std::span<const MeasuredRun> runs) {
  using Key =
      std::tuple<CollectiveOp, std::uint32_t, std::uint32_t, std::string, std::string, bool>;
  std::map<Key, std::map<std::int64_t, std::vector<double>>> times;
  for (const MeasuredRun& run : runs)
    for (const RunRow& row : run.rows)
      times[{run.op, run.ranks, run.nodes, run.gpu, row.dtype, row.in_place}][row.bytes].push_back(
          row.time_us * 1e-6);
  std::vector<MeasuredCurve> curves;
  for (const auto& [key, by_size] : times) {
    MeasuredCurve curve;
    std::tie(curve.op, curve.ranks, curve.nodes, curve.gpu, curve.dtype, curve.in_place) = key;
    for (const auto& [bytes, values] : by_size)
      curve.points.push_back({.bytes = bytes, .time_s = median(values)});
    curve.fit = fit_times(curve.points);
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace trainyard
