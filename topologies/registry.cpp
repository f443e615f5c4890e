#include "topologies/registry.hpp"

#include <array>

namespace trainyard {

namespace {

struct Row {
  FabricEntry entry;
  DrawFabric draw;
};

const std::array<Row, 8>& rows() {
  static const std::array<Row, 8> table = {{
      {{"single_switch",
        "one ideal switch with a port for every NIC: the bound of all fabrics",
        {}},
       &draw_single_switch},
      {{"rail_optimized",
        "leaf-spine in units where leaf q takes NIC q of every node; a third tier where two are "
        "too small",
        {"radix", "oversubscription", "core_oversubscription", "nodes_per_unit", "hop_latency",
         "routing"}},
       &draw_rail_optimized},
      {{"fat_tree",
        "two levels, all NICs of a node on one leaf, every leaf to every spine",
        {"radix", "oversubscription", "hop_latency", "routing"}},
       &draw_fat_tree},
      {{"fat_tree3",
        "three levels: pods of leaves and spines, joined by cores",
        {"radix", "oversubscription", "core_oversubscription", "hop_latency", "routing"}},
       &draw_fat_tree3},
      {{"multi_plane",
        "NIC q of every node in plane q, each plane a two-level fat-tree of its own; GPUs pass "
        "messages from plane to plane",
        {"radix", "oversubscription", "hop_latency", "routing"}},
       &draw_multi_plane},
      {{"dual_tor",
        "every NIC's two ports on leaves of two planes, each plane rail-optimised",
        {"radix", "oversubscription", "core_oversubscription", "nodes_per_unit", "hop_latency",
         "routing"}},
       &draw_dual_tor},
      {{"torus",
        "a router for every node, joined to its neighbours along each dimension",
        {"dims", "dimensions", "cables", "hop_latency", "routing"}},
       &draw_torus},
      {{"dragonfly",
        "groups of routers, all joined within a group, every group to every other",
        {"radix", "nics_per_router", "routers_per_group", "global_links", "hop_latency",
         "routing"}},
       &draw_dragonfly},
  }};
  return table;
}

}  // namespace

std::span<const FabricEntry> fabrics() {
  static const std::vector<FabricEntry> entries = [] {
    std::vector<FabricEntry> all;
    for (const Row& row : rows()) all.push_back(row.entry);
    return all;
  }();
  return entries;
}

const FabricEntry* find_fabric(std::string_view kind) {
  for (const FabricEntry& entry : fabrics()) {
    if (entry.name == kind) return &entry;
  }
  return nullptr;
}

DrawFabric fabric_drawing(std::string_view kind) {
  for (const Row& row : rows()) {
    if (row.entry.name == kind) return row.draw;
  }
  return nullptr;
}

}  // namespace trainyard
