#include "tools/studies/collective/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/profile/measured.hpp"
#include "sim/workload/call.hpp"

namespace trainyard {

namespace {

std::string ops_of(std::span<const MeasuredRun> runs) {
  std::vector<std::string_view> names;
  for (const MeasuredRun& run : runs)
    if (std::find(names.begin(), names.end(), to_string(run.op)) == names.end())
      names.push_back(to_string(run.op));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const MeasuredTime* MeasuredTimes::at(std::int64_t bytes) const {
  const auto found = std::ranges::lower_bound(times, bytes, {}, &MeasuredTime::bytes);
  return found != times.end() && found->bytes == bytes ? &*found : nullptr;
}

MeasuredTimes measured_times(std::span<const MeasuredRun> runs, CollectiveOp op) {
  TY_CHECK(!runs.empty());
  std::vector<MeasuredRun> of_op;
  for (const MeasuredRun& run : runs)
    if (run.op == op) of_op.push_back(run);
  if (of_op.empty()) {
    throw InputError(
        Problem{.file = runs.front().file,
                .pointer = {},
                .problem = fmt::format("measures {}, not {}", ops_of(runs), to_string(op)),
                .hint = "compare like with like: name the collective of the log"});
  }
  MeasuredTimes result{
      .file = of_op[0].file, .ranks = of_op[0].ranks, .nodes = of_op[0].nodes, .times = {}};
  for (MeasuredRun& run : of_op) {
    if (run.ranks != result.ranks || run.nodes != result.nodes) {
      throw InputError(
          Problem{.file = run.file,
                  .pointer = {},
                  .problem = fmt::format("holds runs of {} ranks on {} nodes and of {} on {}",
                                         result.ranks, result.nodes, run.ranks, run.nodes),
                  .hint = "give one log for each group"});
    }
    run.gpu.clear();  // merges the runs of all GPU names into one curve
    for (RunRow& row : run.rows) row.dtype.clear();
  }
  const std::vector<MeasuredCurve> curves = curves_of(of_op);
  const double factor = bus_bandwidth_factor(op, result.ranks);
  for (const SizeTime& point : curves.front().points) {  // the out-of-place curve is the first
    result.times.push_back({.bytes = point.bytes,
                            .time_s = point.time_s,
                            .busbw = static_cast<double>(point.bytes) / point.time_s * factor});
  }
  return result;
}

Agreement agreement_of(const AlgorithmStudy& algorithm, const MeasuredTimes& measured) {
  Agreement agreement;
  for (const CollectiveRow& row : algorithm.rows) {
    const MeasuredTime* time = measured.at(row.bytes);
    if (time == nullptr) {
      agreement.errors.emplace_back();
      continue;
    }
    const double error = row.time_s / time->time_s - 1.0;
    agreement.errors.emplace_back(error);
    agreement.mape += std::abs(error);
    agreement.bias += error;
    ++agreement.sizes;
  }
  if (agreement.sizes > 0) {
    agreement.mape /= static_cast<double>(agreement.sizes);
    agreement.bias /= static_cast<double>(agreement.sizes);
  }
  return agreement;
}

}  // namespace trainyard
