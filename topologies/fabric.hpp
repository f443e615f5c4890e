// What a fabric is to build_cluster: a function that adds switches and cables over the NICs of a
// draft. A new fabric is one such function in a file of its own and one row in registry.cpp.
#pragma once

#include "topologies/draft.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// REQUIRES: draft.nics holds spec.nodes * spec.node.nics NICs, node by node. Throws InputError,
// with a pointer relative to the cluster object, when the fabric cannot hold them.
using DrawFabric = void (*)(const ClusterSpec& spec, Draft& draft);

void draw_single_switch(const ClusterSpec& spec, Draft& draft);
void draw_rail_optimized(const ClusterSpec& spec, Draft& draft);
void draw_fat_tree(const ClusterSpec& spec, Draft& draft);
void draw_fat_tree3(const ClusterSpec& spec, Draft& draft);
void draw_multi_plane(const ClusterSpec& spec, Draft& draft);
void draw_dual_tor(const ClusterSpec& spec, Draft& draft);
void draw_torus(const ClusterSpec& spec, Draft& draft);
// Nodes along each dimension of a torus: those of the spec, or balanced ones. Throws InputError
// where they do not hold the nodes.
[[nodiscard]] std::vector<std::uint32_t> torus_dims(const ClusterSpec& spec);
void draw_dragonfly(const ClusterSpec& spec, Draft& draft);

}  // namespace trainyard
