// How the weights and gradients of a rank are divided: into shards over the ranks that hold the
// same weights, and into buckets that are reduced together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/plan.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

// ---- shards: over how many ranks a scheme divides what it shards, and in which groups
//
//   d replicas (with their context ranks) = s shards x r copies
//
// An expert has replicas of its own, of which a copy has its part, in the same ranks: 64 GPUs with
// 8 places of experts in copies of 16 make 2 shards x 4 copies of each
// (tests/models/lower/sharded_experts_test.cpp).
//
//   const ShardSlots slots = shard_slots({.data = 64, .zero_stage = 3, .shard = 8}, Slot::Data);
//   slots.shards;     // 8, in slots.shard
//   slots.replicas;   // 8, in Slot::Replica

// Ranks that hold the same weights: replicas, context ranks, and both holders of a stage.
[[nodiscard]] std::int64_t data_ranks(const Parallelism& parallelism);
// The number of them that divide the optimizer state among them; 1 without ZeRO.
[[nodiscard]] std::int64_t optimizer_shards(const Parallelism& parallelism);

// The same of the experts of a rank, which have replicas of their own (rank_groups.hpp).
[[nodiscard]] std::int64_t expert_shards(const Parallelism& parallelism);

struct ShardSlots {
  std::int64_t all = 1;          // data_ranks
  std::int64_t shards = 1;       // 1: nothing is divided
  std::int64_t replicas = 1;     // copies of the shards; all of them where nothing is divided
  Slot shard = Slot::Data;       // the group of the shards; of everybody where there is one copy
  Slot replica = Slot::Replica;  // of those that hold the same shard
  Slot reshard = Slot::Reshard;  // of the `kept_by` ranks that keep weights between forward and
  std::int64_t kept_by = 0;      // backward; 0: nothing is kept
};
// `data`: the slot of everybody that holds the weights in question.
[[nodiscard]] ShardSlots shard_slots(const Parallelism& parallelism, Slot data);
// For weights of experts: a copy has as large a part of their replicas as of all ranks.
[[nodiscard]] ShardSlots expert_shard_slots(const Parallelism& parallelism, Slot data);

// ---- buckets: gradients of one chunk that are reduced together, by the rules of Megatron-LM and
// of PyTorch
//
// Megatron-LM (reference 03 section 3): parameters in the order their gradients become final, a
// bucket closes at max(40e6, 1e6*d) parameters, and there is one bucket per model chunk on pipeline
// ranks after the first, on chunks after the first, and without overlap.
//
// PyTorch's DistributedDataParallel, once it has rebuilt its buckets in the order in which
// gradients become ready: tensors are taken in order; a bucket closes as soon as it holds its
// limit, and the tensor that crosses it stays in. The first limit is 1 MiB, the others 25 MiB
// (reference 03 section 2; PyTorch c10d/reducer.cpp). GPT-2 124M in fp32 has 13 buckets: 9.009,
// eleven of 27.038 and 168.272 MiB (tests/models/lower/fully_sharded_test.cpp).

// Gradients of one chunk reduced together: entries [begin, end) of its parameters in backward
// order.
struct Bucket {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t parameters = 0;  // padded to a multiple of lcm(d, 128)
  Slot slot = Slot::Data;       // the group of its stage
};

// `sizes`: parameters in backward order. `limit` 0: one bucket.
[[nodiscard]] std::vector<Bucket> make_buckets(std::span<const std::int64_t> sizes,
                                               std::int64_t limit, std::int64_t replicas);
// ZeRO 2 as DeepSpeed runs it: a rank keeps its share alone after every microbatch.
[[nodiscard]] bool partitions_every_microbatch(const Parallelism& parallelism);
// The limit of a chunk of a pipeline rank; 0: one bucket. ZeRO 2 gives gradients back bucket by
// bucket, so it has several on every rank, beside computation or not (DeepSpeed's
// reduce_bucket_size).
[[nodiscard]] std::int64_t bucket_limit(const Parallelism& parallelism, std::int64_t stage,
                                        std::int64_t chunk);

// Elements at which a bucket closes; 0: never.
struct BucketLimits {
  std::int64_t first = 0;
  std::int64_t others = 0;
};
// The limits for gradients of so many bytes. Where `bucket_parameters` is given it holds for all of
// them, and without overlap there is one bucket.
[[nodiscard]] BucketLimits pytorch_limits(const Parallelism& parallelism,
                                          std::int64_t gradient_bytes);
// `entries` in backward order. A bucket's entries are those it has a tensor of, so that two buckets
// may share one; nothing is padded.
[[nodiscard]] std::vector<Bucket> pytorch_buckets(std::span<const GradientEntry> entries,
                                                  const BucketLimits& limits);

}  // namespace trainyard
