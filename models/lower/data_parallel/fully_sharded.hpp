// ZeRO 3 as PyTorch's FSDP2 does it: weights live as shards and are gathered group by group (each
// layer; embedding, final norm and head together as the root) around forward and backward.
//
// Order of work, after torch/distributed/fsdp/_fully_shard (reference 03 section 4):
//   - forward: group i+1 is gathered on a stream of its own while group i computes, once i-1 has
//     been copied out of its buffer, so that at most two gathered buffers are there;
//   - backward: the next group is gathered when the one at hand has been copied out;
//   - gradients of a group are copied into the input of a reduce_scatter on another stream, when
//     the one before has ended; with several copies of the model, then all_reduced among them.
// Equal groups of L layers, gather g, forward F: g + LF where g <= F, else Lg + F (oracle 45).
//
// Bytes sent by a rank and microbatch, f = (s-1)/s, P parameters: fP(2 w_p + w_g), of which the
// root saves one gather unless it is given back too. A copy of the shards in less precision is
// written by the gather's own kernel; its 1/s is not counted. Frozen weights are sharded and
// gathered with the others of their group, backward where a gradient comes by, and not reduced:
// with P trained and Q frozen parameters f(P + Q) w_p a gather and fP w_g
// (tests/models/lower/frozen_test.cpp). PyTorch also asks for the layer before the first trained
// one during the backward, and drops it unread; that is left out.
//
// Of k layers that are computed again at once all but the last are gathered for that and once more
// for their backward: 2k - 1 gathers (tests/models/lower/fully_sharded_test.cpp).
//
// Shards that stand on the host (offload.weights; FSDP2's CPUOffloadPolicy, ZeRO-Infinity,
// Rajbhandari et al. 2104.07857) are fetched as they are kept before every gather that starts from
// them: 4P/s bytes (tests/models/lower/offload_test.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"

namespace trainyard {

enum class ShardedWeights : std::uint8_t { Sharded, Gathered, Whole };

// Weights with the same replicas: the experts of a group, or all else.
struct ShardedPart {
  std::int64_t trained = 0;  // parameters, each tensor's rows padded to a multiple of the shards
  std::int64_t wire = 0;     // bytes of all, frozen ones included, as gathered; 0: held whole
  std::int64_t shard = 0;    // bytes of this rank's part, as it is kept
  std::int64_t kept = 0;     // bytes that outlive the forward; all: the backward gathers nothing
  OpIndex gather = kNone;
};

// Weights that are gathered, and whose gradients are reduced, together.
struct ShardedGroup {
  std::int32_t layer = -1;
  std::size_t first_unit = 0;  // units that it holds
  std::size_t last_unit = 0;
  std::size_t forward_ends_at = 0;          // the unit whose forward is the last to need it
  std::optional<std::size_t> ends_at = {};  // the unit whose backward is the last to need it
  ShardedPart dense = {};
  ShardedPart experts = {};
  ShardedWeights weights = ShardedWeights::Sharded;
  std::int64_t gradients = 0;    // bytes of this microbatch's, in the precision of training
  std::int64_t accumulated = 0;  // bytes of all microbatches' so far, as wide as they are reduced
  [[nodiscard]] bool is_root() const { return layer < 0; }
  [[nodiscard]] std::int64_t trained() const { return dense.trained + experts.trained; }
  [[nodiscard]] std::int64_t wire() const { return dense.wire + experts.wire; }
};

// Over how many ranks weights are divided: those of experts, and all others.
struct ShardGroups {
  ShardSlots dense;
  ShardSlots experts;
};

// Brings weights from their shards, and gives them back.
class ShardGathers {
 public:
  // All of it outlives this.
  ShardGathers(const ReplicaOptions& options, const ShardGroups& slots, const StepShape& shape,
               ProgramBuilder& build)
      : options_(options), slots_(slots), shape_(shape), build_(build) {}

  // The next gathers wait for all that has been computed.
  void wait_for_computation() { gather_after_ = build_.last_compute(); }
  // Brings the whole of a group into a buffer, and its experts, who have replicas of their own,
  // into another one behind it.
  void gather(ShardedGroup& group);
  // The next compute operation finds the group's weights.
  void use(ShardedGroup& group, Pass pass);
  // `keeps`: the part that the backward starts from stays.
  void give_back(ShardedGroup& group, bool keeps);

 private:
  void gather_part(std::string_view name, ShardedPart& part, const ShardSlots& slots);
  [[nodiscard]] std::int64_t take(ShardedPart& part);

  const ReplicaOptions& options_;
  const ShardGroups& slots_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  OpIndex copied_out_ = kNone;    // the latest copy out of a gathered buffer
  OpIndex gather_after_ = kNone;  // what the next gather waits for
};

// Adds gradients up and reduces them to shards.
class ShardReductions {
 public:
  ShardReductions(const ReplicaOptions& options, const ShardGroups& slots, const StepShape& shape,
                  ProgramBuilder& build)
      : options_(options), slots_(slots), shape_(shape), build_(build) {}

  // Adds this microbatch's gradients to those kept, which are as wide as what is reduced.
  void accumulate(ShardedGroup& group);
  void reduce(ShardedGroup& group);
  // The latest of each stream.
  [[nodiscard]] std::array<OpIndex, 2> latest() const { return {reduce_scatter_, all_reduce_}; }

 private:
  void reduce_part(std::string_view name, const ShardedPart& part, const ShardSlots& slots,
                   OpIndex after);

  const ReplicaOptions& options_;
  const ShardGroups& slots_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  OpIndex reduce_scatter_ = kNone;
  OpIndex all_reduce_ = kNone;
};

class FullySharded final : public DataParallel {
 public:
  explicit FullySharded(const DataParallelParts& parts);

  void begin_step() override;
  void before_forward(const UnitPlace& place) override;
  void after_forward(const UnitPlace& place) override;
  void before_again(const UnitPlace& place) override;
  void after_again(const UnitPlace& place) override;
  void before_backward(const UnitBackward& backward) override;
  void after_backward(const UnitBackward& backward,
                      const std::vector<ReadyGradient>& ready) override;
  void end_step() override;

 private:
  using Group = ShardedGroup;
  [[nodiscard]] Group& group_at(const UnitPlace& place);
  [[nodiscard]] bool gives_back(const Group& group) const;
  [[nodiscard]] bool keeps_between_microbatches() const;
  void gather_ahead(const UnitPlace& place);
  void end_backward(Group& group, const UnitBackward& backward);

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights>& weights_;
  const StageParameters& parameters_;
  GradientLowering gradients_;
  const ShardGroups slots_;
  ShardGathers gathers_;
  ShardReductions reductions_;
  std::vector<std::vector<Group>> groups_;          // by chunk; in forward order
  std::vector<std::vector<std::size_t>> group_of_;  // by chunk and unit
};

}  // namespace trainyard
