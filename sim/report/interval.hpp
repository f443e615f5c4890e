// The interval in which the measured time of a step lies with a probability of 90 %.
//
// log(measured / predicted) has a mean of 0 and the variance sum of deviation_k^2 over the parts of
// the step whose time is uncertain. Deviations are fitted so that 90 % of measured runs are within
// 1.645 of their sum, as of a normal distribution (tools/studies/validate/README.md).
//
// Parts of two predictions that have a name and a cause in common, such as the 8-bit GEMMs of an
// H100, are off by about the same share. They cancel in the ratio of two steps:
//
//    variance of log(b / a) = sum a_k^2 + sum b_k^2 - 2 correlation * sum over common parts a_k b_k
//
// Worked: 10 s with deviations of 3 % and 4 % are 9.21 to 10.86 s. Two such steps with both parts
// in common and a correlation of 0.9 have a ratio of 1 within 3.7 %.
//
//    a.low_s();  a.high_s();
//    ratio_of(b, a).high;   // 0.97: b takes at most 0.97 times as long as a
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

// A part of the step whose time is uncertain.
struct UncertainPart {
  std::string name = {};    // "8-bit GEMMs"
  std::string cause = {};   // predictions with the same cause are off together: "h100"
  double share = 0.0;       // of the step
  double deviation = 0.0;   // standard deviation of log(step time) that follows from it
  std::string remedy = {};  // what would make it certain: "a profile of the kernels of this GPU"
};

struct StepInterval {
  double step_s = 0.0;                    // predicted
  std::vector<UncertainPart> parts = {};  // the largest deviation first
  double correlation = 0.0;               // of equal parts of two predictions
  std::size_t runs = 0;                   // measured runs behind the deviations
  std::size_t sources = 0;                // of these runs

  [[nodiscard]] double deviation() const;
  [[nodiscard]] double low_s() const;
  [[nodiscard]] double high_s() const;
};

// The ratio of two step times.
struct RatioInterval {
  double ratio = 1.0;
  double low = 1.0;  // of the interval of 90 %
  double high = 1.0;
  double below_one = 0.5;  // probability that the measured ratio is below 1
};

// The ratio of the step of `b` to that of `a`.
[[nodiscard]] RatioInterval ratio_of(const StepInterval& b, const StepInterval& a);

// "11.2 to 13.8 s"
[[nodiscard]] std::string interval_text(const StepInterval& interval);
// "nine of ten measured runs take 11.2 to 13.8 s; the largest part of that range comes from the
// host (megatron); to narrow it: a measured step of such a run"
[[nodiscard]] std::string interval_sentence(const StepInterval& interval);
// "11.3 % quicker to 1.2 % slower in nine of ten measurements, quicker with a probability of
// 93.4 %"
[[nodiscard]] std::string ratio_text(const RatioInterval& ratio);

[[nodiscard]] nlohmann::ordered_json interval_json(const StepInterval& interval);
[[nodiscard]] nlohmann::ordered_json ratio_json(const RatioInterval& ratio);

}  // namespace trainyard
