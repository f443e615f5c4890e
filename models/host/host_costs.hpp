// What the software and the CPU of a rank need to issue one operation (design D6).
//
// Hosts are data (models/hosts/*.json): the way a framework issues kernels, on some CPU, each
// figure with its source or the command that fitted it. An operation of a program stands for
// several kernels where an older stack launches copies and transposes beside it; `kernels` says
// how many.
//
//   const HostCosts eager = load_host_costs("eager");
//   eager.seconds(Gemm{...}, StepPart::Forward);   // kernels of a product x seconds of each
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

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
  // Of one compute operation.
  [[nodiscard]] Seconds seconds(const Kernel& kernel, StepPart part) const;

  bool operator==(const HostCosts&) const = default;
};

// The names in models/hosts, and "none".
[[nodiscard]] std::vector<std::string> host_names();
// By name from models/hosts, or from a file; "none" issues everything in no time. Throws
// InputError.
[[nodiscard]] HostCosts load_host_costs(const std::string& name_or_path);

}  // namespace trainyard
