// Measured times next to the predictions of a study: the error of each size and the mean errors.
//
//    error = predicted / measured - 1        MAPE = mean of |error|, bias = mean of error
//
// Example: a prediction of 10 us for a measured time of 8 us has an error of +25 %.
//
//    const MeasuredTimes measured = measured_times(runs, CollectiveOp::AllReduce);
//    const Agreement agreement = agreement_of(study.algorithms[0], measured);
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
  std::vector<MeasuredTime> times = {};  // by size, each size once, with its median time

  [[nodiscard]] const MeasuredTime* at(std::int64_t bytes) const;  // nullptr: not measured
};

// The measured times of one operation, out of place if there are such runs. Throws InputError if no
// run measured the operation, or if its runs have groups of different shape. REQUIRES: at least one
// run.
[[nodiscard]] MeasuredTimes measured_times(std::span<const MeasuredRun> runs, CollectiveOp op);

struct Agreement {
  std::vector<std::optional<double>> errors = {};  // by row of the study; no value: not measured
  std::size_t sizes = 0;                           // number of sizes that were measured
  double mape = 0.0;
  double bias = 0.0;
};
[[nodiscard]] Agreement agreement_of(const AlgorithmStudy& algorithm,
                                     const MeasuredTimes& measured);

}  // namespace trainyard
