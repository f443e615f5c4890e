// Sites: the nodes of a cluster in several places, each with a fabric of its own. A gateway of each
// site has a line of the given rate and latency to that of every other site.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <variant>

#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

void check_sites(const ClusterSpec& spec) {
  const Sites& sites = *spec.sites;
  const auto refuse = [](const char* field, std::string problem, std::string hint) {
    throw InputError(
        Problem{"", std::string("/sites") + field, std::move(problem), std::move(hint)});
  };
  if (spec.nodes % sites.count != 0)
    refuse("/count", fmt::format("{} nodes do not divide among {} sites", spec.nodes, sites.count),
           "all sites have equally many nodes, in order");
  if (!(sites.rate.value() > 0.0))
    refuse("/rate", "a line must carry more than 0 B/s", "give its rate, such as \"100 GB/s\"");
  // A torus and a dragonfly have no top, and a gateway would join separate planes.
  const bool tree = std::holds_alternative<SingleSwitch>(spec.fabric.kind) ||
                    std::holds_alternative<RailOptimized>(spec.fabric.kind) ||
                    std::holds_alternative<FatTree>(spec.fabric.kind) ||
                    std::holds_alternative<FatTree3>(spec.fabric.kind);
  if (!tree)
    refuse("",
           fmt::format("cannot be joined where each has a fabric {}",
                       fabric_entry(spec.fabric.kind).name),
           "take single_switch, rail_optimized, fat_tree or fat_tree3");
}

// Returns the switches that stand above all others of those that the draft has from `before` on.
// DeviceKind lists leaf, spine and core in ascending order.
std::vector<DeviceId> top_switches(const Draft& draft, std::size_t before) {
  const auto added = std::span(draft.switches).subspan(before);
  const auto rank = [](const AddedSwitch& one) { return static_cast<int>(one.kind); };
  const int top = rank(*std::ranges::max_element(added, {}, rank));
  std::vector<DeviceId> switches;
  for (const AddedSwitch& one : added)
    if (rank(one) == top) switches.push_back(one.id);
  return switches;
}

// Carries the rate of so many lines in each direction.
Wire lines(const Sites& sites, std::uint32_t count, Seconds latency) {
  const BytesPerSecond rate = sites.rate * count;
  return {.kind = LinkKind::Global, .capacity = rate, .nominal = rate, .latency = latency};
}

DeviceId add_gateway(Draft& draft, std::uint32_t site) {
  constexpr DeviceKind kKind = DeviceKind::CoreSwitch;
  const auto index = std::ranges::count(draft.switches, kKind, &AddedSwitch::kind);
  const DeviceId gateway = draft.blueprint.add(
      {.kind = kKind, .index = static_cast<std::int32_t>(index)}, fmt::format("site {}", site));
  draft.switches.push_back({kKind, gateway});
  return gateway;
}

}  // namespace

void draw_sites(const ClusterSpec& spec, Draft& draft) {
  check_sites(spec);
  ClusterSpec site = spec;
  site.sites.reset();
  site.nodes = spec.nodes / spec.sites->count;
  const std::vector<DeviceId> nics = std::move(draft.nics);
  const auto nics_of_site = static_cast<std::ptrdiff_t>(nics.size() / spec.sites->count);
  std::vector<DeviceId> gateways;
  for (std::uint32_t number = 0; number < spec.sites->count; ++number) {
    const auto first = nics.begin() + static_cast<std::ptrdiff_t>(number) * nics_of_site;
    draft.nics.assign(first, first + nics_of_site);
    const std::size_t before = draft.switches.size();
    draw_fabric(site, draft);
    // The gateway is a core switch too, so the search comes before it is added.
    const std::vector<DeviceId> tops = top_switches(draft, before);
    gateways.push_back(add_gateway(draft, number));
    // Within a site nothing limits what crosses its lines to all other sites.
    for (const DeviceId top : tops)
      draft.cable(top, gateways.back(),
                  lines(*spec.sites, spec.sites->count - 1, kUsualHopLatency));
  }
  for (std::size_t a = 0; a < gateways.size(); ++a)
    for (std::size_t b = a + 1; b < gateways.size(); ++b)
      draft.cable(gateways[a], gateways[b], lines(*spec.sites, 1, spec.sites->latency));
  draft.nics = nics;
}

}  // namespace trainyard
