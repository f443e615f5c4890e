// A cluster as text: for people, for `nvidia-smi topo -m` eyes, for Graphviz and for SimGrid; and a
// workload for Graphviz.
//
//   std::cout << topology_table(cluster) << topology_matrix(cluster, 0);
//   write_file("cluster.dot", topology_dot(cluster));   // dot -Tsvg cluster.dot
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Devices and links by kind with counts, rates and latencies; the bisection; the latencies of
// collective steps.
[[nodiscard]] std::string topology_table(const Cluster& cluster);

// GPUs and NICs of one node, and how each pair is joined: NV#, PIX, PXB, PHB, NODE, SYS, with a
// legend. REQUIRES: node < cluster.facts().nodes.
[[nodiscard]] std::string topology_matrix(const Cluster& cluster, std::uint32_t node);

// An undirected Graphviz graph, one edge per cable set of parallel links. Above kDotNodesMost nodes
// each node is drawn as one box, and the title says so.
inline constexpr std::uint32_t kDotNodesMost = 64;
[[nodiscard]] std::string topology_dot(const Cluster& cluster);

// A platform file of SimGrid: GPUs as hosts of `speed`, each direction of a wire as a link with its
// usable rate, the route of every pair. Where messages are dealt to several paths in equal shares,
// those links are one of their rate together: two NICs of 50 GB/s into 4 spines each see one of
// 200 GB/s. Throws InputError above kSimgridGpusMost GPUs, as routes grow with their square.
inline constexpr std::size_t kSimgridGpusMost = 512;
[[nodiscard]] std::string to_simgrid_xml(const Cluster& cluster, FlopsPerSecond speed);

struct DotOptions {
  std::optional<std::uint32_t> program;  // nothing: all of them
  // Programs are cut so that so many operations are drawn at most; a note says what is left out.
  std::size_t most_operations = 600;
};

// A workload as a Graphviz drawing. Operations are boxes, coloured by the part of the step. Solid
// arrows are stream order, dashed ones dependencies, dotted lines rendezvous of programs in a group
// (an arrow from send to receive).
//
//   std::cout << to_dot(workload, {.program = 0});
//
// REQUIRES: the workload is valid; the program exists.
[[nodiscard]] std::string to_dot(const Workload& workload, const DotOptions& options);

}  // namespace trainyard
