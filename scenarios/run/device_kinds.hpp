// Steps on GPUs of several kinds: every program and kernel made one kind's own.
//
//   std::vector<std::string> gpu_of_kernel = specialise(workload, cluster);
//   load_cost_model(gpu_of_kernel[7])->cost(workload.kernels[7]);
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Ranks of one program that stand on GPUs of different kinds get programs of their own, whose
// kernels are copies; what is returned says of every kernel on which GPU it runs. A cluster of one
// kind leaves the workload as it is.
[[nodiscard]] std::vector<std::string> specialise(Workload& workload, const Cluster& cluster);

}  // namespace trainyard
