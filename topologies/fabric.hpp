// The fabrics that join the nodes of a cluster, each with the parameters of its kind.
//
//    FabricSpec fabric{.kind = RailOptimized{.radix = 128}};
//    FabricSpec same = read_fabric(cluster.object("fabric"));  // {"kind": "rail_optimized", ...}
//
// A new fabric is a structure here, its draw_fabric() (draft.hpp) in a separate file, and a table
// of its fields with an entry in fabric.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/topology.hpp"

namespace trainyard {

inline constexpr std::uint32_t kUsualRadix = 64;  // ports of a switch
// The latency of a cable between switches and of the switch behind it.
inline constexpr Seconds kUsualHopLatency{5e-7};

// One switch with a port for every NIC.
struct SingleSwitch {
  bool operator==(const SingleSwitch&) const = default;
};

struct RailOptimized {
  std::uint32_t radix = kUsualRadix;
  double oversubscription = 1.0;       // downlink / uplink capacity of a leaf
  double core_oversubscription = 1.0;  // the same one tier up, where there are three tiers
  std::uint32_t nodes_per_unit = 0;    // under one set of rail leaves; 0: as many as fit
  Seconds hop_latency = kUsualHopLatency;
  bool operator==(const RailOptimized&) const = default;
};

struct FatTree {
  std::uint32_t radix = kUsualRadix;
  double oversubscription = 1.0;
  Seconds hop_latency = kUsualHopLatency;
  bool operator==(const FatTree&) const = default;
};

struct FatTree3 {
  std::uint32_t radix = kUsualRadix;
  double oversubscription = 1.0;
  double core_oversubscription = 1.0;
  Seconds hop_latency = kUsualHopLatency;
  bool operator==(const FatTree3&) const = default;
};

// Several planes, each of which is such a fat-tree.
struct MultiPlane : FatTree {
  bool operator==(const MultiPlane&) const = default;
};

// Two planes, each of which is such a rail-optimised fabric.
struct DualTor : RailOptimized {
  bool operator==(const DualTor&) const = default;
};

struct Torus {
  std::vector<std::uint32_t> dims = {};  // nodes along each dimension; empty: balanced
  std::uint32_t dimensions = 3;          // number of dimensions where `dims` is empty
  // Cables between two neighbours, each of a NIC's rate; 0: as many as a node has NICs.
  std::uint32_t cables = 0;
  Seconds hop_latency = kUsualHopLatency;
  bool operator==(const Torus&) const = default;
};
// Returns the nodes along each dimension: those of the fabric, or balanced ones. Throws InputError
// where their product is not the number of nodes.
[[nodiscard]] std::vector<std::uint32_t> torus_dims(const Torus& fabric, std::uint32_t nodes);

struct Dragonfly {
  std::uint32_t radix = kUsualRadix;
  std::uint32_t nics_per_router = 0;    // p; 0: (radix + 1) / 4, the balanced value
  std::uint32_t routers_per_group = 0;  // a; 0: 2 p
  std::uint32_t global_links = 0;       // h, of one router; 0: p
  Seconds hop_latency = kUsualHopLatency;
  bool operator==(const Dragonfly&) const = default;
};

using FabricKind = std::variant<SingleSwitch, RailOptimized, FatTree, FatTree3, MultiPlane, DualTor,
                                Torus, Dragonfly>;

struct FabricSpec {
  FabricKind kind = SingleSwitch{};
  Routing routing = {};  // also of a custom cluster
  // Whether switches reduce what passes through them (SHARP); also of a custom cluster.
  bool reduces = false;
  bool operator==(const FabricSpec&) const = default;
};

// An entry of the registry.
struct FabricEntry {
  std::string_view name;
  std::string_view summary;
  FabricKind defaults;
  std::vector<std::string_view> keys;  // fields of this kind that other kinds may lack
  FabricKind (*read)(JsonObject& object);
  nlohmann::ordered_json (*write)(const FabricKind& kind);

  [[nodiscard]] bool has(std::string_view key) const;
};
[[nodiscard]] std::span<const FabricEntry> fabrics();
// Returns nullptr when no fabric has that name.
[[nodiscard]] const FabricEntry* find_fabric(std::string_view name);
[[nodiscard]] const FabricEntry& fabric_entry(const FabricKind& kind);

// Reads the "fabric" object of a cluster. A field that its kind does not have is reported.
[[nodiscard]] FabricSpec read_fabric(JsonObject object);
// Writes every field of its kind; reading it gives an equal spec.
[[nodiscard]] nlohmann::ordered_json to_json(const FabricSpec& fabric);

// Reads the "routing" object: {"kind": "ecmp", "seed": 1, "flows_per_connection": 4}.
[[nodiscard]] Routing read_routing(JsonObject object);
[[nodiscard]] nlohmann::ordered_json to_json(const Routing& routing);

}  // namespace trainyard
