// A cluster that a user describes device by device.
//
//    {"gpu": "h100", "gpu_memory": "80 GB", "collective_latency": {...},
//     "devices": [{"name": "g0", "kind": "gpu", "node": 0, "nic": "n0"},
//                 {"name": "n0", "kind": "nic", "node": 0},
//                 {"name": "tor", "kind": "leaf"}],
//     "links": [{"from": "g0", "to": "n0", "kind": "pcie", "capacity": "48 GB/s",
//                "latency": "0.45 us"}, ...]}
//
// A link has both directions unless it has "duplex": false. GPUs are numbered node by node in the
// order of the list. README.md documents every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Reads devices, links and facts; reports problems to the object's file.
[[nodiscard]] ClusterSpec read_custom(JsonObject object, const std::string& name);

// Throws InputError when the graph is not a cluster. REQUIRES: spec.custom.
[[nodiscard]] Cluster build_custom(const ClusterSpec& spec);

// Reads and builds in one step. Throws InputError with all problems of the file.
[[nodiscard]] Cluster custom_cluster(JsonFile& file);

// Writes any cluster in this form; reading it again gives the same devices, links and routes.
[[nodiscard]] nlohmann::ordered_json to_custom_json(const Cluster& cluster);

}  // namespace trainyard
