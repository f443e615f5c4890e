// What the software around a model takes of a GPU's memory: context, workspaces, communicators, and
// what its allocator cannot use.
//
// Frameworks are data (models/frameworks/*.json), each figure with its source.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

struct FrameworkMemory {
  std::int64_t context_bytes = 0;    // CUDA context of one process
  std::int64_t workspace_bytes = 0;  // library workspaces
  // NCCL's buffers of one channel to one peer, all protocols; a channel of a ring has two peers.
  std::int64_t channel_bytes = 0;
  // Of what comes and goes during the step, so much more is reserved than in use at the peak.
  double fragmentation = 0.0;
};

// By name from models/frameworks. Throws InputError.
[[nodiscard]] FrameworkMemory load_framework(const std::string& name);

}  // namespace trainyard
