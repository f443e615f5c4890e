// A simulation with changed hardware or software: for example a network twice as fast, no latency,
// or free data-parallel communication.
//
//    simulate(scenario, {.what_if = {.network = 2.0}});
#pragma once

#include <memory>
#include <vector>

#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

struct WhatIf {
  double nvlink = 1.0;   // factor on the capacity of links within nodes except PCIe
  double network = 1.0;  // factor on the capacity of NICs, fabric, and PCIe between GPU and NIC
  double latency = 1.0;  // factor on the latency of communication
  // Factors on the time of kernels, by kind: 0.5 is twice as fast.
  double gemm = 1.0;  // grouped GEMMs too
  double attention = 1.0;
  double memory_bound = 1.0;         // and copies within the GPU
  std::vector<GroupKind> free = {};  // groups whose communication takes no time
  bool interference = true;          // false: communication never slows computation
  bool contention = true;            // false: every transfer has its links to itself

  [[nodiscard]] bool changes_links() const { return nvlink != 1.0 || network != 1.0; }
  [[nodiscard]] bool changes_communication() const { return latency != 1.0 || !free.empty(); }
};

// Returns the cluster with changed capacities of links. It shares the wiring with the original.
[[nodiscard]] std::shared_ptr<const Cluster> build_cluster(const ClusterSpec& spec,
                                                           const WhatIf& what_if, Memo& memo);

// Returns the partition with changed latencies, and without the flows of free communication.
[[nodiscard]] std::shared_ptr<const Partition> changed_partition(
    const WhatIf& what_if, const Workload& workload, std::shared_ptr<const Partition> original);

// Returns the cost of a kernel with its time changed.
[[nodiscard]] Cost changed_cost(const WhatIf& what_if, const Kernel& kernel, Cost cost);

}  // namespace trainyard
