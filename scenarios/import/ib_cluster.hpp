// Makes the "cluster" of a scenario from an InfiniBand fabric: hosts of one node type, joined by
// one of Trainyard's fabrics where its switches and cables equal one, else switch by switch.
//
//    IbCluster made = cluster_of_ib_fabric(read_ib_fabric(text, file), {.node = "dgx_h100"});
//    made.cluster;   // {"node": "dgx_h100", "nodes": 64, "fabric": {"kind": "fat_tree", ...}}
//
// A host is all HCAs whose names share their first words ("dgx01 mlx5_0", "dgx01 mlx5_1"); an HCA
// is a NIC. Only hosts with as many HCAs as the node type has NICs become nodes; the others, such
// as those of storage and management, are left out and listed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/ib_fabric.hpp"

namespace trainyard {

struct IbChoice {
  std::string node = {};                   // name in topologies/data
  std::string hosts = {};                  // only hosts whose name matches: "dgx*"; empty: all
  std::optional<BytesPerSecond> nic = {};  // rate of cables whose speed the file does not tell
};

struct IbCluster {
  nlohmann::ordered_json cluster;    // as in a scenario
  std::string fabric;                // the kind; empty: described switch by switch
  std::vector<std::string> found;    // what the fabric looks like, one sentence each
  std::vector<std::string> assumed;  // what the file does not contain, one sentence each
};

// Throws InputError for a fabric without such hosts, for hosts that cannot reach each other, and
// for an unknown node type.
[[nodiscard]] IbCluster cluster_of_ib_fabric(const IbFabric& fabric, const IbChoice& choice);

}  // namespace trainyard
