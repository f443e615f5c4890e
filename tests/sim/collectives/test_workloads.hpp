// A workload with one collective in the middle.
//
//   const Workload workload = one_collective(gpus_of(8), CollectiveOp::AllReduce, 1 << 20, "ring");
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::testing {

// Compute, a collective of all on a second stream, compute that waits for it.
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
    group.members.push_back(rank);
    workload.ranks.push_back(
        {.program = 0, .gpu = gpus[rank], .slots = {{.group = 0, .role = rank}}, .label = {}});
  }
  workload.groups = {group};
  return workload;
}

}  // namespace trainyard::testing
