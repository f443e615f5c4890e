#include "topologies/draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr double kRounding = 1e-9;  // tolerance for ratios that users write with a few digits

std::uint32_t ceil_divide(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

}  // namespace

std::uint32_t uplinks(std::uint32_t down, double oversubscription) {
  const auto least = static_cast<std::uint32_t>(std::ceil(down / oversubscription - kRounding));
  return down == 0 ? 0 : std::max(least, 1U);  // at least one uplink, however thin
}

// Takes the most downlinks that fit, then prefers a number with an exact ratio if it is larger than
// three quarters of that.
std::uint32_t downlinks(std::uint32_t radix, double oversubscription) {
  std::uint32_t most = radix;
  while (most > 0 && most + uplinks(most, oversubscription) > radix) --most;
  for (std::uint32_t down = most; down * 4 > most * 3; --down) {
    const double up = down / oversubscription;
    if (std::abs(up - std::round(up)) < kRounding) return down;
  }
  return most;
}

std::uint32_t divisor_at_least(std::uint32_t whole, std::uint32_t least) {
  for (std::uint32_t part = std::max(least, 1U); part <= whole; ++part) {
    if (whole % part == 0) return part;
  }
  return 0;
}

std::vector<DeviceId> add_switches(Draft& draft, DeviceKind kind, std::string_view word,
                                   std::uint32_t count) {
  auto number =
      static_cast<std::uint32_t>(std::ranges::count(draft.switches, kind, &AddedSwitch::kind));
  std::vector<DeviceId> ids;
  const bool usual = word == to_string(kind);
  for (std::uint32_t i = 0; i < count; ++i, ++number) {
    const Device device{.kind = kind, .index = static_cast<std::int32_t>(number)};
    ids.push_back(usual ? draft.blueprint.add(device)
                        : draft.blueprint.add(device, fmt::format("{} {}", word, number)));
    draft.switches.push_back({kind, ids.back()});
  }
  return ids;
}

Wire switch_wire(const ClusterSpec& spec, Seconds hop_latency, LinkKind kind,
                 std::uint32_t cables) {
  return {.kind = kind,
          .capacity = spec.node.nic * cables,
          .nominal = spec.node.nic_nominal * cables,
          .latency = hop_latency,
          .cables = cables};
}

Wire nic_wire(const ClusterSpec& spec) {
  return {.kind = LinkKind::NicPort,
          .capacity = spec.node.nic,
          .nominal = spec.node.nic_nominal,
          .latency = spec.node.nic_latency};
}

bool join_two_tiers(const ClusterSpec& spec, const Switches& switches,
                    const std::vector<DeviceId>& leaves, std::uint32_t leaf_uplinks, Draft& draft) {
  const auto count = static_cast<std::uint32_t>(leaves.size());
  // Each leaf has the same number of cables to each spine, so the number of spines divides the
  // number of uplinks. The function takes the fewest spines that have a port for every cable: 16
  // leaves with 32 uplinks need 512 ports, which are 8 spines of 64 ports, 4 cables from each leaf.
  const std::uint32_t spines =
      divisor_at_least(leaf_uplinks, ceil_divide(count * leaf_uplinks, switches.radix));
  if (spines == 0) return false;
  const Wire wire =
      switch_wire(spec, switches.hop_latency, LinkKind::LeafSpine, leaf_uplinks / spines);
  draft.blueprint.join(leaves, add_switches(draft, DeviceKind::SpineSwitch, "spine", spines), wire);
  return true;
}

bool join_three_tiers(const ClusterSpec& spec, const Switches& switches,
                      double core_oversubscription, const std::vector<std::vector<DeviceId>>& pods,
                      std::uint32_t leaf_uplinks, Draft& draft) {
  // Every pod gets as many spines as the largest one needs, so that spine j exists in all pods and
  // one group of cores can join them. Four pods of 32 leaves with 32 uplinks, radix 64, ratio 1: 32
  // spines a pod with 32 uplinks each, and 2 cores over each j, with 16 cables from each spine.
  const std::uint32_t radix = switches.radix;
  const double ratio = core_oversubscription;
  std::size_t largest = 0;
  for (const auto& leaves : pods) largest = std::max(largest, leaves.size());
  const auto leaves = static_cast<std::uint32_t>(largest);
  const auto count = static_cast<std::uint32_t>(pods.size());
  const std::uint32_t spines =
      divisor_at_least(leaf_uplinks, ceil_divide(leaves * leaf_uplinks, downlinks(radix, ratio)));
  // A divisor exists: no pod has more leaves than a spine has downlinks.
  TY_CHECK(spines > 0, leaves, leaf_uplinks);
  const std::uint32_t spine_uplinks = uplinks(leaves * (leaf_uplinks / spines), ratio);
  // The cores over spine j of all pods. Each such spine has spine_uplinks / group cables to each of
  // them.
  const std::uint32_t group =
      divisor_at_least(spine_uplinks, ceil_divide(count * spine_uplinks, radix));
  if (group == 0) return false;
  std::vector<std::vector<DeviceId>> cores;
  for (std::uint32_t j = 0; j < spines; ++j) {
    cores.push_back(add_switches(draft, DeviceKind::CoreSwitch, "core", group));
  }
  const Wire up =
      switch_wire(spec, switches.hop_latency, LinkKind::LeafSpine, leaf_uplinks / spines);
  const Wire core =
      switch_wire(spec, switches.hop_latency, LinkKind::SpineCore, spine_uplinks / group);
  for (const auto& pod : pods) {
    const auto pod_spines = add_switches(draft, DeviceKind::SpineSwitch, "spine", spines);
    draft.blueprint.join(pod, pod_spines, up);
    for (std::uint32_t j = 0; j < spines; ++j)
      draft.blueprint.join(std::span(&pod_spines[j], 1), cores[j], core);
  }
  return true;
}

// The upper bound of all networks: every NIC on one crossbar with as many ports as necessary.
void draw_fabric(const SingleSwitch& /*fabric*/, const ClusterSpec& spec, Draft& draft) {
  const DeviceId all = add_switches(draft, DeviceKind::LeafSwitch, "leaf", 1).front();
  for (const DeviceId nic : draft.nics) draft.cable(nic, all, nic_wire(spec));
}

}  // namespace trainyard
