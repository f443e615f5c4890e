// Every kernel of a scenario with the time that a run gives it, and the factors that make it.
//
//   for (const KernelRow& row : kernel_table(scenario, *shared_cluster(scenario.cluster)))
//     fmt::print("{} {}\n", to_text(row.kernel), to_text(row.price.cost().time));
#pragma once

#include <string>
#include <vector>

#include "scenarios/simulate/kernel_pricing.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

struct KernelRow {
  Kernel kernel;
  std::string gpu;  // the profile of the GPU that it runs on
  KernelPrice price;
};

// The kernels that some rank computes, in the workload's order; where GPUs differ, once for each
// kind. Throws InputError.
[[nodiscard]] std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
