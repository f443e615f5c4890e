// Memory that the software around a step takes and that only the run can tell: NCCL's buffers, by
// the channels that its communicators opened, and what the caching allocator reserves beyond use.
#pragma once

#include "models/framework.hpp"
#include "scenarios/run/run.hpp"

namespace trainyard {

// Of the group that a slot names: channels x 2 peers x bytes of a channel, the most over its calls.
// 24 channels of 9.2 MiB: 441.6 MiB. Groups that only exchange messages open two channels to their
// one peer.
[[nodiscard]] std::int64_t communicator_bytes(const Run& run, std::size_t rank_class,
                                              const FrameworkMemory& framework);

// Adds both to what the programs hold through the step, and sets run.memory_peaks, which has them.
// REQUIRES: the run has been replayed.
void add_memory_overheads(const FrameworkMemory& framework, Run& run);

}  // namespace trainyard
