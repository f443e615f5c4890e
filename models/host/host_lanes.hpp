// From a lowered step to the lanes of the CPUs that issue it (sim/engine/host_lane.hpp).
//
// The host begins `step` after the step does, issues a program's operations in order and never
// waits for the GPU, except
//   - where it reads the gradient norm, before the optimizer (Megatron-LM's clip_grads.py calls
//     .item() on it; fp16 reads there whether a gradient overflowed), and
//   - with messages that do not overlap, after each receive: Megatron-LM's batched exchange
//     synchronises the device (p2p_communication.py, batch_p2p_sync).
//   - where it reads how many rows of each expert come to its rank, to size what follows
//     (Megatron-LM's token dispatchers copy tokens_per_expert to the host), and
//   - after every kernel and every communication but a send, where the host is `blocking`.
// Loss and data of a step are read when everything of it has ended, so every step begins anew.
//
//   const std::vector<HostLane> lanes = host_lanes(workload, load_host_costs("eager"), {});
#pragma once

#include <vector>

#include "models/host/host_costs.hpp"
#include "models/plan.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct HostHabits {
  bool waits_for_receives = false;
};
// A batched exchange of sends and receives in one direction of the pipeline; interleaved stages
// post ahead and do not wait.
[[nodiscard]] HostHabits host_habits(const Parallelism& parallelism);

// By program; empty when issuing costs nothing at all.
[[nodiscard]] std::vector<HostLane> host_lanes(const Workload& workload, const HostCosts& costs,
                                               const HostHabits& habits);

}  // namespace trainyard
