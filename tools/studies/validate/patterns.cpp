#include "tools/studies/validate/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace trainyard {

namespace {

constexpr std::size_t kPatternRowsLeast = 20;
// So many other rows of a group make their mean count half.
constexpr double kShrink = 2.0;
constexpr std::size_t kGroupMost = 40;  // characters of a name in the table

// A predicted row with its error less the mean of all.
struct Residual {
  const Outcome* outcome = nullptr;
  double error = 0.0;
};

std::vector<Residual> residuals_of(const std::vector<Outcome>& outcomes) {
  std::vector<Residual> rows;
  double mean = 0.0;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.timed()) continue;
    rows.push_back({&outcome, std::log1p(outcome.error())});
    mean += rows.back().error;
  }
  for (Residual& row : rows) row.error -= mean / static_cast<double>(rows.size());
  return rows;
}

double squares(const std::vector<Residual>& rows) {
  double sum = 0.0;
  for (const Residual& row : rows) sum += row.error * row.error;
  return sum;
}

struct GroupOfErrors {
  double rows = 0.0;
  double sum = 0.0;
  double gain = 0.0;  // of the squares that the guesses explain
};

Pattern pattern_of(const std::vector<Residual>& rows, Feature feature) {
  std::map<std::string, GroupOfErrors> groups;
  const auto group_of = [&](const Residual& row) -> GroupOfErrors& {
    return groups[feature_of(row.outcome->row, feature)];
  };
  for (const Residual& row : rows) {
    group_of(row).rows += 1.0;
    group_of(row).sum += row.error;
  }
  // The guess without any group is 0, the mean of all. A group gains where its guess is nearer to
  // the error, and loses where it is farther away.
  double gain = 0.0;
  for (const Residual& row : rows) {
    GroupOfErrors& group = group_of(row);
    const double others = group.rows - 1.0;
    const double guess = (group.sum - row.error) / (others + kShrink);
    const double explained = row.error * row.error - (row.error - guess) * (row.error - guess);
    group.gain += explained;
    gain += explained;
  }
  const auto most =
      std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.gain; });
  return {.name = std::string(to_string(feature)),
          .explained = gain / squares(rows),
          .group = most->first,
          .rows = static_cast<std::size_t>(most->second.rows),
          .error = most->second.sum / most->second.rows};
}

double share_of(const Outcome& outcome, const std::string& part) {
  for (const TimePart& own : outcome.parts)
    if (own.name == part) return own.seconds / outcome.predicted_s;
  return 0.0;
}

// The straight line through the errors over the share of a part. Leaving a row out of a least
// squares line changes its residual by 1 / (1 - leverage).
Pattern pattern_of(const std::vector<Residual>& rows, const std::string& part) {
  const auto count = static_cast<double>(rows.size());
  std::vector<double> shares;
  double mean = 0.0;
  for (const Residual& row : rows) {
    shares.push_back(share_of(*row.outcome, part));
    mean += shares.back() / count;
  }
  double spread = 0.0, product = 0.0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    spread += (shares[row] - mean) * (shares[row] - mean);
    product += (shares[row] - mean) * rows[row].error;
  }
  Pattern pattern{.name = "share of " + part, .rows = rows.size()};
  if (spread <= 0.0) return pattern;
  const double slope = product / spread;
  double left = 0.0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double from_mean = shares[row] - mean;
    const double leverage = 1.0 / count + from_mean * from_mean / spread;
    const double residual = (rows[row].error - slope * from_mean) / std::max(1.0 - leverage, 1e-9);
    left += residual * residual;
  }
  const auto [least, most] = std::ranges::minmax(shares);
  pattern.explained = 1.0 - left / squares(rows);
  pattern.error = slope * (most - least);
  return pattern;
}

}  // namespace

std::vector<Pattern> patterns(const std::vector<Outcome>& outcomes) {
  const std::vector<Residual> rows = residuals_of(outcomes);
  std::vector<Pattern> found;
  if (rows.size() < kPatternRowsLeast || squares(rows) <= 0.0) return found;
  for (std::size_t feature = 0; feature < kFeatures; ++feature)
    found.push_back(pattern_of(rows, static_cast<Feature>(feature)));
  std::set<std::string> parts;
  for (const Residual& row : rows)
    for (const TimePart& part : row.outcome->parts) parts.insert(part.name);
  for (const std::string& part : parts) found.push_back(pattern_of(rows, part));
  std::erase_if(found, [](const Pattern& pattern) { return pattern.explained < 0.01; });
  std::ranges::stable_sort(found, std::greater{}, &Pattern::explained);
  return found;
}

TextTable patterns_table(const std::vector<Outcome>& outcomes, std::size_t most) {
  TextTable table({"pattern", "explains", "most of it", "rows", "mean error"});
  for (const Pattern& pattern : patterns(outcomes)) {
    if (most-- == 0) break;
    table.row(
        {pattern.name, percent(pattern.explained),
         pattern.group.empty() ? "from its least to its most" : pattern.group.substr(0, kGroupMost),
         fmt::format("{}", pattern.rows), signed_percent(pattern.error)});
  }
  return table;
}

}  // namespace trainyard
