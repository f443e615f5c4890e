// Views of a cluster as text: a table, a matrix as `nvidia-smi topo -m` prints it, and files for
// Graphviz and SimGrid; and a view of a workload for Graphviz.
//
//    std::cout << topology_table(cluster) << topology_matrix(cluster, 0);
//    write_file("cluster.dot", topology_dot(cluster));   // dot -Tsvg cluster.dot
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Returns devices and links by kind with counts, rates and latencies; the bisection bandwidth; and
// the latencies of collective steps.
[[nodiscard]] std::string topology_table(const Cluster& cluster);

// Returns the GPUs and NICs of one node and the kind of connection of each pair: NV#, PIX, PXB,
// PHB, NODE, SYS, with a legend. REQUIRES: node < cluster.facts().nodes.
[[nodiscard]] std::string topology_matrix(const Cluster& cluster, std::uint32_t node);

// Returns an undirected Graphviz graph with one edge per set of parallel links. Above kDotNodesMost
// nodes each node is one box, and the title states this.
inline constexpr std::uint32_t kDotNodesMost = 64;
[[nodiscard]] std::string topology_dot(const Cluster& cluster);

// Returns a platform file of SimGrid: GPUs as hosts of `speed`, each direction of a wire as a link
// with its usable rate, and the route of every pair. Links over which a message is spread in equal
// shares become one link of their total rate: two NICs of 50 GB/s under 4 spines each see one link
// of 200 GB/s. Throws InputError above kSimgridGpusMost GPUs, as the number of routes grows with
// the square of the number of GPUs.
inline constexpr std::size_t kSimgridGpusMost = 512;
[[nodiscard]] std::string to_simgrid_xml(const Cluster& cluster, FlopsPerSecond speed);

struct DotOptions {
  std::optional<std::uint32_t> program;  // nothing: all programs
  // The drawing shows at most this many operations of all programs; a note counts those left out.
  std::size_t most_operations = 600;
};

// Returns a workload as a Graphviz drawing. Operations are boxes, coloured by the part of the step.
// Solid arrows are stream order, dashed arrows are dependencies, and dotted lines are the
// rendezvous of programs in a group (an arrow from send to receive).
//
//    std::cout << to_dot(workload, {.program = 0});
//
// REQUIRES: the workload is valid; the program exists.
[[nodiscard]] std::string to_dot(const Workload& workload, const DotOptions& options);

}  // namespace trainyard
