#include "sim/engine/simgrid/platform.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/simgrid/weights.hpp"

namespace trainyard {
namespace {

class PlatformBuilder {
 public:
  PlatformBuilder(const Partition& partition, const LinkSets& sets,
                  const std::vector<bool>& is_private, const PlatformOptions& options)
      : partition_(partition),
        sets_(sets),
        is_private_(is_private),
        timers_(options.timers_for_solitary_flows),
        communication_loss_(options.communication_loss) {}

  [[nodiscard]] Platform build();

 private:
  [[nodiscard]] bool is_solitary(std::uint32_t flow) const;
  // The most a flow can move when it is alone on its links: its own cap and its private links, or
  // all.
  [[nodiscard]] double rate_alone(std::uint32_t flow, bool private_links_only) const;
  void add_shared_links();
  void add_rate_cap(std::uint32_t flow);

  const Partition& partition_;
  const LinkSets& sets_;
  const std::vector<bool>& is_private_;
  const bool timers_;
  const std::span<const double> communication_loss_;
  Platform platform_;
};

bool PlatformBuilder::is_solitary(std::uint32_t flow) const {
  const std::span<const LinkSets::Share> shares = sets_.of_flow[flow];
  if (shares.empty()) return true;  // nothing but a cap
  return timers_ && std::all_of(shares.begin(), shares.end(), [&](const LinkSets::Share& share) {
           return is_private_[share.set];
         });
}

double PlatformBuilder::rate_alone(std::uint32_t flow, bool private_links_only) const {
  double rate = partition_.flows[flow].rate_cap_bytes_per_s;
  for (const LinkSets::Share& share : sets_.of_flow[flow]) {
    if (private_links_only && !(timers_ && is_private_[share.set])) continue;
    rate = std::min(rate, sets_.sets[share.set].capacity_bytes_per_s / share.weight);
  }
  TY_CHECK(rate > 0.0, flow, rate);
  return rate;
}

void PlatformBuilder::add_shared_links() {
  platform_.link_of_set.assign(sets_.sets.size(), kNone);
  std::vector<std::pair<std::uint32_t, ListedLink>> listed;  // with the flow class
  for (std::uint32_t set = 0; set < sets_.sets.size(); ++set) {
    if (timers_ && is_private_[set]) continue;
    platform_.link_of_set[set] = static_cast<std::uint32_t>(platform_.links.size());
    const LinkSet& links = sets_.sets[set];
    const WholeWeights whole = whole_weights(links.users);
    platform_.rounded_weights += whole.rounded;
    const double capacity = links.capacity_bytes_per_s / whole.unit * kUnitsPerByte;
    platform_.links.push_back({.capacity = capacity, .sets = {{set, 1.0}}});
    for (std::size_t user = 0; user < links.users.size(); ++user) {
      const std::uint32_t flow = links.users[user].flow_class;
      listed.push_back({flow, {platform_.link_of_set[set], whole.counts[user]}});
    }
  }
  platform_.listed = {platform_.routes.size(), [&](const auto& put) {
                        for (const auto& [flow, link] : listed) put(flow, link);
                      }};
}

void PlatformBuilder::add_rate_cap(std::uint32_t flow) {
  // One that may be slowed is slowed from what it moves alone.
  const std::uint32_t group = partition_.flows[flow].group_class;
  const bool slowable = !communication_loss_.empty() && communication_loss_[group] > 0.0;
  const double rate = rate_alone(flow, !slowable);
  PricedLink cap;
  cap.capacity = rate * kUnitsPerByte;
  for (const LinkSets::Share& share : sets_.of_flow[flow]) {
    if (!timers_ || !is_private_[share.set]) continue;
    cap.sets.push_back(
        {share.set, share.weight * rate / sets_.sets[share.set].capacity_bytes_per_s});
  }
  // A cap that the shared links keep the flow below anyway is left out, unless its fill is to be
  // watched.
  const bool idle = rate >= rate_alone(flow, false) * (1.0 + 1e-9) ||
                    rate == std::numeric_limits<double>::infinity();
  if (!slowable && cap.sets.empty() && idle) return;
  cap.shared = false;
  const auto link = static_cast<std::uint32_t>(platform_.links.size());
  if (slowable) platform_.caps.push_back({flow, group, link, cap.capacity});
  platform_.routes[flow].cap_link = link;
  platform_.links.push_back(std::move(cap));
}

Platform PlatformBuilder::build() {
  platform_.routes.resize(partition_.flows.size());
  for (std::uint32_t flow = 0; flow < partition_.flows.size(); ++flow) {
    FlowRoute& route = platform_.routes[flow];
    const double payload = partition_.flows[flow].payload_bytes;
    route.payload_units = static_cast<std::uint64_t>(std::llround(payload * kUnitsPerByte));
    if (is_solitary(flow) || route.payload_units == 0) {
      route.seconds_alone = payload / rate_alone(flow, false);
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
                        const std::vector<bool>& is_private, const PlatformOptions& options) {
  return PlatformBuilder(partition, sets, is_private, options).build();
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

}  // namespace trainyard
