// How much computation slows while each kind of communication runs: the SMs it holds, of all.
#pragma once

#include <vector>

#include "kernels/gpu.hpp"
#include "sim/graph/cluster.hpp"
#include "sim/graph/fold.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

// By group class, for EngineInput::compute_loss. A collective within a node holds one SM for each
// of its channels, across nodes fewer; a message across nodes holds a few, and one within a node as
// many as a collective there. A100: 24 of 108 SMs within a node, 0.222.
[[nodiscard]] std::vector<double> compute_losses(const Cluster& cluster, const Workload& workload,
                                                 const Partition& partition, const GpuSheet& gpu);

}  // namespace trainyard
