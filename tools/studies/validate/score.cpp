#include "tools/studies/validate/score.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace trainyard {

namespace {

// The smallest value that is not exceeded by at least `fraction` of the values. REQUIRES: sorted,
// not empty.
double at_rank(const std::vector<double>& sorted, double fraction) {
  // the tolerance keeps an exact rank, such as 0.9 x 10, from being rounded up
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

GroupScore scored(std::string group, const std::vector<const Outcome*>& outcomes) {
  std::vector<double> errors;
  GroupScore result{.group = std::move(group)};
  for (const Outcome* outcome : outcomes) {
    if (outcome->timed()) errors.push_back(outcome->error());
    if (!outcome->predicted()) ++result.refused;
  }
  result.score = score_of(errors);
  return result;
}

}  // namespace

Score score_of(std::span<const double> errors) {
  Score score{.rows = errors.size()};
  if (errors.empty()) return score;
  std::vector<double> sizes;
  for (const double error : errors) {
    score.bias += error;
    sizes.push_back(std::abs(error));
    score.mape += sizes.back();
  }
  const auto count = static_cast<double>(errors.size());
  score.bias /= count;
  score.mape /= count;
  std::sort(sizes.begin(), sizes.end());
  score.median = at_rank(sizes, 0.5);
  score.p90 = at_rank(sizes, 0.9);
  score.worst = sizes.back();
  return score;
}

std::vector<GroupScore> scores_by(const std::vector<Outcome>& outcomes, Feature feature) {
  std::map<std::string, std::vector<const Outcome*>> groups;
  for (const Outcome& outcome : outcomes) {
    groups[feature_of(outcome.row, feature)].push_back(&outcome);
  }
  std::vector<GroupScore> scores;
  for (const auto& [group, members] : groups) scores.push_back(scored(group, members));
  return scores;
}

GroupScore score_of_all(const std::vector<Outcome>& outcomes) {
  std::vector<const Outcome*> all;
  for (const Outcome& outcome : outcomes) all.push_back(&outcome);
  return scored("all", all);
}

std::vector<const Outcome*> worst_first(const std::vector<Outcome>& outcomes) {
  std::vector<const Outcome*> order;
  for (const Outcome& outcome : outcomes) {
    if (outcome.timed()) order.push_back(&outcome);
  }
  std::stable_sort(order.begin(), order.end(), [](const Outcome* a, const Outcome* b) {
    return std::abs(a->error()) > std::abs(b->error());
  });
  return order;
}

std::vector<Refusal> refusals(const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.predicted()) reasons[outcome.reason].push_back(outcome.row.id);
  }
  std::vector<Refusal> all;
  for (auto& [reason, ids] : reasons) all.push_back({.reason = reason, .ids = std::move(ids)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Refusal& a, const Refusal& b) { return a.ids.size() > b.ids.size(); });
  return all;
}

}  // namespace trainyard
