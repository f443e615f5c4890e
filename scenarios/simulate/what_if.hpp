// A run of hardware or software that there is not: what if the network were twice as fast, if
// latency were nothing, if data-parallel communication were free?
//
//   simulate(scenario, {.what_if = {.network = 2.0}});
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct WhatIf {
  double nvlink = 1.0;   // capacity of the links within nodes but PCIe, times this
  double network = 1.0;  // capacity of NICs, fabric and the PCIe between GPU and NIC, times this
  double latency = 1.0;  // latency of communication, times this
  // Time of kernels by kind, times this: 0.5 is twice as fast.
  double gemm = 1.0;  // grouped ones too
  double attention = 1.0;
  double memory_bound = 1.0;         // and copies within the GPU
  std::vector<GroupKind> free = {};  // their communication takes no time
  bool interference = true;          // false: communication never slows computation
  bool contention = true;            // false: every transfer has its links for itself

  [[nodiscard]] bool changes_links() const { return nvlink != 1.0 || network != 1.0; }
  [[nodiscard]] bool changes_communication() const { return latency != 1.0 || !free.empty(); }
};

// The cluster with its links' capacities changed; everything else is as it was.
[[nodiscard]] Cluster changed_cluster(const WhatIf& what_if, const Cluster& cluster);

// The partition with latencies and the payload of free communication changed.
[[nodiscard]] Partition changed_partition(const WhatIf& what_if, const Workload& workload,
                                          Partition partition);

// The cost of a kernel with its time changed.
[[nodiscard]] Cost changed_cost(const WhatIf& what_if, const Kernel& kernel, Cost cost);

}  // namespace trainyard
