// NCCL's tuning model: the time that NCCL predicts for an operation by each algorithm and protocol,
// and therefore its choice.
//
//    t = latency + S / rate
//
// S is the buffer of an all_reduce, and the whole gathered or scattered buffer of the other
// operations. H100 x 8, all_reduce by NVLS: 25 us + S / 272 GB/s, so 3 972.58 us for 1 GiB; by a
// ring with Simple: 56 us + S / 205.714 GB/s. Source: NVIDIA/nccl v2.30.7, src/graph/tuning.cc (and
// earlier releases, see data/*.json); tests/sim/nccl/tuning_test.cpp.
//
//    const Method ring_ll{Algorithm::Ring, Protocol::LL};
//    const Estimate ring = *estimate(comm, CollectiveOp::AllReduce, ring_ll);
//    const Choice choice = choose(comm, {.op = CollectiveOp::AllReduce, .bytes = 1 << 20});
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/nccl/communicator.hpp"

namespace trainyard::nccl {

struct Method {
  Algorithm algorithm = Algorithm::Ring;
  Protocol protocol = Protocol::Simple;
  bool operator==(const Method&) const = default;
};

// The part of a prediction that does not depend on the size.
struct Estimate {
  double latency_us = 0.0;
  double bus_rate = 0.0;        // GB/s
  double algorithm_rate = 0.0;  // GB/s of the buffer
};

struct TuningQuery {
  CollectiveOp op = CollectiveOp::AllReduce;
  double bytes = 0.0;
  // NCCL avoids long rings for it, which round at every step, and has no NVLS that adds it.
  bool eight_bit_float = false;
};

struct Prediction {
  double latency_us = 0.0;
  double rate = 0.0;     // GB/s of the buffer
  double penalty = 1.0;  // NCCL's factor that steers its choice; not part of the time

  [[nodiscard]] double transfer_us(double bytes) const { return bytes / (1000.0 * rate); }
  [[nodiscard]] double time_us(double bytes) const { return latency_us + transfer_us(bytes); }
};

struct Choice {
  CollectiveOp op = CollectiveOp::AllReduce;
  Method method = {};
  LaunchShape launch = {};
  Prediction prediction = {};
};

// Nothing if NCCL does not offer the method to this communicator, or if the options forbid it.
[[nodiscard]] std::optional<Estimate> estimate(const Communicator& communicator, CollectiveOp op,
                                               const Method& method);

// The estimate with NCCL's corrections for the size: trees with medium buffers are slower than the
// model; Simple rings between nodes have 1.4 times its latency once their channels are busy.
[[nodiscard]] std::optional<Prediction> predict(const Communicator& communicator,
                                                const TuningQuery& query, const Method& method);

// The fastest method; among equals the first one in the order of kAlgorithms and kProtocols. Throws
// RunError if the options leave no method. REQUIRES: op is not AllToAll or SendRecv, which NCCL
// does not tune.
[[nodiscard]] Choice choose(const Communicator& communicator, const TuningQuery& query);

// "NVLS/Simple, 16 channels".
[[nodiscard]] std::string to_text(const Choice& choice);

// GB/s on the busiest wire of a GPU, as NCCL counts it. REQUIRES: NCCL offers the method.
[[nodiscard]] double bus_rate(const Communicator& communicator, CollectiveOp op,
                              const Method& method);

// Steps of a ring: 2(n-1) for all_reduce, n-1 for all_gather and reduce_scatter, n for the others.
[[nodiscard]] double ring_steps(CollectiveOp op, std::uint32_t ranks);

}  // namespace trainyard::nccl
