// Collectives of traces as runs of a collective profile, in the form of `import nccl-tests`.
//
// The time of a NCCL kernel includes waiting for ranks that arrive later. Where several ranks'
// traces are given, the time of a call is the least over the ranks that recorded it: that of the
// rank which arrived last. The k-th call of an operation with one size in one group is the same
// call in every trace. A row has the median over all calls of its size.
//
//    const TracedCollectives found = traced_collectives(traces, {.gpus_per_node = 8});
//    make_collective_profile(found.runs, date);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"
#include "sim/collectives/profile/measured.hpp"

namespace trainyard {

struct TracedCollectiveOptions {
  std::uint32_t gpus_per_node = 8;
  std::uint32_t ranks = 0;  // of a group whose size the trace does not state; 0: left out
};

struct TracedCollectives {
  std::vector<MeasuredRun> runs = {};  // a run for each operation, number of ranks and of nodes
  std::size_t calls = 0;               // that have a row
  std::size_t calls_of_several = 0;    // of them: recorded by two ranks or more
  std::size_t left_out = 0;            // kernels without a row
  double left_out_s = 0.0;
  std::vector<std::string> reasons = {};  // of those, one sentence each
  std::vector<std::string> assumptions = {};
};

// REQUIRES: gpus_per_node above 0.
[[nodiscard]] TracedCollectives traced_collectives(std::span<const GpuTrace> traces,
                                                   const TracedCollectiveOptions& options);

}  // namespace trainyard
