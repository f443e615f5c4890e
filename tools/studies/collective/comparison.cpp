#include "tools/studies/collective/comparison.hpp"

namespace trainyard {

namespace {

constexpr double kEqual = 1e-9;

// The quickest at one size, without one of them.
std::optional<std::size_t> quickest(const CollectiveStudy& study, std::size_t size,
                                    std::optional<std::size_t> without) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    if (study.algorithms[i].refusal || i == without) continue;
    const double time_s = study.algorithms[i].rows[size].time_s;
    if (!best || time_s < study.algorithms[*best].rows[size].time_s * (1.0 - kEqual)) best = i;
  }
  return best;
}

// By how much `a` is slower than `b`.
double lead_s(const CollectiveStudy& study, std::size_t a, std::size_t b, std::size_t size) {
  return study.algorithms[a].rows[size].time_s - study.algorithms[b].rows[size].time_s;
}

}  // namespace

std::vector<Winner> winners(const CollectiveStudy& study) {
  std::vector<Winner> result;
  for (std::size_t size = 0; size < study.sizes.size(); ++size) {
    const std::optional<std::size_t> best = quickest(study, size, {});
    if (!best) return {};
    result.push_back(
        {.bytes = study.sizes[size], .algorithm = *best, .second = quickest(study, size, best)});
  }
  return result;
}

std::vector<Crossover> crossovers(const CollectiveStudy& study) {
  const std::vector<Winner> best = winners(study);
  std::vector<Crossover> result;
  for (std::size_t size = 1; size < best.size(); ++size) {
    const std::size_t from = best[size - 1].algorithm;
    const std::size_t to = best[size].algorithm;
    if (from == to) continue;
    const double before = lead_s(study, from, to, size - 1);  // at most 0
    const double after = lead_s(study, from, to, size);       // above 0
    const auto below = static_cast<double>(best[size - 1].bytes);
    const auto above = static_cast<double>(best[size].bytes);
    result.push_back({.from = from,
                      .to = to,
                      .below = best[size - 1].bytes,
                      .above = best[size].bytes,
                      .bytes = below + (above - below) * before / (before - after)});
  }
  return result;
}

}  // namespace trainyard
