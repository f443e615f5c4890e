// Broken parts of a cluster, read from "faults" and applied to a drawn cluster before it is built.
//
//    "faults": [{"link": {"from": "node 3 nic 2", "to": "leaf 2"}, "capacity_factor": 0.5},
//               {"rail": 2, "dead": true}, {"device": "leaf 1", "dead": true},
//               {"device": "node 0 gpu 3", "speed_factor": 0.8, "from": "1.5 s"},
//               {"device": "node 1 nic 0", "dead": true, "from": "2 s", "until": "2.5 s"}]
//
//    Cluster hurt = build_with_faults(spec.faults, facts, std::move(wiring), gpus, nic_of_gpu);
//
// A dead link is removed. A slow link keeps its position and its share of the traffic (nothing
// routes around it). A GPU whose NIC is dead or cut off uses another NIC of its node: the nearest
// on the host side; among equally near ones the one that serves the fewest GPUs, then the first.
// NCCL would search its channels again and choose the same NICs, or forward over NVLink.
//
// A fault with dates leaves the cluster as it is: it is one of its timed faults
// (sim/cluster/timed_faults.hpp), and NCCL keeps the channels that it chose before. A GPU with a
// speed_factor is slow from the first date on. A dead link that comes back (a flap) moves nothing
// until the transport sends again: the time that it is dead, rounded up to whole retransmission
// timeouts (sim/nccl/data/retransmission.json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Returns the cluster that remains. Throws InputError, at /faults/..., for a fault that names
// something that does not exist, for a dead GPU, and for a GPU without a NIC. `nic_of_gpu` is empty
// for a cluster of one node.
[[nodiscard]] Cluster build_with_faults(std::span<const Fault> faults, ClusterFacts facts,
                                        Wiring wiring, std::vector<DeviceId> gpus,
                                        std::vector<DeviceId> nic_of_gpu);

// Reads the list under "faults" of a cluster object; an absent list is empty. Problems are
// reported.
[[nodiscard]] std::vector<Fault> read_faults(JsonObject& cluster);
[[nodiscard]] nlohmann::ordered_json to_json(std::span<const Fault> faults);

}  // namespace trainyard
