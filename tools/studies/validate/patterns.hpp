// Patterns that remain in the errors of predictions: which feature of a row, or which part of its
// predicted step, tells most of its error?
//
// A feature divides rows into groups. The error of a row is guessed as the mean of the others of
// its group, shrunk to the mean of all by n / (n + 2) for n others, so that a feature with a group
// for each row explains nothing. A part (share of the step) is a straight line through the errors,
// and each row is guessed by the line through all others. With error = log(predicted / measured):
//
//    explained = 1 - sum (error - guess)^2 / sum (error - mean)^2
//
//    for (const Pattern& row : patterns(outcomes)) row.explained;   // the largest first
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

struct Pattern {
  std::string name;        // "family", or "share of host"
  double explained = 0.0;  // share of the variance of the errors; at most 1
  // The group that adds most to it, its rows, and their mean error; of a part, the text is empty
  // and the error is the change over the range of its shares.
  std::string group = {};
  std::size_t rows = 0;
  double error = 0.0;
};

// The patterns that explain something, the strongest first. There are none for fewer than 20
// predicted rows.
[[nodiscard]] std::vector<Pattern> patterns(const std::vector<Outcome>& outcomes);

// At most `most` patterns. No rows without patterns.
[[nodiscard]] TextTable patterns_table(const std::vector<Outcome>& outcomes, std::size_t most);

}  // namespace trainyard
