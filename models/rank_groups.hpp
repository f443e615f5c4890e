// The ranks of a step: where each sits in the parallel grid and among the experts, which of them
// communicate, and the slots through which programs name their groups.
//
//   RankGrid(plan.parallelism).position(12);   // t=8, c=1, d=2, p=4: tp 4, dp 1, pp 0
//   add_groups({.parallelism = plan.parallelism, ...}, workload);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention_pairs.hpp"
#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// ---- grids
//
// Megatron's order string names the dimensions from fastest to slowest: with "tp-cp-ep-dp-pp"
//   rank = tp + t*(cp + c*(dp + d*pp))           (reference: Megatron-LM parallel_state.py,
//   RankGenerator)
// e.g. t=8, c=1, d=2, p=4: rank 12 is tp 4, dp 1, pp 0. "ep" takes no room of its own in the dense
// grid.
//
// The experts' division is folded over the dense one (RankGenerator again): the same order string
// with tp as expert_tensor, cp as 1, ep as expert and dp as the experts' replicas:
//   rank = et + etp*(e + ep*(r + replicas*pp))
// e.g. 16 ranks, expert 8, expert_tensor 1, pipeline 1: rank 11 has the experts of place 3, replica
// 1.

// An order of four dimensions over ranks.
//
//   RankOrder order("tp-dp-pp", {"tp", "cp", "dp", "pp"}, {2, 1, 4, 2});
//   order.place(5)             // {1, 0, 2, 0}: 5 = 1 + 2 * (2 + 4 * 0)
//   order.rank({1, 0, 2, 0})   // 5
class RankOrder {
 public:
  static constexpr std::size_t kDimensions = 4;
  using Place = std::array<std::int64_t, kDimensions>;

  // `order` lists dimensions by name, joined by dashes, the one that varies fastest first; words
  // that name none are passed over. REQUIRES: sizes > 0; a dimension that is not listed has size 1.
  RankOrder(const std::string& order, const std::array<std::string_view, kDimensions>& names,
            const Place& size);

  [[nodiscard]] std::int64_t world() const { return world_; }  // ranks
  [[nodiscard]] Place place(RankId rank) const;
  [[nodiscard]] RankId rank(const Place& place) const;

 private:
  Place size_{};
  Place stride_{};
  std::int64_t world_ = 1;
};

struct GridPosition {
  std::int64_t tensor = 0;
  std::int64_t context = 0;
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
};

class RankGrid {
 public:
  // REQUIRES: rank_order names tp, cp, dp and pp once each (the scenario reader checks it).
  explicit RankGrid(const Parallelism& parallelism);

  [[nodiscard]] std::int64_t world() const { return order_.world(); }
  [[nodiscard]] GridPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const GridPosition& position) const;

 private:
  RankOrder order_;  // tensor, context, data, pipeline
};

struct ExpertPosition {
  std::int64_t tensor = 0;
  std::int64_t expert = 0;
  std::int64_t replica = 0;
  std::int64_t pipeline = 0;
};

class ExpertGrid {
 public:
  // REQUIRES: expert * expert_tensor divides the ranks of a stage; rank_order as for RankGrid.
  explicit ExpertGrid(const Parallelism& parallelism);

  [[nodiscard]] ExpertPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const ExpertPosition& position) const;
  // Every rank is on the same pipeline stage in both grids; an order that puts pp between the other
  // dimensions may tear them apart.
  [[nodiscard]] static bool keeps_stages(const Parallelism& parallelism);

 private:
  RankOrder order_;  // tensor, expert, replica, pipeline
};

// ---- groups

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
  // Only where some chunks run from the last rank to the first (schedule.hpp).
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
  // Only for a model with experts.
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

// The groups of a step follow from these.
struct GroupOptions {
  const Parallelism& parallelism;
  const Architecture& architecture;
  StagePlacement placement = StagePlacement::Wrap;  // placement_of(parallelism)
  ContextShape context = {};                        // context_shape(parallelism)
  bool shares_embedding = false;  // first and last stage hold a copy each of one embedding
};

// Fills workload.groups, workload.ranks (programs stage by stage, those of a stage in the order of
// the context ring; gpu as placed) and workload.slots. Groups of one rank are not made: their slots
// stay unbound, and slots behind the last one in use are not there. The stages wrap around (last to
// first) when chunks are interleaved.
void add_groups(const GroupOptions& options, Workload& workload);

// Uses of a slot that one device of a replica has for each other one, where the model is split by
// hand.
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
