// The ranks of a step: the position of each in the parallel grid and among the experts, the groups
// of ranks that communicate, and the slots through which programs name their groups.
//
//    RankGrid(plan.parallelism).position(12);   // t=8, c=1, d=2, p=4: tp 4, dp 1, pp 0
//    add_groups({.parallelism = plan.parallelism, .architecture = plan.architecture}, workload);
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
// Megatron's order string names the dimensions from fastest to slowest. With "tp-cp-ep-dp-pp"
//
//    rank = tp + t*(cp + c*(dp + d*pp))
//
// (reference: Megatron-LM parallel_state.py, RankGenerator). Example: t=8, c=1, d=2, p=4: rank 12
// is tp 4, dp 1, pp 0. "ep" has no effect in the dense grid. Where stages have unequal numbers of
// tensor ranks, each stage has such a grid of its own, and the ranks of a stage follow those of the
// stage before: with t=4 and t=2, d=2, rank 9 is tp 1, dp 0, pp 1.
//
// The division among experts uses the same ranks (RankGenerator also does this): the same order
// string with tp as expert_tensor, cp as 1, ep as expert and dp as the replicas of the experts:
//
//    rank = et + etp*(e + ep*(r + replicas*pp))
//
// Example: 16 ranks, expert 8, expert_tensor 1, pipeline 1: rank 11 is EP rank 3 of replica 1.

// An order of four dimensions over ranks.
//
//    RankOrder order("tp-dp-pp", {"tp", "cp", "dp", "pp"}, {2, 1, 4, 2});
//    order.place(5);             // {1, 0, 2, 0}: 5 = 1 + 2 * (2 + 4 * 0)
//    order.rank({1, 0, 2, 0});   // 5
class RankOrder {
 public:
  static constexpr std::size_t kDimensions = 4;
  using Place = std::array<std::int64_t, kDimensions>;

  // `order` lists dimensions by name, joined by dashes, the one that varies fastest first; other
  // words are ignored. REQUIRES: sizes > 0; a dimension that is not listed has size 1.
  RankOrder(const std::string& order, const std::array<std::string_view, kDimensions>& names,
            const Place& size);

  [[nodiscard]] std::int64_t world() const { return world_; }  // number of ranks
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

// The ranks of another stage that hold parts of the same activation as a rank: one where the stages
// have equal numbers of tensor ranks. From 2 tensor ranks to 4, rank 1 has peers 2 and 3; from 4 to
// 2, ranks 2 and 3 have peer 1, of whose peers they are number 0 and 1.
struct StagePeers {
  GridPosition first = {};
  std::int64_t count = 1;
  std::int64_t number = 0;  // of the rank among the peers of its peer
};

class RankGrid {
 public:
  // REQUIRES: rank_order names tp, cp, dp and pp once each, and pp last where stages have unequal
  // numbers of tensor ranks (the scenario reader checks it).
  explicit RankGrid(const Parallelism& parallelism);

  [[nodiscard]] std::int64_t world() const { return stages_.back().end; }
  // Workers of local steps have such a grid each, one after the other: the position is that of the
  // rank in its own.
  [[nodiscard]] GridPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const GridPosition& position) const;
  // The peers of a rank in another stage. REQUIRES: the number of tensor ranks of one stage divides
  // that of the other.
  [[nodiscard]] StagePeers peers(const GridPosition& position, std::int64_t stage) const;

 private:
  // Consecutive ranks: all of them, or those of one stage where stages are unequal.
  struct Ranks {
    RankOrder order;  // tensor, context, data, pipeline
    std::int64_t tensor = 1;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] const Ranks& of_stage(std::int64_t stage) const;

  std::vector<Ranks> stages_;  // one entry where all stages are equal
};

// The GPU on which a rank runs.
[[nodiscard]] std::uint32_t gpu_of_rank(const Parallelism& parallelism, RankId rank);

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
  // True if every rank is on the same pipeline stage in both grids. An order with pp between the
  // other dimensions may put a rank on different stages.
  [[nodiscard]] static bool same_stages(const Parallelism& parallelism);

 private:
  RankOrder order_;  // tensor, expert, replica, pipeline
};

// ---- groups

