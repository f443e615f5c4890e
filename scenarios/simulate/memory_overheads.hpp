// Memory of the software around a step that only the run determines: NCCL's buffers, by the
// channels that its communicators open, and what the caching allocator reserves beyond its use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/framework.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Returns the bytes of the communicators of a rank class. A communicator has channels x 2 peers x
// bytes of a channel, the maximum over its calls: 24 channels of 9.2 MiB are 441.6 MiB. A
// communicator that only exchanges messages opens two channels to its one peer.
[[nodiscard]] std::int64_t communicator_bytes(const RunView& view, std::size_t rank_class,
                                              const FrameworkMemory& framework);

// Appends the categories of this memory that a workload with categories of its own does not have.
void add_overhead_categories(Workload& workload);

struct MemoryFound {
  std::vector<std::vector<std::int64_t>> software = {};  // RunView::software_memory
  std::vector<MemoryPeak> peaks = {};                    // by rank class, software memory included
};
// Finds what the software holds throughout, and the memory peaks with it. REQUIRES: `view` has
// neither; add_overhead_categories() was called on its workload.
[[nodiscard]] MemoryFound find_memory(const RunView& view, const FrameworkMemory& framework);

}  // namespace trainyard
