#include "sim/engine/simgrid/weights.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr double kMostListings = 128.0;  // of one chain's link in one route (D4: about 100 entries)
constexpr double kMostFolded = 1024.0;   // of the link of a flow that stands for many chains
constexpr double kSteps = 32.0;          // per payload, where weights are rounded
constexpr double kExact = 1e-11;         // relative; a hundredth of the agreement promised

double common_divisor(double a, double b, double tolerance) {
  while (b > tolerance) {
    const double remainder = std::fmod(a, b);
    a = std::exchange(b, b - remainder <= tolerance ? 0.0 : remainder);
  }
  return a;
}

// The whole weights if a common unit exists that gives short lists.
std::optional<WholeWeights> exact_weights(std::span<const double> weights, double most_listings) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double unit = most;
  for (const double weight : weights) {
    unit = common_divisor(std::max(unit, weight), std::min(unit, weight), most * 1e-9);
  }
  if (most / unit > most_listings + 0.5) return std::nullopt;
  // The largest weight fixes the unit anew, free of the rounding errors of the divisions.
  unit = most / std::round(most / unit);
  WholeWeights result{unit, {}, 0};
  for (const double weight : weights) {
    const double count = std::round(weight / unit);
    if (count < 1.0 || std::abs(count * unit / weight - 1.0) > kExact) return std::nullopt;
    result.counts.push_back(static_cast<std::uint32_t>(count));
  }
  return result;
}

// Seven chains folded into one flow weigh 7 where each alone weighs 1. What is exact for them must
// be exact for the flow, or folding would change times, so its list may be seven times as long.
double most_listings(std::span<const LinkSet::User> users) {
  double weight = 0.0;
  double chain_load = 0.0;
  for (const LinkSet::User& user : users) {
    weight = std::max(weight, user.weight);
    chain_load = std::max(chain_load, user.chain_load);
  }
  return std::clamp(kMostListings * weight / chain_load, kMostListings, kMostFolded);
}

// Rounded up to 1/32 payload per chain, hence to the same figure whether chains are folded or not.
double rounded_up(const LinkSet::User& user) {
  const double steps = user.chain_load * kSteps;
  return user.weight * std::ceil(steps * (1.0 - kExact)) / steps;
}

std::uint32_t count_changed(std::span<const LinkSet::User> users, const WholeWeights& result) {
  std::uint32_t changed = 0;
  for (std::size_t index = 0; index < users.size(); ++index) {
    const double listed = result.counts[index] * result.unit;
    if (std::abs(listed / users[index].weight - 1.0) > kExact) ++changed;
  }
  return changed;
}

}  // namespace

WholeWeights whole_weights(std::span<const LinkSet::User> users) {
  TY_CHECK(!users.empty());
  std::vector<double> weights;
  for (const LinkSet::User& user : users) weights.push_back(user.weight);
  const double most = most_listings(users);
  if (const auto exact = exact_weights(weights, most)) return *exact;

  weights.clear();
  for (const LinkSet::User& user : users) weights.push_back(rounded_up(user));
  if (auto stepped = exact_weights(weights, most)) {
    stepped->rounded = count_changed(users, *stepped);
    return *stepped;
  }
  // Folded weights can still be too far apart to be listed: steps of the largest weight then.
  WholeWeights result{*std::max_element(weights.begin(), weights.end()) / kMostListings, {}, 0};
  for (const double weight : weights) {
    result.counts.push_back(static_cast<std::uint32_t>(
        std::max(1.0, std::ceil(weight / result.unit * (1.0 - kExact)))));
  }
  result.rounded = count_changed(users, result);
  return result;
}

}  // namespace trainyard
