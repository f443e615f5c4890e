#include "topologies/registry.hpp"

#include <array>

namespace trainyard {

namespace {

struct Row {
  FabricEntry entry;
  DrawFabric draw;
};

const std::array<Row, 4>& rows() {
  static const std::array<Row, 4> table = {{
      {{"single_switch",
        "one ideal switch with a port for every NIC: the bound of all fabrics",
        {}},
       &draw_single_switch},
      {{"rail_optimized",
        "leaf-spine in units where leaf q takes NIC q of every node; a third tier where two are "
        "too small",
        {"radix", "oversubscription", "core_oversubscription", "nodes_per_unit", "hop_latency"}},
       &draw_rail_optimized},
      {{"fat_tree",
        "two levels, all NICs of a node on one leaf, every leaf to every spine",
        {"radix", "oversubscription", "hop_latency"}},
       &draw_fat_tree},
      {{"fat_tree3",
        "three levels: pods of leaves and spines, joined by cores",
        {"radix", "oversubscription", "core_oversubscription", "hop_latency"}},
       &draw_fat_tree3},
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
