// Clusters that several tests build.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "sim/base/error.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

inline ClusterSpec nodes_of(const std::string& node, std::uint32_t nodes,
                            FabricSpec fabric = {.kind = SingleSwitch{}}) {
  return {.node = load_node(node), .nodes = nodes, .fabric = std::move(fabric)};
}

inline Cluster h100s(std::uint32_t nodes) {
  return build_cluster(nodes_of("dgx_h100", nodes, {.kind = RailOptimized{}}));
}

// The fabric of that name; its switches have the given number of ports and taper where it has them.
inline FabricKind fabric_named(std::string_view name, std::uint32_t radix = kUsualRadix,
                               double oversubscription = 1.0) {
  FabricKind fabric = find_fabric(name)->defaults;
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.radix; }) kind.radix = radix;
        if constexpr (requires { kind.oversubscription; }) kind.oversubscription = oversubscription;
      },
      fabric);
  return fabric;
}

// The message of an InputError, with all its problems in lines; "" when nothing is thrown.
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
