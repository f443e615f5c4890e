#include "sim/engine/simgrid/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

namespace {

class PlatformBuilder {
 public:
  PlatformBuilder(const Partition& partition, const LinkSets& sets,
                  std::span<const double> communication_loss)
      : partition_(partition), sets_(sets), communication_loss_(communication_loss) {}

  [[nodiscard]] Platform build();

 private:
  // The highest rate of a flow that is alone on its links.
  [[nodiscard]] double rate_alone(std::uint32_t flow) const;
  void add_shared_links();
  void add_rate_cap(std::uint32_t flow);

  const Partition& partition_;
  const LinkSets& sets_;
  const std::span<const double> communication_loss_;
  Platform platform_;
};

double PlatformBuilder::rate_alone(std::uint32_t flow) const {
  double rate = partition_.flows[flow].rate_cap_bytes_per_s;
  for (const LinkSets::Share& share : sets_.of_flow[flow])
    rate = std::min(rate, sets_.sets[share.set].capacity_bytes_per_s / share.weight);
  TY_CHECK(rate > 0.0, flow, rate);
  return rate;
}

void PlatformBuilder::add_shared_links() {
  std::vector<std::pair<std::uint32_t, ListedLink>> listed;  // with the flow class
  for (std::uint32_t set = 0; set < sets_.sets.size(); ++set) {
    const LinkSet& links = sets_.sets[set];
    // A link is listed n times for a weight of n units, and its capacity is divided by the unit.
    const WholeWeights whole = whole_weights(links.users);
    platform_.rounded_weights += whole.rounded;
    const double capacity = links.capacity_bytes_per_s / whole.unit * kUnitsPerByte;
    platform_.links.push_back({.capacity = capacity});
    for (std::size_t user = 0; user < links.users.size(); ++user) {
      const std::uint32_t flow = links.users[user].flow_class;
      listed.push_back({flow, {set, whole.counts[user]}});
    }
  }
  platform_.listed = {platform_.routes.size(), [&](const auto& put) {
                        for (const auto& [flow, link] : listed) put(flow, link);
                      }};
}

void PlatformBuilder::add_rate_cap(std::uint32_t flow) {
  // The cap of a flow that may be slowed starts from the rate that the flow has alone.
  const std::uint32_t group = partition_.flows[flow].group_class;
  const bool slowable = !communication_loss_.empty() && communication_loss_[group] > 0.0;
  const double alone = rate_alone(flow);
  const double rate = slowable ? alone : partition_.flows[flow].rate_cap_bytes_per_s;
  // A cap is left out when the shared links keep the flow below it anyway.
  const bool idle = rate >= alone * (1.0 + 1e-9) || rate == std::numeric_limits<double>::infinity();
  if (!slowable && idle) return;
  const auto link = static_cast<std::uint32_t>(platform_.links.size());
  const PricedLink cap{.capacity = rate * kUnitsPerByte, .shared = false};
  if (slowable) platform_.caps.push_back({flow, group, link, cap.capacity});
  platform_.routes[flow].cap_link = link;
  platform_.links.push_back(cap);
}

// Units are whole numbers of 63 bits.
std::uint64_t payload_units(double bytes) {
  constexpr double kUnitsMost = 0x1p62;
  if (bytes * kUnitsPerByte > kUnitsMost)
    throw InputError(Problem{
        .file = {},
        .pointer = {},
        .problem = fmt::format("a transfer of {} is more than the {} that SimGrid's engine "
                               "counts",
                               to_text(Bytes{bytes}), to_text(Bytes{kUnitsMost / kUnitsPerByte})),
        .hint = "send less at once, or use the engine ideal"});
  return static_cast<std::uint64_t>(std::llround(bytes * kUnitsPerByte));
}

Platform PlatformBuilder::build() {
  platform_.routes.resize(partition_.flows.size());
  for (std::uint32_t flow = 0; flow < partition_.flows.size(); ++flow) {
    FlowRoute& route = platform_.routes[flow];
    const double payload = partition_.flows[flow].payload_bytes;
    route.payload_units = payload_units(payload);
    // A flow that shares no link, or whose payload rounds to no unit, ends after a known time.
    if (sets_.of_flow[flow].empty() || route.payload_units == 0) {
      route.seconds_alone = payload / rate_alone(flow);
    } else {
      route.number = static_cast<std::uint32_t>(platform_.routed.size());
      platform_.routed.push_back(flow);
    }
  }
  add_shared_links();
  for (const std::uint32_t flow : platform_.routed) add_rate_cap(flow);
  return std::move(platform_);
}

}  // namespace

