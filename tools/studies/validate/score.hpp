// Scores of predictions: the figures by which simulators are judged.
//
//    error = predicted / measured - 1;  MAPE = mean |error|, bias = mean error,
//    median and p90 of |error| (nearest rank), worst = largest |error|
//
// Example: errors of +10 %, -2 % and -3 % have MAPE 5 %, bias +1.67 %, median 3 %, p90 10 %.
//
//    const Score score = score_of(std::vector<double>{0.10, -0.02, -0.03});
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

struct Score {
  std::size_t rows = 0;
  double mape = 0.0;
  double bias = 0.0;
  double median = 0.0;
  double p90 = 0.0;
  double worst = 0.0;
};

[[nodiscard]] Score score_of(std::span<const double> errors);

struct GroupScore {
  std::string group;
  Score score = {};
  std::size_t refused = 0;
};

// The scores by the value of a feature, sorted by it. Rows without a prediction count as refused.
[[nodiscard]] std::vector<GroupScore> scores_by(const std::vector<Outcome>& outcomes,
                                                Feature feature);
// The score of all rows together.
[[nodiscard]] GroupScore score_of_all(const std::vector<Outcome>& outcomes);

// The predicted rows, sorted by the absolute error, the largest first.
[[nodiscard]] std::vector<const Outcome*> worst_first(const std::vector<Outcome>& outcomes);

// A reason with the rows to which it applies. refusals() returns the most frequent reason first.
struct Refusal {
  std::string reason;
  std::vector<std::string> ids;
};
[[nodiscard]] std::vector<Refusal> refusals(const std::vector<Outcome>& outcomes);

}  // namespace trainyard
