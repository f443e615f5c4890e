// What the software around a model takes of a GPU's memory: context, workspaces, communicators.
//
// Frameworks are data (models/frameworks/*.json), each figure with its source.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

struct FrameworkMemory {
  std::int64_t context_bytes = 0;    // CUDA context of one process
  std::int64_t workspace_bytes = 0;  // library workspaces
  std::int64_t communicator_bytes =
      0;  // buffers of one communicator, for each kind of group in use
};

// By name from models/frameworks. Throws InputError.
[[nodiscard]] FrameworkMemory load_framework(const std::string& name);

}  // namespace trainyard
