// The flows of a partition: how many bytes each class of flows moves, how it loads classes of
// links, and its rate cap. The classes of ranks, groups and links (fold.cpp) hold none of these.
//
//    const Partition partition = with_flows(workload, found, classes, true);
//    partition.flows.front().payload_bytes;
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/contention/link_limits.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The load of a class of shapes on a link class, relative to the payload of one flow.
struct ClassLoad {
  std::uint32_t link_class = 0;
  double together = 0.0;  // sum over all shapes of the class, on any one link
  double most = 0.0;      // largest load of one of them
  bool contended = true;
  bool operator==(const ClassLoad&) const = default;
};

// The classes of ranks, groups, links and shapes, and how flows load links: a partition without its
// flows. It holds no bytes, seconds or rates.
struct FoldClasses {
  Partition partition = {};
  std::vector<std::uint32_t> of_shape = {};        // class of each shape
  std::vector<std::vector<ClassLoad>> loads = {};  // indexed by class of shapes
  std::vector<std::uint32_t> members_of_shape_class = {};
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const FoldClasses& classes);

// Returns the partition of the classes with the flows of the traffic. `merge`: interchangeable
// flows of one phase become one flow class.
[[nodiscard]] Partition with_flows(const Workload& workload, const Contention& found,
                                   const FoldClasses& classes, bool merge);

}  // namespace trainyard
