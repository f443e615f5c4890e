// Clusters that several tests build.
#pragma once

#include <string>

#include "sim/base/error.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

inline ClusterSpec nodes_of(const std::string& node, std::uint32_t nodes,
                            FabricSpec fabric = {.kind = "single_switch"}) {
  return {.node = load_node(node), .nodes = nodes, .fabric = std::move(fabric)};
}

inline Cluster h100s(std::uint32_t nodes) {
  return build_cluster(nodes_of("dgx_h100", nodes, {.kind = "rail_optimized"}));
}

// What an InputError says, all its problems in lines; "" when nothing is thrown.
template <class Action>
std::string complaint(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems()) text += to_text(problem) + "\n";
    return text;
  }
  return "";
}

}  // namespace trainyard
