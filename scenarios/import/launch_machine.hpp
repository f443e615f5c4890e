// How many nodes a launch runs on, and how many GPUs of each.
//
//   const NodeSpec node = load_node("dgx_h100");
//   const LaunchedNodes nodes = launched_nodes(node, {.hosts = 2, .per_host = 4}, "run.sh");
//   nodes.world();     // 8
//   part_of(node, 4);  // a DGX H100 with four of its GPUs (topologies/node.hpp)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "topologies/topology.hpp"

namespace trainyard {

// The numbers that a launch states; each may be missing.
struct LaunchedSizes {
  std::optional<std::int64_t> chosen = {};    // nodes of the simulated kind, as the user says
  std::optional<std::int64_t> hosts = {};     // --nnodes
  std::optional<std::int64_t> per_host = {};  // --nproc-per-node
  std::optional<std::int64_t> world = {};     // of a log
};

struct LaunchedNodes {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;  // of each node
  [[nodiscard]] std::int64_t world() const { return nodes * gpus; }
};

// A node of the simulator may hold several hosts of the launch (18 in an NVL72 rack). Throws
// InputError, with `file` as its place, for a world that such nodes cannot hold in equal parts, and
// where nothing says how large the world is.
[[nodiscard]] LaunchedNodes launched_nodes(const NodeSpec& node, const LaunchedSizes& sizes,
                                           const std::string& file);

}  // namespace trainyard
