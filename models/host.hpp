// The CPU of a rank, which launches the operations of its program: the cost of each launch, and the
// points where the CPU waits for the GPU.
//
//    const HostCosts eager = load_host_costs("eager");
//    const Kernel kernel = Gemm{.m = 8192, .n = 1280, .k = 8192};
//    eager.seconds(kernel, StepPart::Forward);   // kernels of a GEMM x seconds of each
//    const std::vector<HostLane> lanes = host_lanes(workload, eager, {});
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
// Hosts are data (models/hosts/*.json): how a framework launches kernels on a CPU. Each figure has
// its source or the command that fitted it. An operation of a program represents several kernels
// where an older software stack launches additional copies and transposes; `kernels` gives their
// number.

// Number of kernels that the host launches for one operation of a kind.
struct HostKernels {
  double gemm = 1.0;
  double batched_gemm = 1.0;  // the GEMMs of unfused attention
  double attention = 1.0;
  double norm = 1.0;
  double other = 1.0;  // memory-bound kernels and copies, per launch

  bool operator==(const HostKernels&) const = default;
};

struct HostCosts {
  std::string name = "none";
  Seconds forward_kernel{0.0};   // also for the optimizer and everything else outside a backward
  Seconds backward_kernel{0.0};  // launched by automatic differentiation
  Seconds collective{0.0};       // one communication of any kind
  Seconds synchronize{0.0};      // from the end of the awaited operation until the host continues
  HostKernels kernels = {};
  // Between two steps: fetching and moving batches, learning rate, logging. The host launches
  // nothing during this time.
  Seconds step{0.0};
  // The host waits for every kernel before it launches the next (CUDA_LAUNCH_BLOCKING=1).
  bool blocking = false;

  [[nodiscard]] bool free() const {
    return forward_kernel.value() <= 0.0 && backward_kernel.value() <= 0.0 &&
           collective.value() <= 0.0 && synchronize.value() <= 0.0 && step.value() <= 0.0;
  }
  // Host time of one compute operation.
  [[nodiscard]] Seconds seconds(const Kernel& kernel, StepPart part) const;

  bool operator==(const HostCosts&) const = default;
};

// The names in models/hosts, and "none".
[[nodiscard]] std::vector<std::string> host_names();
// By name from models/hosts, or from a file. "none" launches everything in no time. Throws
// InputError.
[[nodiscard]] HostCosts load_host_costs(const std::string& name_or_path);

// ---- lanes (sim/engine/host_lane.hpp)
//
// The host starts `step` after the start of the step, launches the operations of a program in order
// and does not wait for the GPU, except in these cases:
//   - It reads the gradient norm before the optimizer (Megatron-LM's clip_grads.py calls .item() on
//     it; with fp16 it also reads there whether a gradient overflowed).
//   - With messages that do not overlap, it waits after each receive: Megatron-LM's batched
//     exchange synchronises the device (p2p_communication.py, batch_p2p_sync).
//   - It reads the number of routed tokens of each expert of its rank, to size the kernels that
//     follow (Megatron-LM's token dispatchers copy tokens_per_expert to the host).
//   - A `blocking` host waits after every kernel and every communication, except sends and receives
//     that are posted ahead.
// The loss and the data of a step are read after all of its operations have ended, so no operation
// of the previous step is pending when a step starts.

struct HostSyncRules {
  bool waits_for_receives = false;
  // The host launches a receive together with the exchange before it, even if it waits for
  // something in between.
  bool posts_receives_ahead = false;
};
// Without overlap, the host waits for a batched exchange of sends and receives in one direction of
// the pipeline. Interleaved stages have one exchange for both directions
// (send_forward_backward_recv_forward_backward of Megatron-LM's p2p_communication.py), in which
// they post what the next two steps receive. If the step that uses a receive posted it, every stage
// of the ring would first wait for its own send. The program contains the time at which the GPU
// posts it (StageMessages::begin_step).
[[nodiscard]] HostSyncRules host_habits(const Parallelism& parallelism);

// Lanes by program. Empty when launching costs nothing at all.
[[nodiscard]] std::vector<HostLane> host_lanes(const Workload& workload, const HostCosts& costs,
                                               const HostSyncRules& habits);

}  // namespace trainyard
