#include "tools/cli/profile_text.hpp"

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"
#include "sim/workload/call.hpp"
#include "tools/studies/collective/sizes.hpp"

namespace trainyard {

namespace {

std::string run_text(const MeasuredRun& run) {
  std::string text = fmt::format("{}: {} over {} ranks on {} node{}, {} times{}{}{}\n", run.file,
                                 to_string(run.op), run.ranks, run.nodes, run.nodes == 1 ? "" : "s",
                                 run.rows.size(), run.gpu.empty() ? "" : ", " + run.gpu,
                                 run.nccl_version.empty() ? "" : ", NCCL " + run.nccl_version,
                                 run.cuda_graph ? ", from a CUDA graph" : "");
  for (const std::string& note : run.notes) text += "  note: " + note + "\n";
  return text;
}

std::string segments_text(const MeasuredCurve& curve) {
  TextTable table(
      {"from", "sizes measured", "latency (us)", "algbw (GB/s)", "busbw (GB/s)", "mean error"});
  const double factor = bus_bandwidth_factor(curve.op, curve.ranks);
  for (const FitSegment& segment : curve.fit.segments) {
    const bool flat = segment.seconds_per_byte <= 0.0;
    const double rate = flat ? 0.0 : 1e-9 / segment.seconds_per_byte;
    table.row({to_text(Bytes{segment.threshold_bytes}),
               fmt::format("{} .. {}", size_text(segment.from_bytes), size_text(segment.to_bytes)),
               fmt::format("{:.2f}", segment.latency_s * 1e6),
               flat ? "any" : fmt::format("{:.2f}", rate),
               flat ? "any" : fmt::format("{:.2f}", rate * factor), percent(segment.error)});
  }
  return table.text();
}

std::string residuals_text(const MeasuredCurve& curve) {
  TextTable table({"size", "measured (us)", "fit (us)", "residual"});
  for (const SizeTime& point : curve.points) {
    const auto bytes = static_cast<double>(point.bytes);
    const double fitted = curve.fit.segment(bytes).time_s(bytes);
    table.row({size_text(point.bytes), fmt::format("{:.2f}", point.time_s * 1e6),
               fmt::format("{:.2f}", fitted * 1e6), signed_percent(fitted / point.time_s - 1.0)});
  }
  return table.text();
}

}  // namespace

std::string profile_text(const CollectiveProfile& profile) {
  std::string text;
  for (const MeasuredRun& run : profile.runs) text += run_text(run);
  for (const MeasuredCurve& curve : profile.curves) {
    text += fmt::format("\n{} over {} ranks on {} node{}, {}, {}\n{}", to_string(curve.op),
                        curve.ranks, curve.nodes, curve.nodes == 1 ? "" : "s", curve.dtype,
                        curve.in_place ? "in place" : "out of place", segments_text(curve));
    if (curve.fit.stalls > 0)
      text += fmt::format("  {} time{} left out of the fit: over 1.5 times that of a larger size\n",
                          curve.fit.stalls, curve.fit.stalls == 1 ? "" : "s");
    text += fmt::format("  mean error {}, worst {}\n\n{}", percent(curve.fit.error),
                        percent(curve.fit.error_worst), residuals_text(curve));
  }
  return text;
}

}  // namespace trainyard
