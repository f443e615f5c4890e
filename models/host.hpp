// The CPU of a rank, which issues the operations of its program: what each operation costs it, and
// where it waits for the GPU (design D6).
//
//   const HostCosts eager = load_host_costs("eager");
//   eager.seconds(Gemm{...}, StepPart::Forward);   // kernels of a product x seconds of each
//   const std::vector<HostLane> lanes = host_lanes(workload, eager, {});
#pragma once

#include <string>
#include <vector>

#include "models/plan.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// ---- costs
//
// Hosts are data (models/hosts/*.json): the way a framework issues kernels, on some CPU, each
// figure with its source or the command that fitted it. An operation of a program stands for
// several kernels where an older stack launches copies and transposes beside it; `kernels` says how
// many.

// Kernels that the host issues for one operation of a kind.
struct HostKernels {
  double gemm = 1.0;
  double batched_gemm = 1.0;  // the products of unfused attention
  double attention = 1.0;
  double norm = 1.0;
  double other = 1.0;  // memory-bound kernels and copies, for each launch

  bool operator==(const HostKernels&) const = default;
};

struct HostCosts {
  std::string name = "none";
  Seconds forward_kernel{0.0};   // also optimizer and everything else outside a backward
  Seconds backward_kernel{0.0};  // issued by the automatic differentiation
  Seconds collective{0.0};       // one communication of any kind
  Seconds synchronize{0.0};      // until the host goes on after what it waited for has ended
  HostKernels kernels = {};
  // Between two steps: batches fetched and moved, learning rate, logging. Nothing is issued in it.
  Seconds step{0.0};
  // Every kernel is waited for before the next is issued (CUDA_LAUNCH_BLOCKING=1).
  bool blocking = false;

  [[nodiscard]] bool free() const {
    return forward_kernel.value() <= 0.0 && backward_kernel.value() <= 0.0 &&
           collective.value() <= 0.0 && synchronize.value() <= 0.0 && step.value() <= 0.0;
  }
  // The host's time for one compute operation.
  [[nodiscard]] Seconds seconds(const Kernel& kernel, StepPart part) const;

  bool operator==(const HostCosts&) const = default;
};

// The names in models/hosts, and "none".
[[nodiscard]] std::vector<std::string> host_names();
// By name from models/hosts, or from a file; "none" issues everything in no time. Throws
// InputError.
[[nodiscard]] HostCosts load_host_costs(const std::string& name_or_path);

// ---- lanes (sim/engine/host_lane.hpp)
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
