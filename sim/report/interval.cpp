#include "sim/report/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

// 90 % of a normal distribution lie within this number of standard deviations.
constexpr double kWithin90 = 1.6448536269514722;

double square(double value) { return value * value; }

double variance(const StepInterval& interval) {
  double sum = 0.0;
  for (const UncertainPart& part : interval.parts) sum += square(part.deviation);
  return sum;
}

// The sum of the products of deviations of parts that both predictions have.
double covariance(const StepInterval& a, const StepInterval& b) {
  double sum = 0.0;
  for (const UncertainPart& part : a.parts) {
    const auto same = std::ranges::find_if(b.parts, [&](const UncertainPart& other) {
      return other.name == part.name && other.cause == part.cause;
    });
    if (same != b.parts.end()) sum += part.deviation * same->deviation;
  }
  return sum;
}

// The probability that a standard normal variable is below `value`.
double normal_below(double value) { return 0.5 * std::erfc(-value / std::numbers::sqrt2); }

}  // namespace

double StepInterval::deviation() const { return std::sqrt(variance(*this)); }
double StepInterval::low_s() const { return step_s * std::exp(-kWithin90 * deviation()); }
double StepInterval::high_s() const { return step_s * std::exp(kWithin90 * deviation()); }

RatioInterval ratio_of(const StepInterval& b, const StepInterval& a) {
  const double correlation = std::min(a.correlation, b.correlation);
  const double spread =
      std::sqrt(std::max(variance(a) + variance(b) - 2.0 * correlation * covariance(a, b), 0.0));
  const double ratio = b.step_s / a.step_s;
  // Without spread the ratio is certain.
  const double equal = ratio < 1.0 ? 1.0 : ratio > 1.0 ? 0.0 : 0.5;
  return {.ratio = ratio,
          .low = ratio * std::exp(-kWithin90 * spread),
          .high = ratio * std::exp(kWithin90 * spread),
          .below_one = spread > 0.0 ? normal_below(-std::log(ratio) / spread) : equal};
}

std::string interval_text(const StepInterval& interval) {
  return fmt::format("{:.3g} to {:.3g} s", interval.low_s(), interval.high_s());
}

std::string interval_sentence(const StepInterval& interval) {
  std::string text = fmt::format("nine of ten measured runs take {}", interval_text(interval));
  if (interval.parts.empty()) return text;
  const UncertainPart& largest = interval.parts.front();
  return text + fmt::format("; the largest part of that range comes from {} ({}); to narrow it: {}",
                            largest.name, largest.cause, largest.remedy);
}

std::string ratio_text(const RatioInterval& ratio) {
  const double low = 100.0 * (ratio.low - 1.0);
  const double high = 100.0 * (ratio.high - 1.0);
  std::string range = fmt::format("{:.1f} % quicker to {:.1f} % slower", -low, high);
  if (high < 0.0) range = fmt::format("{:.1f} to {:.1f} % quicker", -high, -low);
  if (low > 0.0) range = fmt::format("{:.1f} to {:.1f} % slower", low, high);
  const bool quicker = ratio.below_one >= 0.5;
  return fmt::format("{} in nine of ten measurements, {} with a probability of {}", range,
                     quicker ? "quicker" : "slower",
                     percent(quicker ? ratio.below_one : 1.0 - ratio.below_one));
}

nlohmann::ordered_json interval_json(const StepInterval& interval) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const UncertainPart& part : interval.parts) {
    parts.push_back({{"name", part.name},
                     {"cause", part.cause},
                     {"share", part.share},
                     {"deviation", part.deviation},
                     {"remedy", part.remedy}});
  }
  return {{"probability", 0.9},
          {"low_s", interval.low_s()},
          {"high_s", interval.high_s()},
          {"deviation", interval.deviation()},
          {"correlation", interval.correlation},
          {"runs", interval.runs},
          {"sources", interval.sources},
          {"parts", std::move(parts)}};
}

nlohmann::ordered_json ratio_json(const RatioInterval& ratio) {
  return {{"value", ratio.ratio},
          {"low", ratio.low},
          {"high", ratio.high},
          {"quicker_probability", ratio.below_one}};
}

}  // namespace trainyard
