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

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"

namespace trainyard {

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
  enum class Weights : std::uint8_t { Sharded, Gathered, Whole };
  // What has the same replicas: the experts of a group, or all else.
  struct Part {
    std::int64_t trained = 0;  // parameters, each tensor's rows padded to a multiple of the shards
    std::int64_t wire = 0;     // bytes of all, frozen ones included, as gathered; 0: held whole
    std::int64_t shard = 0;    // bytes of this rank's part, as it is kept
    std::int64_t kept = 0;     // bytes that outlive the forward; all: the backward gathers nothing
    OpIndex gather = kNone;
  };
  struct Group {
    std::int32_t layer = -1;
    std::size_t first_unit = 0;  // units that it holds
    std::size_t last_unit = 0;
    std::size_t forward_ends_at = 0;          // the unit whose forward is the last to need it
    std::optional<std::size_t> ends_at = {};  // the unit whose backward is the last to need it
    Part dense = {};
    Part experts = {};
    Weights weights = Weights::Sharded;
    std::int64_t gradients = 0;    // bytes of this microbatch's, in the precision of training
    std::int64_t accumulated = 0;  // bytes of all microbatches' so far, as wide as they are reduced
    [[nodiscard]] bool is_root() const { return layer < 0; }
    [[nodiscard]] std::int64_t trained() const { return dense.trained + experts.trained; }
    [[nodiscard]] std::int64_t wire() const { return dense.wire + experts.wire; }
  };

  [[nodiscard]] std::vector<Group> groups_of(const ChunkWeights& weights) const;
  void append_unit(std::vector<Group>& groups, const ChunkWeights& weights, std::size_t unit) const;
  [[nodiscard]] Group& group_at(const UnitPlace& place);
  [[nodiscard]] bool gives_back(const Group& group) const;
  [[nodiscard]] bool keeps_between_microbatches() const;
  void gather(Group& group);
  void gather_part(std::string_view name, Part& part, const ShardSlots& slots);
  void reduce_part(std::string_view name, const Part& part, const ShardSlots& slots, OpIndex after);
  void use(Group& group, bool backward);
  [[nodiscard]] std::int64_t take(Part& part);
  // `keeps`: the part that the backward starts from stays.
  void give_back(Group& group, bool keeps);
  void gather_ahead(const UnitPlace& place);
  void end_backward(Group& group, const UnitBackward& backward);
  void accumulate(Group& group);
  void reduce(Group& group);

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights>& weights_;
  const StageParameters& parameters_;
  GradientLowering gradients_;
  ShardSlots slots_;
  ShardSlots expert_slots_;
  std::vector<std::vector<Group>> groups_;          // by chunk; in forward order
  std::vector<std::vector<std::size_t>> group_of_;  // by chunk and unit
  OpIndex copied_out_ = kNone;                      // the latest copy out of a gathered buffer
  OpIndex gather_after_ = kNone;                    // what the next gather waits for
  OpIndex reduce_scatter_ = kNone;
  OpIndex all_reduce_ = kNone;
};

}  // namespace trainyard
