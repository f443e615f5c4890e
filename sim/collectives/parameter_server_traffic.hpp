// Training with parameter servers as a traffic pattern: workers and servers that meet two by two,
// each ending at its own time.
//
// In every step a worker pulls its parameters from all servers (a k-th from each), computes, and
// pushes its gradients back. A server serves each worker by itself. It answers the pull of step s
// once all workers have pushed their step s - 1 - staleness: 0 is the synchronous form (nobody runs
// ahead), nothing at all the asynchronous one. A server updates its parameters once a step in the
// synchronous form, with the sum of all gradients, and with every single push in the others. Source
// of the bound and of updates by push: Q. Ho et al., "More Effective Distributed ML via a Stale
// Synchronous Parallel Parameter Server", NIPS 2013.
//
//   T = steps * (2 (alpha + W S/(k B)) + compute)      synchronous, dedicated servers, W workers
//   sum over workers of steps / T = sum of 1 / (pull + compute + push)       asynchronous
//                                 <= k B/S, 1 / update                       what servers can take
//
// 16 workers, 4 servers, S = 4 GB, B = 25 GB/s: pull 0.640 s and push 0.640 s, as each server moves
// 16 times 1 GB (tests/sim/collectives/parameter_server_test.cpp).
//
//   Workload w = parameter_server_traffic({.workers = {0, 1}, .servers = {2}, .bytes = 1 << 30});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

struct ParameterServerTraffic {
  std::vector<std::uint32_t> workers = {};  // GPUs, each once
  std::vector<std::uint32_t> servers = {};  // GPUs, each once; one of a worker is shared with it
  std::int64_t bytes = 0;                   // all gradients together, and all parameters
  DataType dtype = DataType::Fp32;
  std::uint32_t steps = 1;
  // By worker, where some make more than others; empty: `steps` each. A worker that has made its
  // steps holds nobody up.
  std::vector<std::uint32_t> steps_of_worker = {};
  std::vector<Seconds> compute = {};             // per step, by worker; empty: none
  std::optional<std::uint32_t> staleness = {0};  // steps a worker may be ahead of the slowest
};

// One rank per GPU, workers first, then servers on GPUs of their own. Operations are called "pull",
// "compute" and "push" in workers, with the step as microbatch, and "serve pull", "serve push" and
// "update" in servers. What a shared GPU would send itself is not sent. Throws InputError
// without workers or servers, for more partners than a rank can serve side by side, for a GPU
// listed twice, for as many compute times or counts of steps as there are neither workers nor none,
// and for different counts where nobody runs ahead.
[[nodiscard]] Workload parameter_server_traffic(const ParameterServerTraffic& traffic);

}  // namespace trainyard
