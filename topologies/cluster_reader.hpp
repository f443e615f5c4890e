// The "cluster" object of a scenario, strictly read.
//
//   {"node": "dgx_h100", "nodes": 16, "fabric": {"kind": "rail_optimized"}}
//   {"file": "my_cluster.json"}                a custom cluster in a file
//   {"devices": [...], "links": [...], ...}    the same inline
//   each with "faults": [{"rail": 2, "dead": true}] where something is broken
//   ClusterSpec spec = read_cluster(root.object("cluster"));  // problems are collected in the file
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

inline constexpr std::int64_t kNodesMost = 1U << 20U;  // of a cluster that a file describes

// Reports what is wrong through the object and returns what could be read. Files named in it are
// looked for in `folder` (that of the scenario) first, then in the working folder. Whether the
// fabric holds the nodes is checked by check_cluster_builds.
[[nodiscard]] ClusterSpec read_cluster(JsonObject cluster,
                                       const std::filesystem::path& folder = {});

// The fields of a node's file, by name from topologies/data or a path, with its name among them.
// Throws InputError.
[[nodiscard]] nlohmann::ordered_json node_fields(const std::string& name_or_path);

// Reports through the file, at `pointer` and below it, what keeps the spec from being a cluster:
// ports that do not suffice, GPUs that cannot reach each other. What was built stays for
// shared_cluster to give.
void check_cluster_builds(JsonFile& file, std::string_view pointer, const ClusterSpec& spec);

// The cluster object with every default written out; reading it again gives an equal spec. A node
// that came from topologies/data is written by its name, any other inline.
[[nodiscard]] nlohmann::ordered_json to_json(const ClusterSpec& spec);

}  // namespace trainyard
