// Reads the "cluster" object of a scenario strictly.
//
//    {"node": "dgx_h100", "nodes": 16, "fabric": {"kind": "rail_optimized"}}
//    {"file": "my_cluster.json"}                either of the other forms in a file
//    {"devices": [...], "links": [...], ...}    the same inline
//    each with "faults": [{"rail": 2, "dead": true}] where something is broken
//
//    ClusterSpec spec = read_cluster(root.object("cluster"));  // collects problems in the file
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

inline constexpr std::int64_t kNodesMost = 1U << 20U;  // limit for a cluster that a file describes

// Reports problems through the object and returns what it could read. It looks for named files in
// `folder` (the folder of the scenario) first, then in the working folder. check_cluster_builds
// checks whether the fabric can hold the nodes.
[[nodiscard]] ClusterSpec read_cluster(JsonObject cluster,
                                       const std::filesystem::path& folder = {});

// Returns the fields of a node's file, including its name. The file is given by its name in
// topologies/data or by a path. Throws InputError.
[[nodiscard]] nlohmann::ordered_json node_fields(const std::string& name_or_path);

// Builds the cluster and reports, through the file at `pointer` and below it, what prevents that:
// too few ports, GPUs that cannot reach each other. shared_cluster returns the built cluster
// afterwards.
void check_cluster_builds(JsonFile& file, std::string_view pointer, const ClusterSpec& spec);

// Returns the cluster object with every default written out; reading it again gives an equal spec.
// A node from topologies/data is written by its name, any other node inline.
[[nodiscard]] nlohmann::ordered_json to_json(const ClusterSpec& spec);

}  // namespace trainyard
