// Runs a workload through an engine and gives its time.
//
//   double us = engine_us(cluster, workload, {.engine = "simgrid", .fold = true});
#pragma once

#include <string_view>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard::testing {

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
  run.partition = fold(cluster, workload, CollectiveTransport(cluster), way.fold);
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

// When an operation of a rank ends, in microseconds.
inline double end_us(const EngineRun& run, RankId rank, OpIndex op) {
  return 1e6 * run.timeline.classes[run.partition.class_of_rank[rank]].end_s[op];
}

}  // namespace trainyard::testing
