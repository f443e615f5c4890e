// The error of the predicted step, carried over to a whole run.
//
// Failures come with the wall time. With steps that take e times as long, a run of so many tokens
// therefore takes e times as long with all its interruptions, and a run of so many days trains
// 1 / e of the tokens; the goodput stays. log(e) is normal with the deviation of the step's
// interval (sim/report/interval.hpp). The range of a run follows from the mixture of its samples:
// a value is below x with the probability  mean over samples v of Phi(log(x / v) / deviation).
//
//    range_with_step_error({30.0, 30.0}, 0.1);   // {25.45, 35.36}: 30 * exp(-+1.645 * 0.1)
#pragma once

#include <vector>

namespace trainyard {

struct ValueRange {
  double low = 0.0;
  double high = 0.0;
};

// The range in which nine of ten values lie, with 5 % below and 5 % above it.
// REQUIRES: there are samples, all positive; deviation >= 0.
[[nodiscard]] ValueRange range_with_step_error(const std::vector<double>& samples,
                                               double deviation);

}  // namespace trainyard