// The slots of every rank of a lowered step, by number.
enum class Slot : std::uint16_t {
  Tensor,
  Data,
  SendForward,   // to the next stage
  RecvForward,   // from the previous stage
  SendBackward,  // to the previous stage
  RecvBackward,  // from the next stage
  Embedding,     // first and last stage, for tied word embeddings
  Model,         // all ranks whose shards contribute to one gradient norm
  // Used only where some chunks run from the last rank to the first (schedule.hpp).
  SendForwardReverse,   // to the rank before
  RecvForwardReverse,   // from the rank after
  SendBackwardReverse,  // to the rank after
  RecvBackwardReverse,  // from the rank before
  DataMirror,  // two directions: both holders of a stage of the second half, and their replicas
  // Used where replicas share several sharded copies of the model, or reshard within a part of one
  // copy.
  Shard,    // the replicas of one copy
  Replica,  // ranks that hold the same shard of every copy
  Reshard,  // ranks over which weights stay sharded between forward and backward
  // Ranks that share a sequence: those that trade heads or gather keys, and the two neighbours on
  // the ring, for keys that move to the next rank and for those that move back.
  Context,
  SendContext,
  RecvContext,
  SendContextBack,
  RecvContextBack,
  SendTensor,  // to the next rank of the tensor group, where GEMMs run in pieces
  RecvTensor,
  // Used only for a model with experts.
  Expert,            // the ranks that its experts are divided over
  ExpertTensor,      // ranks that share each expert
  ExpertData,        // replicas of the experts
  ExpertDataMirror,  // same as DataMirror, for experts
  ExpertShard,       // same as Shard, Replica and Reshard, for experts
  ExpertReplica,
  ExpertReshard,
  Host,  // the rank alone, for copies to and from the memory of its CPU
  // From here on, four for each device of a model split by hand (peer_slot), or for each further
  // piece of an activation (piece_slot).
  Peers,
};
[[nodiscard]] std::vector<std::string> slot_names();
[[nodiscard]] constexpr std::size_t number(Slot slot) { return static_cast<std::size_t>(slot); }

// True if ranks of a stage hold different experts, so that every rank has its own share of the
// gradient norm.
[[nodiscard]] bool divides_experts(const Parallelism& parallelism,
                                   const Architecture& architecture);

// The inputs from which the groups of a step follow.
struct GroupOptions {
  const Parallelism& parallelism;
  const Architecture& architecture;
  StagePlacement placement = StagePlacement::Wrap;  // placement_of(parallelism)
  ContextShape context = {};                        // context_shape(parallelism)
  bool shares_embedding = false;  // first and last stage each hold a copy of one embedding
};

// Fills workload.groups, workload.ranks (programs stage by stage, those of a stage in the order of
// the context ring; the GPU as placed) and workload.slots. No group is made for a single rank: its
// slot stays unbound, and slots after the last one in use are omitted. The stages wrap around (last
// to first) when chunks are interleaved.
void add_groups(const GroupOptions& options, Workload& workload);

// Slots that one device of a replica has for each other device, where the model is split by hand.
enum class PeerUse : std::uint16_t { SendForward, RecvForward, SendBackward, RecvBackward };
[[nodiscard]] constexpr Slot peer_slot(PeerUse use, std::int64_t device) {
  return static_cast<Slot>(number(Slot::Peers) + 4 * static_cast<std::size_t>(device) +
                           static_cast<std::size_t>(use));
}
// The slot of a piece of an activation, for pipeline stages. Piece 0 has the slot of the whole
// activation; only stages with unequal numbers of tensor ranks have others.
[[nodiscard]] constexpr Slot piece_slot(PeerUse use, std::int64_t piece) {
  if (piece > 0) return peer_slot(use, piece - 1);
  return static_cast<Slot>(number(Slot::SendForward) + static_cast<std::size_t>(use));
}
// Outputs are sent from one device to another, and their gradients are sent back.
struct PeerPair {
  std::int64_t from = 0;
  std::int64_t to = 0;
  auto operator<=>(const PeerPair&) const = default;
};
// Binds the slots of these pairs, for every replica. A pair may occur several times. REQUIRES:
// add_groups was called before.
void add_peer_groups(const Parallelism& parallelism, const std::vector<PeerPair>& pairs,
                     Workload& workload);

// Binds Slot::Host of every rank to a separate group. REQUIRES: add_groups was called before.
void add_host_groups(Workload& workload);

}  // namespace trainyard
