// A cluster under construction, to which nodes and fabrics add their devices and cables, and the
// parts that fabrics share: switches, uplinks, cables between two tiers.
//
//    Draft draft;
//    const auto leaves = add_switches(draft, DeviceKind::LeafSwitch, "leaf", 4);
//    draft.cable(nic, leaves[0], nic_wire(spec));  // both directions
//    std::uint32_t down = downlinks(64, 1.0);      // 32: half of the ports, the rest go up
//    const bool fits = join_two_tiers(spec, {.radix = 64}, leaves, uplinks(down, 1.0), draft);
//
// Cables are whole, so a ratio that ports cannot express is rounded in favour of bandwidth (more
// uplinks). Parallel cables between two switches are one link with their total capacity, because
// ideal routing loads them equally.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

struct AddedSwitch {
  DeviceKind kind = DeviceKind::LeafSwitch;
  DeviceId id = 0;
};

struct Draft {
  Blueprint blueprint = {};
  std::vector<DeviceId> gpus = {};         // in rank order
  std::vector<DeviceId> nics = {};         // node by node
  std::vector<AddedSwitch> switches = {};  // of the fabric, in order

  void cable(DeviceId a, DeviceId b, const Wire& wire) { blueprint.cable(a, b, wire); }
};

// Adds the switches and cables of the spec's fabric over the NICs of the draft. REQUIRES:
// draft.nics holds spec.nodes * spec.node.nics NICs, node by node. Throws InputError, with a
// pointer relative to the cluster object, when the fabric cannot hold them.
void draw_fabric(const ClusterSpec& spec, Draft& draft);

// The same for a cluster of several sites: a fabric in each, and lines between them.
void draw_sites(const ClusterSpec& spec, Draft& draft);

// The same for each kind of fabric.
void draw_fabric(const SingleSwitch& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const RailOptimized& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const FatTree& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const FatTree3& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const MultiPlane& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const DualTor& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const Torus& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const Dragonfly& fabric, const ClusterSpec& spec, Draft& draft);

// Returns the uplinks of a switch with `down` downlinks. The ratio of both is the oversubscription,
// or a little less.
[[nodiscard]] std::uint32_t uplinks(std::uint32_t down, double oversubscription);

// Returns the most downlinks that leave enough ports for their uplinks. It prefers an exact ratio
// if that costs less than a quarter of the downlinks: radix 64 gives 32 at 1:1, 48 at 3:1, 36 at
// 1.5:1.
[[nodiscard]] std::uint32_t downlinks(std::uint32_t radix, double oversubscription);

// Returns the smallest divisor of `whole` that is at least `least`; 0 when least exceeds whole.
// Uplinks are spread evenly only over a divisor of their number.
[[nodiscard]] std::uint32_t divisor_at_least(std::uint32_t whole, std::uint32_t least);

// Adds `count` switches, numbered after those of that kind that the draft already has.
[[nodiscard]] std::vector<DeviceId> add_switches(Draft& draft, DeviceKind kind,
                                                 std::string_view word, std::uint32_t count);

// The switches of a fabric: the number of their ports, and the latency of a hop between two of
// them.
struct Switches {
  std::uint32_t radix = kUsualRadix;
  Seconds hop_latency = kUsualHopLatency;
};

// Returns `cables` ports between switches. Each has the rate of a NIC.
[[nodiscard]] Wire switch_wire(const ClusterSpec& spec, Seconds hop_latency, LinkKind kind,
                               std::uint32_t cables);
[[nodiscard]] Wire nic_wire(const ClusterSpec& spec);

// Adds spines over the leaves and joins each leaf to each spine. Returns false, and draws nothing,
// when a spine has too few ports for the leaves.
[[nodiscard]] bool join_two_tiers(const ClusterSpec& spec, const Switches& switches,
                                  const std::vector<DeviceId>& leaves, std::uint32_t leaf_uplinks,
                                  Draft& draft);

// Adds separate spines to every pod, and cores that join spine j of every pod. Returns false when a
// core has too few ports for the pods. REQUIRES: no pod has more leaves than a spine has downlinks.
[[nodiscard]] bool join_three_tiers(const ClusterSpec& spec, const Switches& switches,
                                    double core_oversubscription,
                                    const std::vector<std::vector<DeviceId>>& pods,
                                    std::uint32_t leaf_uplinks, Draft& draft);

}  // namespace trainyard
