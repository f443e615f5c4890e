// Measured times beside a study's: how far off is the prediction, size by size and on average.
//
//   error = predicted / measured - 1        MAPE = mean of |error|, bias = mean of error
//
// Worked: 10 us predicted where 8 us were measured is +25 %.
//
//   const MeasuredTimes measured = measured_times(runs, CollectiveOp::AllReduce);
//   const Agreement agreement = agreement_of(study.algorithms[0], measured);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/collectives/profile/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct MeasuredTime {
  std::int64_t bytes = 0;
  double time_s = 0.0;
  double busbw = 0.0;  // bytes/s, from the size and the time: tables print two decimals
};

struct MeasuredTimes {
  std::string file = {};
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::vector<MeasuredTime> times = {};  // by size, each once: the median

  [[nodiscard]] const MeasuredTime* at(std::int64_t bytes) const;  // nullptr: not measured
};

// The times of one operation; out of place where there are such. Throws InputError where no run
// measured it, or runs on groups of different shape did. REQUIRES: at least one run.
[[nodiscard]] MeasuredTimes measured_times(std::span<const MeasuredRun> runs, CollectiveOp op);

struct Agreement {
  std::vector<std::optional<double>> errors = {};  // by row of the study; nothing: not measured
  std::size_t sizes = 0;                           // that were measured
  double mape = 0.0;
  double bias = 0.0;
};
[[nodiscard]] Agreement agreement_of(const AlgorithmStudy& algorithm,
                                     const MeasuredTimes& measured);

}  // namespace trainyard
