// Replicas that reduce buckets of gradients: plain data parallelism (all_reduce), ZeRO 1
// (reduce_scatter, and new weights gathered in front of the first forward), ZeRO 2 (the same, and
// gradients live only as long as their bucket is being made). Of ZeRO 2's buckets only so many
// exist at once (Parallelism::gradient_buckets_in_flight): where reductions are slower than the
// backward, the backward waits for them. It waits in front of an embedding, layer or head, so that
// buckets which one of these fills count as one, and a bucket for which it has the first gradients
// alone counts from the next one on.
//
// Bytes sent by a rank in a step, f = (d-1)/d, P parameters: 2fP w_g; fP(w_g + w_p); and with
// gradients reduced after each of a microbatches fP(a w_g + w_p) (reference 03 section 1). With
// several sharded copies each one reduces inside and then its 1/s over the r copies. Llama-3 8B at
// d = 64: 31 619 153 664 B of bf16 gradients (tests/models/lower/sharded_volume_test.cpp).
#pragma once

#include <deque>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"

namespace trainyard {

class BucketedReplicas final : public DataParallel {
 public:
  explicit BucketedReplicas(const DataParallelParts& parts);

  void begin_step() override;
  void before_forward(const UnitPlace& place) override;
  void after_forward(const UnitPlace& place) override;
  void before_backward(const UnitBackward& backward) override;
  void after_backward(const UnitBackward& backward,
                      const std::vector<ReadyGradient>& ready) override;
  [[nodiscard]] bool leaves_forwards(std::size_t chunk) const override {
    return chunks_[chunk].entered;
  }
  [[nodiscard]] bool leaves_backwards() const override { return !gradients_sharded(); }
  void end_step() override;

 private:
  // Weights with the same replicas: all but the experts', or those.
  struct Share {
    bool experts = false;
    std::vector<Bucket> buckets = {};
    std::vector<OpIndex> gathers = {};  // one for each bucket, where weights are gathered
    // State of the current microbatch.
    std::size_t next = 0;             // the bucket that is filled
    std::size_t held = 0;             // zero_stage 2: buckets that room was made for
    std::vector<OpIndex> final = {};  // finished gradients of these weights
    std::size_t seen = 0;             // entries of `ready` that are in `final`
  };
  // Buckets for which room was made in front of one unit, until they are reduced.
  struct Held {
    std::size_t unreduced = 0;  // whose reduction is not issued yet
    OpIndex reduction = kNone;  // the latest of the others
  };
  struct Chunk {
    Share dense;
    Share experts = {.experts = true};
    bool entered = false;          // its first forward has been written
    std::int32_t microbatch = -1;  // the one whose backward was written last
  };

  [[nodiscard]] std::vector<Bucket> buckets_of(const ChunkWeights& weights, bool experts) const;
  [[nodiscard]] ShardSlots slots_of(const Bucket& bucket) const;
  [[nodiscard]] std::vector<std::size_t> chunk_order() const;
  [[nodiscard]] bool gradients_sharded() const;
  void gather_weights();
  void gather_share(Share& share);
  OpIndex gather(const Bucket& bucket);
  OpIndex broadcast(const Share& share);
  void enter(Chunk& chunk);
  void wait_for(const Share& share, std::size_t entry);
  void allocate_gradients(Share& share, std::size_t begin, std::size_t end);
  void wait_for_room(bool experts, std::size_t buckets);
  void note_reduction(bool experts, OpIndex reduction);
  // Whether there was a bucket to reduce.
  bool reduce_ready(Share& share, const std::vector<ReadyGradient>& ready);
  void reduce(const Bucket& bucket, OpIndex after);
  void reduce_rest(const Chunk& chunk);
  void pass_over_unreduced();

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights>& weights_;
  const StageParameters& parameters_;
  GradientLowering gradients_;
  std::vector<Chunk> chunks_;
  std::vector<OpIndex> reductions_;  // the latest of each stream
  std::deque<Held> held_;            // zero_stage 2, oldest first
  std::deque<Held> held_experts_;
};

}  // namespace trainyard
