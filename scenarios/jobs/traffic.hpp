// Background traffic on a cluster: messages of one size in a pattern, again and again. Reads from
// storage, checkpoints and inference look like this to a training job beside them.
//
//    const Workload step = traffic_step({.pattern = TrafficPattern::Ring, .bytes = Bytes{1e9},
//                                        .every = Seconds{0.1}}, {0, 8, 16, 24});
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/field.hpp"
#include "sim/base/units.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Ring: each GPU sends to the next one. Pairs: GPU i of the first half sends to GPU i of the
// second. AllToAll: each sends a share to each other. AllToOne, OneToAll: the last `servers` GPUs
// receive (writes of checkpoints) or send (reads of data); the others are their clients in turn.
enum class TrafficPattern : std::uint8_t { Ring, Pairs, AllToAll, AllToOne, OneToAll };

// The offered load of each sender (client) is bytes / every, as long as the network carries it: the
// next messages start `every` after the last ones, but no earlier than those have ended.
struct TrafficSpec {
  TrafficPattern pattern = TrafficPattern::Ring;
  Bytes bytes = {};  // of a message; AllToAll: that a GPU sends to all others together
  Seconds every = {};
  std::uint32_t servers = 1;
  bool operator==(const TrafficSpec&) const = default;
};

// Returns the fields of the object "traffic" of a job.
[[nodiscard]] std::span<const Field<TrafficSpec>> traffic_fields();
// Reads that object. Reports a fault of a field, and a time of zero between messages.
[[nodiscard]] TrafficSpec read_traffic(JsonObject traffic);
[[nodiscard]] std::string to_text(const TrafficSpec& traffic);

// Returns one period as a workload with a rank on each GPU (an index into Cluster::gpus()). Throws
// RunError for a pattern that needs more GPUs.
[[nodiscard]] Workload traffic_step(const TrafficSpec& traffic,
                                    const std::vector<std::uint32_t>& gpus);

}  // namespace trainyard
