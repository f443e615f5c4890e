// Which ranks communicate: the groups of a step, and the slots through which programs name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Slots of every rank of a lowered step, by number.
enum class Slot : std::uint16_t {
  Tensor,
  Data,
  SendForward,   // to the next stage
  RecvForward,   // from the stage before
  SendBackward,  // to the stage before
  RecvBackward,  // from the next stage
  Embedding,     // first and last stage, tied word embeddings
  Model,         // all ranks whose shards make one gradient norm
  // Only where some chunks run from the last rank to the first (placement.hpp).
  SendForwardReverse,   // to the rank before
  RecvForwardReverse,   // from the rank behind
  SendBackwardReverse,  // to the rank behind
  RecvBackwardReverse,  // from the rank before
  DataMirror,  // two directions: both holders of a stage of the second half, and their replicas
  // Where replicas share several sharded copies of the model, or one in parts.
  Shard,    // the replicas of one copy
  Replica,  // those that hold the same shard of every copy
  Reshard,  // ranks over which weights stay sharded between forward and backward
  // Ranks that share a sequence: those that trade heads or gather keys, and the two neighbours on
  // the ring, for keys that go to the next rank and for those that go back.
  Context,
  SendContext,
  RecvContext,
  SendContextBack,
  RecvContextBack,
  SendTensor,  // to the next rank of the tensor group, where products run in pieces
  RecvTensor,
  // Of a model with experts.
  Expert,            // the ranks that its experts are divided over
  ExpertTensor,      // those that share each expert
  ExpertData,        // replicas of the experts
  ExpertDataMirror,  // as DataMirror
  ExpertShard,       // as Shard, Replica and Reshard, of the experts
  ExpertReplica,
  ExpertReshard,
  Host,   // the rank alone, for copies to and from the memory of its CPU
  Peers,  // from here on four for each device of a model split by hand (peer_slot)
};
[[nodiscard]] std::vector<std::string> slot_names();
[[nodiscard]] constexpr std::size_t number(Slot slot) { return static_cast<std::size_t>(slot); }

// Ranks of a stage hold different experts, so that every rank has a share of the gradient norm of
// its own.
[[nodiscard]] bool divides_experts(const Parallelism& parallelism,
                                   const Architecture& architecture);

// Fills workload.groups, workload.ranks (programs stage by stage, those of a stage in the order of
// the context ring; gpu as placed) and workload.slots. Groups of one rank are not made: their slots
// stay unbound, and slots behind the last one in use are not there. The stages wrap around (last to
// first) when chunks are interleaved.
void add_groups(const Parallelism& parallelism, const Architecture& architecture,
                Workload& workload);

// Of a device of a replica whose model is split by hand: what goes to or comes from another one.
enum class PeerUse : std::uint16_t { SendForward, RecvForward, SendBackward, RecvBackward };
[[nodiscard]] constexpr Slot peer_slot(PeerUse use, std::int64_t device) {
  return static_cast<Slot>(number(Slot::Peers) + 4 * static_cast<std::size_t>(device) +
                           static_cast<std::size_t>(use));
}
// Outputs go forward from a device to another, their gradients back.
struct PeerPair {
  std::int64_t from = 0;
  std::int64_t to = 0;
  auto operator<=>(const PeerPair&) const = default;
};
// Binds those slots, for every replica; a pair may be named several times. REQUIRES: add_groups has
// been there.
void add_peer_groups(const Parallelism& parallelism, const std::vector<PeerPair>& pairs,
                     Workload& workload);

// Binds Slot::Host of every rank to a group of its own. REQUIRES: add_groups has been there.
void add_host_groups(Workload& workload);

}  // namespace trainyard
