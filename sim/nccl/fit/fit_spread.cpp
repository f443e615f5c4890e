#include "sim/nccl/fit/fit_spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard::nccl::fit {

namespace {

constexpr double kOutside = 0.05;  // of the calls, on each side
constexpr std::int64_t kLarge = 1 << 20;

// The measured times over the predicted ones, by cluster.
using Ratios = std::map<std::string, std::vector<double>>;

// The ratio below which a share of the calls lies, where every cluster weighs the same.
double quantile(const Ratios& ratios, double share) {
  std::vector<std::pair<double, double>> weighted;  // ratio, weight
  for (const auto& [cluster, own] : ratios)
    for (const double ratio : own)
      weighted.emplace_back(ratio, 1.0 / static_cast<double>(own.size()));
  TY_CHECK(!weighted.empty());
  std::ranges::sort(weighted);
  double below = 0.0;
  for (const auto& [ratio, weight] : weighted) {
    below += weight;
    if (below >= share * static_cast<double>(ratios.size())) return ratio;
  }
  return weighted.back().first;
}

// The limits contain a prediction that is exact.
std::pair<double, double> limits_of(const Ratios& ratios) {
  return {std::min(1.0, quantile(ratios, kOutside)),
          std::max(1.0, quantile(ratios, 1.0 - kOutside))};
}

// The mean over clusters of the share of calls within the limits that the others have.
double inside_without_own(const Ratios& ratios) {
  if (ratios.size() < 2) return 0.0;
  double sum = 0.0;
  for (const auto& [cluster, own] : ratios) {
    Ratios others = ratios;
    others.erase(cluster);
    const auto [low, high] = limits_of(others);
    const auto inside =
        std::ranges::count_if(own, [&](double ratio) { return ratio >= low && ratio <= high; });
    sum += static_cast<double>(inside) / static_cast<double>(own.size());
  }
  return sum / static_cast<double>(ratios.size());
}

// Small calls on more than 8 nodes were measured on too few clusters for two classes.
std::vector<CallSpread> classes() {
  constexpr std::int64_t kBelow = kLarge - 1;
  return {{.nodes_most = 1, .bytes_most = kBelow},
          {.nodes_most = 1, .bytes_least = kLarge},
          {.nodes_least = 2, .nodes_most = 8, .bytes_most = kBelow},
          {.nodes_least = 2, .nodes_most = 8, .bytes_least = kLarge},
          {.nodes_least = 9, .bytes_most = kBelow},
          {.nodes_least = 9, .nodes_most = 64, .bytes_least = kLarge},
          {.nodes_least = 65, .bytes_least = kLarge}};
}

}  // namespace

std::vector<CallSpread> fit_spreads(const std::vector<Residual>& residuals) {
  std::vector<CallSpread> all = classes();
  for (CallSpread& spread : all) {
    Ratios ratios;
    for (const Residual& residual : residuals) {
      const Sample& sample = *residual.sample;
      if (sample.weight == 0.0 && !sample.one_node()) continue;
      if (!spread.holds(sample.communicator->nodes, static_cast<std::int64_t>(sample.bytes)))
        continue;
      ratios[sample.one_node() ? sample.source : sample.site].push_back(1.0 / residual.ratio);
      ++spread.calls;
    }
    std::tie(spread.low, spread.high) = limits_of(ratios);
    spread.clusters = static_cast<std::uint32_t>(ratios.size());
    spread.inside = inside_without_own(ratios);
  }
  return all;
}

std::string to_markdown(const std::vector<CallSpread>& spreads) {
  std::string text =
      "| calls | low | high | calls | clusters | inside, limits from the other clusters |\n"
      "|---|--:|--:|--:|--:|--:|\n";
  for (const CallSpread& spread : spreads)
    text +=
        fmt::format("| {} | {:.2f} | {:.2f} | {} | {} | {:.1f} % |\n", calls_of(spread), spread.low,
                    spread.high, spread.calls, spread.clusters, 100.0 * spread.inside);
  return text;
}

}  // namespace trainyard::nccl::fit
