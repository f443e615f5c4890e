// The cluster of a launch: the nodes and GPUs that its sizes state, on a node type that the user
// names.
//
//    LaunchedCluster launched =
//        launched_cluster({.node = "dgx_h100"}, {.hosts = 2, .per_host = 4}, "run.sh");
//    launched.world;     // 8
//    launched.section;   // two nodes of half a DGX H100 each
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

// The sizes that a launch states; each may be missing.
struct LaunchedSizes {
  std::optional<std::int64_t> hosts = {};     // servers (--nnodes)
  std::optional<std::int64_t> per_host = {};  // processes of a server (--nproc-per-node)
  std::optional<std::int64_t> world = {};     // processes of the run
};

// The machine and the model as the user names them; a launch does not specify them.
struct LaunchMachine {
  std::string node = {};                      // name in topologies/data
  std::optional<std::int64_t> nodes = {};     // else the launch's number
  std::optional<std::int64_t> vocab = {};     // else the vocabulary that the launch states
  std::optional<std::int64_t> gpus = {};      // of the whole run, else those of the launch
  std::optional<std::int64_t> sequence = {};  // tokens, else those that the launch states
  std::string model = {};                     // name in models/data, or the path of a config.json
  LaunchedSizes job = {};  // of the script around the launch (job_shape.hpp), where it does not say
};

struct LaunchedCluster {
  nlohmann::ordered_json section;         // the "cluster" of a scenario
  std::int64_t world = 1;                 // number of GPUs
  std::vector<std::string> assumed = {};  // a sentence each
};

// A node of the simulator may hold several hosts of the launch (18 in an NVL72 rack). Throws
// InputError for `file` where the nodes cannot hold the world in equal parts, where sizes
// contradict each other, and where nothing determines the size of the world.
[[nodiscard]] LaunchedCluster launched_cluster(const LaunchMachine& machine,
                                               const LaunchedSizes& sizes, const std::string& file);

// Returns the node types in topologies/data with the GPU that a job names; "h100" also matches the
// name of a partition or a constraint such as "H100-SXM". Empty where none does.
[[nodiscard]] std::vector<std::string> nodes_with_gpu_named(const std::string& gpu);

}  // namespace trainyard
