// A workload with one collective in the middle and its run through an engine; and a whole ring that
// is played message by message, with its expected time and number of operations.
//
//    const Workload workload =
//        one_collective(gpus_of(8), CollectiveOp::AllReduce, 1 << 20, "ring");
//    double us = engine_us(cluster, workload, {.engine = "simgrid", .fold = {.enabled = true}});
//    const PlayedRing played = play_ring(256, {.engine = "ideal"});
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"
#include "test_clusters.hpp"

namespace trainyard::testing {

// Compute, a collective of all ranks on a second stream, and compute that waits for it.
inline Workload one_collective(const std::vector<std::uint32_t>& gpus, CollectiveOp op,
                               std::int64_t bytes, const char* name) {
  Workload workload;
  workload.streams = {"compute", "data"};
  workload.names = {"before", "collective", "after"};
  workload.categories = {"buffer"};
  workload.slots = {"everyone"};
  workload.kernels = {MemoryBound{.bytes = 1000}};
  workload.calls = {make_call(op, bytes, DataType::Bf16, name)};
  Program program;
  program.name = "all";
  const OpIndex before = program.append({});
  const std::vector<MemoryEffect> effects = {{.category = 0, .at_end = false, .bytes = 5},
                                             {.category = 0, .at_end = true, .bytes = -5}};
  const OpIndex collective = program.append({.kind = OpKind::Collective,
                                             .stream = 1,
                                             .part = StepPart::GradSync,
                                             .name = 1,
                                             .microbatch = 3,
                                             .layer = 7},
                                            std::vector{before}, effects);
  program.append({.name = 2}, std::vector{collective});
  workload.programs = {program};
  Group group{.kind = GroupKind::Data, .members = {}};
  for (std::uint32_t rank = 0; rank < gpus.size(); ++rank) {
    group.members.push_back(RankId{rank});
    workload.ranks.push_back({.program = 0,
                              .gpu = gpus[rank],
                              .slots = {{.group = 0, .group_rank = rank}},
                              .label = {}});
  }
  workload.groups = {group};
  return workload;
}

struct RunWay {
  std::string_view engine = "simgrid";
  FoldOptions fold = {.enabled = false};
};

struct EngineRun {
  Partition partition;
  Timeline timeline;
};

// Compute kernels take no time.
inline EngineRun run_engine(const Cluster& cluster, const Workload& workload, const RunWay& way) {
  EngineRun run;
  run.partition = fold(cluster, workload, AlgorithmModel(cluster), way.fold);
  const std::vector<double> kernel_seconds(workload.kernels.size(), 0.0);
  run.timeline = make_engine(way.engine)
                     ->run({.cluster = cluster,
                            .workload = workload,
                            .partition = run.partition,
                            .kernel_seconds = kernel_seconds,
                            .progress = {}});
  return run;
}

inline double engine_us(const Cluster& cluster, const Workload& workload, const RunWay& way) {
  return 1e6 * run_engine(cluster, workload, way).timeline.makespan_s;
}

// The time at which an operation of a rank ends, in microseconds.
inline double end_us(const EngineRun& run, RankId rank, OpIndex op) {
  return 1e6 * run.timeline.classes[run.partition.class_of_rank[rank]].end_s[op];
}

// A ring all_reduce of a GiB on a star, message by message: 2n(n-1) messages, each a send and a
// receive.
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
  const Partition partition = fold(cluster, stepwise, AlgorithmModel(cluster), way.fold);
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

// The time to which the messages must add up: 2(n-1)(alpha + S/(nB)).
inline double ring_seconds(std::uint32_t ranks) {
  const double n = ranks;
  return 2.0 * (n - 1.0) * (5e-6 + kGibibyte / (n * 1e11));
}

// The number of operations: each rank has two computations, launch and join, and a send and a
// receive per step.
inline std::uint64_t ring_operations(std::uint32_t ranks) {
  return std::uint64_t{ranks} * (4U + 4U * (ranks - 1U));
}

}  // namespace trainyard::testing
