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
//   - after every kernel and every communication but sends and receives posted ahead, where the
//     host is `blocking`.
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
  // A receive is issued with the exchange before it, whatever the host waits for in between.
  bool posts_receives_ahead = false;
};
// Without overlap: a batched exchange of sends and receives in one direction of the pipeline is
// waited for. Interleaved stages have one for both directions (send_forward_backward_recv_forward_
// backward of Megatron-LM's p2p_communication.py), in which they post what the next two steps
// receive: were that left to the step that uses it, every stage of the ring would wait for its own
// send first. When it is posted on the GPU is in the program (StageMessages::begin_step).
[[nodiscard]] HostHabits host_habits(const Parallelism& parallelism);

// By program; empty when issuing costs nothing at all.
[[nodiscard]] std::vector<HostLane> host_lanes(const Workload& workload, const HostCosts& costs,
                                               const HostHabits& habits);

}  // namespace trainyard
