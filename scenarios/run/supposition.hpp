// A run of hardware or software that there is not: what if the network were twice as fast, if
// latency were nothing, if data-parallel communication were free?
//
//   run_scenario(scenario, {.suppose = {.network = 2.0}});
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Supposition {
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
};

// The cluster with its links' capacities changed; everything else is as it was.
[[nodiscard]] Cluster supposed_cluster(const Supposition& suppose, const Cluster& cluster);

// Latencies and the payload of free communication in a folded run.
void suppose_communication(const Supposition& suppose, const Workload& workload,
                           Partition& partition);

// The cost of a kernel under the supposition.
[[nodiscard]] Cost supposed_cost(const Supposition& suppose, const Kernel& kernel, Cost cost);

}  // namespace trainyard