Platform build_platform(const Partition& partition, const LinkSets& sets,
                        std::span<const double> communication_loss) {
  return PlatformBuilder(partition, sets, communication_loss).build();
}

void tell(FluidSolver& solver, const Platform& platform) {
  for (const PricedLink& link : platform.links)
    solver.add_link({.units_per_s = link.capacity, .shared = link.shared});
  std::vector<std::vector<std::uint32_t>> routes;
  routes.reserve(platform.routed.size());
  for (const std::uint32_t flow : platform.routed) {
    std::vector<std::uint32_t>& links = routes.emplace_back();
    for (const auto& [link, count] : platform.listed[flow]) links.insert(links.end(), count, link);
    if (platform.routes[flow].cap_link != kNone) links.push_back(platform.routes[flow].cap_link);
  }
  solver.close(routes);
}

namespace {

// Times that the route of one flow may list one link (decision D4: about 100 entries).
constexpr double kMostListings = 128.0;
constexpr double kMostFolded = 1024.0;  // likewise, where many flows are folded into the one
constexpr double kSteps = 32.0;         // per payload, where weights are rounded
constexpr double kExact = 1e-11;        // relative; a hundredth of the agreement promised (1e-9)

// Euclid's algorithm on doubles: a remainder within the tolerance counts as 0.
double common_divisor(double a, double b, double tolerance) {
  while (b > tolerance) {
    const double remainder = std::fmod(a, b);
    a = std::exchange(b, b - remainder <= tolerance ? 0.0 : remainder);
  }
  return a;
}

// Returns the whole weights if a common unit exists that gives short lists.
std::optional<WholeWeights> exact_weights(std::span<const double> weights, double most_listings) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double unit = most;
  for (const double weight : weights) {
    unit = common_divisor(std::max(unit, weight), std::min(unit, weight), most * 1e-9);
  }
  if (most / unit > most_listings + 0.5) return std::nullopt;
  // The largest weight fixes the unit again, so that the rounding errors of the divisions do not
  // stay in it.
  unit = most / std::round(most / unit);
  WholeWeights result{unit, {}, 0};
  for (const double weight : weights) {
    const double count = std::round(weight / unit);
    if (count < 1.0 || std::abs(count * unit / weight - 1.0) > kExact) return std::nullopt;
    result.counts.push_back(static_cast<std::uint32_t>(count));
  }
  return result;
}

// Seven flows that are folded into one flow weigh 7 where each alone weighs 1. Folding must not
// change times: weights that are exact for the seven must be exact for the one, so its list may be
// seven times as long.
double most_listings(std::span<const LinkSet::User> users) {
  double weight = 0.0;
  double flow_load = 0.0;
  for (const LinkSet::User& user : users) {
    weight = std::max(weight, user.weight);
    flow_load = std::max(flow_load, user.flow_load);
  }
  return std::clamp(kMostListings * weight / flow_load, kMostListings, kMostFolded);
}

// Rounds up to a multiple of 1/32 payload per flow. The result is therefore the same whether flows
// are folded or not.
double rounded_up(const LinkSet::User& user) {
  const double steps = user.flow_load * kSteps;
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

// Three attempts, each less exact than the one before: a common unit of the weights as they are,
// one of the weights rounded up per flow, and steps of the largest weight.
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
  // Folded weights can still be too far apart to be listed. They are then rounded up to steps of
  // the largest weight.
  WholeWeights result{*std::max_element(weights.begin(), weights.end()) / kMostListings, {}, 0};
  for (const double weight : weights) {
    result.counts.push_back(static_cast<std::uint32_t>(
        std::max(1.0, std::ceil(weight / result.unit * (1.0 - kExact)))));
  }
  result.rounded = count_changed(users, result);
  return result;
}

}  // namespace trainyard
