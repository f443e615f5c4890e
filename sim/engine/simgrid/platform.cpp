#include "sim/engine/simgrid/platform.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/simgrid/weights.hpp"

namespace trainyard {
namespace {

namespace shim = simgrid_shim;
using shim::s4u::LinkInRoute;

class PlatformBuilder {
 public:
  PlatformBuilder(shim::s4u::Engine& engine, const Partition& partition, const LinkSets& sets,
                  const std::vector<bool>& is_private, const PlatformOptions& options)
      : partition_(partition),
        sets_(sets),
        is_private_(is_private),
        timers_(options.timers_for_solitary_flows),
        communication_loss_(options.communication_loss),
        zone_(shim::make_zone(engine, "world")),
        hops_(partition.flows.size()) {}

  [[nodiscard]] Platform build();

 private:
  [[nodiscard]] bool is_solitary(std::uint32_t flow) const;
  // The most a flow can move when it is alone on its links: its own cap and its private links, or
  // all.
  [[nodiscard]] double rate_alone(std::uint32_t flow, bool private_links_only) const;
  void add_shared_links();
  void add_rate_cap(std::uint32_t flow);
  void add_routes(const std::vector<std::uint32_t>& flows);

  const Partition& partition_;
  const LinkSets& sets_;
  const std::vector<bool>& is_private_;
  const bool timers_;
  const std::span<const double> communication_loss_;
  shim::s4u::NetZone* zone_;
  std::vector<std::vector<LinkInRoute>> hops_;  // by flow class
  Platform platform_;
};

bool PlatformBuilder::is_solitary(std::uint32_t flow) const {
  const std::vector<LinkSets::Share>& shares = sets_.of_flow[flow];
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
  for (std::uint32_t set = 0; set < sets_.sets.size(); ++set) {
    if (timers_ && is_private_[set]) continue;
    platform_.link_of_set[set] = static_cast<std::uint32_t>(platform_.links.size());
    const LinkSet& links = sets_.sets[set];
    const WholeWeights whole = whole_weights(links.users);
    platform_.rounded_weights += whole.rounded;
    const double capacity = links.capacity_bytes_per_s / whole.unit * kUnitsPerByte;
    const shim::s4u::Link* link =
        shim::make_link(zone_, fmt::format("set {}", set), capacity, true);
    platform_.links.push_back({link, capacity, {{set, 1.0}}});
    for (std::size_t user = 0; user < links.users.size(); ++user) {
      const std::uint32_t flow = links.users[user].flow_class;
      platform_.routes[flow].listed.emplace_back(platform_.link_of_set[set], whole.counts[user]);
      hops_[flow].insert(hops_[flow].end(), whole.counts[user], LinkInRoute(link));
    }
  }
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
  shim::s4u::Link* link = shim::make_link(zone_, fmt::format("cap {}", flow), cap.capacity, false);
  if (slowable) platform_.caps.push_back({flow, group, link, cap.capacity});
  cap.link = link;
  hops_[flow].emplace_back(cap.link);
  platform_.routes[flow].cap_link = static_cast<std::uint32_t>(platform_.links.size());
  platform_.links.push_back(std::move(cap));
}

// k hosts have k (k - 1) ordered pairs, one for each kind of flow.
void PlatformBuilder::add_routes(const std::vector<std::uint32_t>& flows) {
  std::size_t count = 2;
  while (count * (count - 1) < flows.size()) ++count;
  std::vector<shim::s4u::Host*> hosts;
  for (std::size_t host = 0; host < count; ++host) {
    hosts.push_back(shim::make_host(zone_, fmt::format("host {}", host)));
  }
  for (std::size_t index = 0; index < flows.size(); ++index) {
    const std::size_t from = index / (count - 1);
    const std::size_t step = index % (count - 1);
    FlowRoute& route = platform_.routes[flows[index]];
    route.from = hosts[from];
    route.to = hosts[step < from ? step : step + 1];
    shim::make_route(zone_, route.from, route.to, hops_[flows[index]]);
  }
}

Platform PlatformBuilder::build() {
  platform_.routes.resize(partition_.flows.size());
  std::vector<std::uint32_t> meeting;
  for (std::uint32_t flow = 0; flow < partition_.flows.size(); ++flow) {
    FlowRoute& route = platform_.routes[flow];
    const double payload = partition_.flows[flow].payload_bytes;
    route.payload_units = static_cast<std::uint64_t>(std::llround(payload * kUnitsPerByte));
    if (is_solitary(flow) || route.payload_units == 0) {
      route.seconds_alone = payload / rate_alone(flow, false);
    } else {
      meeting.push_back(flow);
    }
  }
  add_shared_links();
  for (const std::uint32_t flow : meeting) add_rate_cap(flow);
  add_routes(meeting);
  zone_->seal();
  return std::move(platform_);
}

}  // namespace

Platform build_platform(shim::s4u::Engine& engine, const Partition& partition, const LinkSets& sets,
                        const std::vector<bool>& is_private, const PlatformOptions& options) {
  return PlatformBuilder(engine, partition, sets, is_private, options).build();
}

}  // namespace trainyard
