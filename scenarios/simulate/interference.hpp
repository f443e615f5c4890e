// The slowdown of computation during communication, which is the share of SMs that the
// communication holds, and the slowdown of communication during computation.
//
//    const auto losses = compute_losses(cluster, workload, partition, selected,
//                                       load_gpu_sheet("h100"));
//    losses[group_class][call];     // NVLS on 16 of 132 SMs: 0.121
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gpu.hpp"
#include "scenarios/simulate/folded.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"

namespace trainyard {

// Returns EngineInput::compute_loss by group class and call: the share of SMs that the call holds,
// times the profile's `compute_loss`. A collective holds one SM for each channel that NCCL chose
// for it (an all_reduce of 1 KiB on A100: 1 of 108 SMs, 0.0093; of 1 GiB: 24, 0.222). Algorithms
// without channels, such as those that the user names, messages and all_to_all hold the number of
// SMs in the GPU's data sheet: one number for collectives within a node, one for collectives across
// nodes, and one for messages across nodes. The kernels of DeepEP and HybridEP have their own loss
// (node_limited.hpp). Dispatch and combine of experts with reserved SMs
// (`dispatch_sms` > 0) hold no others.
[[nodiscard]] std::vector<std::vector<double>> compute_losses(
    const Cluster& cluster, const Workload& workload, const Partition& partition,
    const SelectedAlgorithms& selected_algorithms, const GpuSheet& gpu,
    std::int64_t dispatch_sms = 0);

// Returns whether the step has dispatch or combine calls of experts.
[[nodiscard]] bool dispatches_tokens(const Workload& workload);

struct Interference {
  std::vector<std::vector<double>> compute;  // EngineInput::compute_loss
  std::vector<double> communication;         // EngineInput::communication_loss
};
// Uses the data sheet of the cluster's usual GPU.
[[nodiscard]] Interference find_interference(const Cluster& cluster, const Lowered& lowered,
                                             const Folded& folded, KernelPricings& pricings);

// Returns EngineInput::communication_loss by group class: the loss in the GPU's profile, for every
// kind of group. Empty where the profile has none.
[[nodiscard]] std::vector<double> communication_losses(const Partition& partition,
                                                       const GpuSheet& gpu);

}  // namespace trainyard
