// The three questions the tuning model is made of: is a method offered, at what rate, with what
// latency.
//
//   if (is_offered(comm, op, method)) use(bus_rate(comm, op, method), latency_us(comm, op,
//   method));
#pragma once

#include "sim/nccl/tuning.hpp"

namespace trainyard::nccl {

// By the operation, the hardware, the release and the options.
[[nodiscard]] bool is_offered(const Communicator& communicator, CollectiveOp op,
                              const Method& method);

// GB/s on the busiest wire of a GPU, as NCCL counts it. REQUIRES: offered.
[[nodiscard]] double bus_rate(const Communicator& communicator, CollectiveOp op,
                              const Method& method);

// Buffer bytes per byte on the bus: n / steps for rings and NVLS, 1/2 for trees.
[[nodiscard]] double rate_ratio(const Communicator& communicator, CollectiveOp op,
                                Algorithm algorithm);

// Microseconds without any byte.
[[nodiscard]] double latency_us(const Communicator& communicator, CollectiveOp op,
                                const Method& method);

// Steps of a ring: 2(n-1) all_reduce, n-1 all_gather and reduce_scatter, n the others.
[[nodiscard]] double ring_steps(CollectiveOp op, std::uint32_t ranks);

}  // namespace trainyard::nccl
