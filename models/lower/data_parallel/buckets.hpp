// Gradients of one chunk that are reduced together, by the rules of Megatron-LM and of PyTorch.
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
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/plan.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

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
