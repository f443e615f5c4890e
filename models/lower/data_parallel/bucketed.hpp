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
#include <span>
#include <utility>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"

namespace trainyard {

// New weights, which their owners give to everyone that holds them.
class WeightGathers {
 public:
  WeightGathers(const ReplicaOptions& options, const StepShape& shape, ProgramBuilder& build)
      : options_(options), shape_(shape), build_(build) {}

  // The operation for each bucket behind which its weights are there; kNone where they are already.
  std::vector<OpIndex> gather(std::span<const Bucket> buckets);

 private:
  OpIndex gather(const Bucket& bucket);
  OpIndex broadcast(std::span<const Bucket> buckets);

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// Weights of a chunk with the same replicas, all but the experts' or those, in buckets.
class BucketShare {
 public:
  BucketShare(bool experts, std::vector<Bucket> buckets)
      : experts_(experts), buckets_(std::move(buckets)) {}

  [[nodiscard]] bool experts() const { return experts_; }
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  void gathered_by(std::vector<OpIndex> gathers) { gathers_ = std::move(gathers); }
  // The next computation waits for the weights of an entry.
  void wait_for(std::size_t entry, ProgramBuilder& build) const;
  // Another microbatch fills the buckets from the first one on.
  void restart();
  // The buckets that the gradients of entries [begin, end), which come next, are the first to fill.
  [[nodiscard]] std::vector<Bucket> opened_by(std::size_t begin, std::size_t end);
  // Buckets that are filled with these gradients, and behind which operation each is.
  struct Filled {
    Bucket bucket;
    OpIndex at = kNone;
  };
  [[nodiscard]] std::vector<Filled> filled_by(const std::vector<ReadyGradient>& ready);

 private:
  bool experts_ = false;
  std::vector<Bucket> buckets_;
  std::vector<OpIndex> gathers_ = {};  // one for each bucket, where weights are gathered
  // State of the current microbatch.
  std::size_t next_ = 0;             // the bucket that is filled
  std::size_t opened_ = 0;           // zero_stage 2: buckets that room was made for
  std::vector<OpIndex> final_ = {};  // finished gradients of these weights
  std::size_t seen_ = 0;             // entries of `ready` that are in final_
};

// Room for the buckets that exist at once (zero_stage 2): they are reduced in the order in which it
// was made for them.
class BucketRoom {
 public:
  // For so many buckets in front of one unit; waits until no more than `limit` units have some.
  void make(std::size_t buckets, std::int64_t limit, ProgramBuilder& build);
  void reduced(OpIndex reduction);

 private:
  struct Held {
    std::size_t unreduced = 0;  // whose reduction is not issued yet
    OpIndex reduction = kNone;  // the latest of the others
  };
  std::deque<Held> held_;  // oldest first
};

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
  struct Chunk {
    BucketShare dense;
    BucketShare experts;
    bool entered = false;          // its first forward has been written
    std::int32_t microbatch = -1;  // the one whose backward was written last
  };

  [[nodiscard]] bool gradients_sharded() const;
  void gather_weights();
  void enter(Chunk& chunk);
  void hold_opened(BucketShare& share, std::size_t begin, std::size_t end);
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
  std::vector<std::size_t> order_;   // of the chunks, in which all of their holders call
  std::vector<OpIndex> reductions_;  // the latest of each stream
  BucketRoom room_;
  BucketRoom expert_room_;
};

}  // namespace trainyard
