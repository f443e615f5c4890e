// Memory that the software around a step takes and that only the run can tell: NCCL's buffers, by
// the channels that its communicators opened, and what the caching allocator reserves beyond use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/framework.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// The buffers of the group that a slot names: channels x 2 peers x bytes of a channel, the most
// over its calls. 24 channels of 9.2 MiB: 441.6 MiB. Groups that only exchange messages open two
// channels to their one peer.
[[nodiscard]] std::int64_t communicator_bytes(const RunView& view, std::size_t rank_class,
                                              const FrameworkMemory& framework);

struct MemoryFound {
  std::vector<std::vector<std::int64_t>> software = {};  // RunView::software_memory
  std::vector<MemoryPeak> peaks = {};                    // by rank class, with both
};
// Finds what the software holds throughout, and the peaks with it. `view` knows neither yet.
[[nodiscard]] MemoryFound find_memory(const RunView& view, const FrameworkMemory& framework);

}  // namespace trainyard
