// Which GPUs reach each other over the fabric: two planes or a dead rail part it into components.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/fabric_paths.hpp"
#include "sim/cluster/node_paths.hpp"

namespace trainyard {

struct FabricComponents {
  std::uint32_t count = 0;                 // 0: there are no NICs
  std::vector<std::uint32_t> of_gpu = {};  // empty: all are of one
  [[nodiscard]] bool join(std::uint32_t a, std::uint32_t b) const {
    return of_gpu.empty() || of_gpu[a] == of_gpu[b];
  }
};

// Throws InputError where not every GPU reaches every other, over its node and the fabric.
[[nodiscard]] FabricComponents fabric_components(const Topology& topology, const NodePaths& nodes,
                                                 const FabricPaths& fabric);

}  // namespace trainyard
