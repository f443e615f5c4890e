// A cluster as text: for people, for `nvidia-smi topo -m` eyes, and for Graphviz.
//
//   std::cout << topology_table(cluster) << topology_matrix(cluster, 0);
//   write_file("cluster.dot", topology_dot(cluster));   // dot -Tsvg cluster.dot
#pragma once

#include <string>

#include "sim/cluster/cluster.hpp"

namespace trainyard {

// Devices and links by kind with counts, rates and latencies; the bisection; the latencies of
// collective steps.
[[nodiscard]] std::string topology_table(const Cluster& cluster);

// GPUs and NICs of one node, and how each pair is joined: NV#, PIX, PXB, PHB, NODE, SYS, with a
// legend. REQUIRES: node < cluster.facts().nodes.
[[nodiscard]] std::string topology_matrix(const Cluster& cluster, std::uint32_t node);

// An undirected Graphviz graph, one edge per cable bundle. Above kDotNodesMost nodes each node is
// drawn as one box, and the title says so.
inline constexpr std::uint32_t kDotNodesMost = 64;
[[nodiscard]] std::string topology_dot(const Cluster& cluster);

// A platform file of SimGrid: GPUs as hosts of `speed`, each direction of a wire as a link with its
// usable rate, the route of every pair. Where messages are dealt to several paths in equal shares,
// those links are one of their rate together: two NICs of 50 GB/s into 4 spines each see one of
// 200 GB/s. Throws InputError above kSimgridGpusMost GPUs, as routes grow with their square.
inline constexpr std::size_t kSimgridGpusMost = 512;
[[nodiscard]] std::string to_simgrid_xml(const Cluster& cluster, FlopsPerSecond speed);

}  // namespace trainyard
