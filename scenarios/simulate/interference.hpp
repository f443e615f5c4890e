// How much computation slows while a communication runs: the SMs it holds, of all. And how much
// communication slows beside computation.
//
//   const auto losses = compute_losses(cluster, workload, partition, selected,
//                                    load_gpu_sheet("h100"));
//   losses[group_class][call];     // NVLS on 16 of 132 SMs: 0.121
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gpu.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/stages.hpp"

namespace trainyard {

// By group class and call, for EngineInput::compute_loss: the share of the SMs that the call holds,
// times the profile's `compute_loss`. A collective holds one SM for each of the
// channels that NCCL chose for it (an all_reduce of 1 KiB on A100: 1 of 108 SMs, 0.0093; of 1 GiB:
// 24, 0.222). Where the algorithm has no channels, as algorithms that the user named, and for
// messages and all_to_all, the sheet's count holds: what a collective takes within a node or across
// nodes, and what a message takes across nodes. Exchanges of experts that keep SMs of their own
// (`dispatch_sms` > 0) take no others.
[[nodiscard]] std::vector<std::vector<double>> compute_losses(
    const Cluster& cluster, const Workload& workload, const Partition& partition,
    const SelectedAlgorithms& selected_algorithms, const GpuSheet& gpu,
    std::int64_t dispatch_sms = 0);

// Does a step exchange rows between experts?
[[nodiscard]] bool dispatches_tokens(const Workload& workload);

struct Interference {
  std::vector<std::vector<double>> compute;  // EngineInput::compute_loss
  std::vector<double> communication;         // EngineInput::communication_loss
};
// On the cluster's usual GPU.
[[nodiscard]] Interference find_interference(const Cluster& cluster, const Lowered& lowered,
                                             const Folded& folded, KernelPricings& pricings);

// By group class, for EngineInput::communication_loss: what the GPU's profile says, for every kind.
[[nodiscard]] std::vector<double> communication_losses(const Partition& partition,
                                                       const GpuSheet& gpu);

}  // namespace trainyard
