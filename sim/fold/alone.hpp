// How long communication takes that has its links for itself.
//
//     T(chain) = payload / min(rate cap, min over its links of capacity / chain_load)
//     T(call)  = sum over its phases of latency + max over the chains of the phase of T(chain)
//
// where chain_load is what the chain itself puts on the link, in payloads. Worked: 8 GB over links
// of 10 and 4 GB/s, the second crossed twice: 8 / min(10, 4 / 2) = 4 s. What an operation takes
// beyond it, it waited for links.
#pragma once

#include <cstdint>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {

[[nodiscard]] double chain_seconds_alone(const Cluster& cluster, const Partition& partition,
                                         const FlowClass& flow);

// A call (index into Workload::calls) of a group class. 0 where the class never makes the call.
[[nodiscard]] double call_seconds_alone(const Cluster& cluster, const Partition& partition,
                                        std::uint32_t group_class, std::uint32_t call);

}  // namespace trainyard
