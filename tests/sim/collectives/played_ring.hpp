// A ring all_reduce of a GiB on a star, message by message: 2n(n-1) messages, each a send and a
// receive; and what its time and its operations must be.
//
//   const PlayedRing played = play_ring(256, {.engine = "ideal"});
#pragma once

#include <chrono>

#include "engine_run.hpp"
#include "test_clusters.hpp"
#include "test_workloads.hpp"

namespace trainyard::testing {

struct PlayedRing {
  double expand_s = 0.0;  // wall time of each part
  double fold_s = 0.0;
  double engine_s = 0.0;
  double makespan_s = 0.0;
  std::uint64_t operations = 0;
  [[nodiscard]] double total_s() const { return expand_s + fold_s + engine_s; }
};

inline PlayedRing play_ring(std::uint32_t ranks, const RunWay& way) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const Cluster cluster = star(ranks);
  const Workload whole =
      one_collective(gpus_of(ranks), CollectiveOp::AllReduce, std::int64_t{1} << 30, "ring");
  const auto begin = Clock::now();
  const Workload stepwise = expand_collectives(whole, cluster);
  const auto expanded = Clock::now();
  const Partition partition = fold(cluster, stepwise, CollectiveTransport(cluster), way.fold);
  const auto folded = Clock::now();
  const std::vector<double> kernel_seconds(stepwise.kernels.size(), 0.0);
  const Timeline timeline = make_engine(way.engine)
                                ->run({.cluster = cluster,
                                       .workload = stepwise,
                                       .partition = partition,
                                       .kernel_seconds = kernel_seconds,
                                       .progress = {}});
  return {.expand_s = seconds(begin, expanded),
          .fold_s = seconds(expanded, folded),
          .engine_s = seconds(folded, Clock::now()),
          .makespan_s = timeline.makespan_s,
          .operations = timeline.counters.operations};
}

// 2(n-1)(alpha + S/(nB)): what the messages must add up to.
inline double ring_seconds(std::uint32_t ranks) {
  const double n = ranks;
  return 2.0 * (n - 1.0) * (5e-6 + kGibibyte / (n * 1e11));
}

// Of each rank: two computations, launch and join, and a send and a receive a step.
inline std::uint64_t ring_operations(std::uint32_t ranks) {
  return std::uint64_t{ranks} * (4U + 4U * (ranks - 1U));
}

}  // namespace trainyard::testing
