// Steps on GPUs of several kinds: every program and kernel made one kind's own.
//
//   const Specialised special = specialise(workload, cluster);
//   load_cost_model(special.gpu_of_kernel[7])->cost(special.workload.kernels[7]);
#pragma once

#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Specialised {
  Workload workload = {};
  std::vector<std::string> gpu_of_kernel = {};  // the profile of the GPU on which each of them runs
};

// Ranks of one program that stand on GPUs of different kinds get programs of their own, whose
// kernels are copies. A cluster of one kind leaves the workload as it is.
[[nodiscard]] Specialised specialise(Workload workload, const Cluster& cluster);

}  // namespace trainyard
