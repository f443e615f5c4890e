// Training with parameter servers as a traffic pattern: workers and servers communicate in pairs,
// and each transfer ends at its own time.
//
// In every step a worker pulls its parameters from all servers (1/k from each of k servers),
// computes, and pushes its gradients back. A server serves each worker separately. It answers the
// pull of step s once all workers have pushed their step s - 1 - staleness. A staleness of 0 is the
// synchronous form (no worker runs ahead); no value is the asynchronous form. In the synchronous
// form a server updates its parameters once per step, with the sum of all gradients; in the other
// forms it updates them with every push. Source of the bound and of the updates per push: Q. Ho et
// al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS
// 2013.
//
//    T = steps * (2 (alpha + W S/(k B)) + compute)      synchronous, dedicated servers, W workers
//    sum over workers of steps / T = sum of 1 / (pull + compute + push)       asynchronous
//                                  <= k B/S, 1 / update                       limit of the servers
//
// 16 workers, 4 servers, S = 4 GB, B = 25 GB/s: pull 0.640 s and push 0.640 s, because each server
// moves 16 times 1 GB (tests/sim/collectives/parameter_server_test.cpp).
//
//    Workload w = parameter_server_traffic({.workers = {0, 1}, .servers = {2}, .bytes = 1 << 30});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

struct ParameterServerTraffic {
  std::vector<std::uint32_t> workers = {};  // GPUs, each once
  std::vector<std::uint32_t> servers = {};  // GPUs, each once; a server may share a worker's GPU
  std::int64_t bytes = 0;                   // size of all gradients, and of all parameters
  DataType dtype = DataType::Fp32;
  std::uint32_t steps = 1;
  // By worker, if the numbers of steps differ; empty: `steps` for each. A worker that has made all
  // its steps delays no other worker.
  std::vector<std::uint32_t> steps_of_worker = {};
  std::vector<Seconds> compute = {};             // per step, by worker; empty: none
  std::optional<std::uint32_t> staleness = {0};  // steps that a worker may be ahead of the slowest
};

// Returns a workload with one rank per GPU: workers first, then the servers that have a separate
// GPU. The operations of a worker are named "pull", "compute" and "push" and have the step as their
// microbatch; those of a server are named "serve pull", "serve push" and "update". A GPU that is
// both worker and server sends nothing to itself. Throws InputError if there are no workers or no
// servers, if a rank has more partners than it can serve concurrently, if a GPU is listed twice, if
// the number of compute times or step counts is neither zero nor the number of workers, and if step
// counts differ although no worker may run ahead.
[[nodiscard]] Workload parameter_server_traffic(const ParameterServerTraffic& traffic);

}  // namespace trainyard
