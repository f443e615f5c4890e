// Buckets: gradients of one chunk that are reduced together, by the rules of Megatron-LM and of
// PyTorch.
//
// Megatron-LM (core/distributed/distributed_data_parallel.py, param_and_grad_buffer.py): parameters
// are taken in the order in which their gradients become final. A bucket closes at max(40e6, 1e6*d)
// parameters. There is one bucket per model chunk on pipeline ranks after the first, on chunks
// after the first, and without overlap.
//
// PyTorch's DistributedDataParallel, after it has rebuilt its buckets in the order in which
// gradients become ready: tensors are taken in order. A bucket closes as soon as it reaches its
// limit, and it includes the tensor that crosses the limit. The first limit is 1 MiB, the others
// are 25 MiB (PyTorch torch/csrc/distributed/c10d/reducer.hpp and reducer.cpp). GPT-2 124M in fp32
// has 13 buckets: 9.009, eleven of 27.038 and 168.272 MiB
// (tests/models/lower/fully_sharded_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/plan.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

// A bucket: the entries [begin, end) of a chunk's parameters in backward order.
struct Bucket {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t parameters = 0;  // padded to a multiple of lcm(d, 128)
  Slot slot = Slot::Data;       // group of the ranks that hold these weights
};

// Buckets by Megatron-LM's rule. `sizes`: parameters of each entry in backward order. `limit`: in
// parameters; 0: one bucket.
[[nodiscard]] std::vector<Bucket> make_buckets(std::span<const std::int64_t> sizes,
                                               std::int64_t limit, std::int64_t replicas);
// The limit for a chunk of a pipeline rank, in parameters; 0: one bucket. ZeRO 2 that partitions
// every microbatch (shards.hpp) frees gradients bucket by bucket, so it has several buckets on
// every rank, with or without overlap (DeepSpeed's reduce_bucket_size).
[[nodiscard]] std::int64_t bucket_limit(const Parallelism& parallelism, std::int64_t stage,
                                        std::int64_t chunk);

// Number of elements at which a bucket closes; 0: it never closes early.
struct BucketLimits {
  std::int64_t first = 0;
  std::int64_t others = 0;
};
// PyTorch's limits for gradients of `gradient_bytes` bytes each. If the plan sets
// bucket_parameters, it is the limit of all buckets. Without overlap there is one bucket.
[[nodiscard]] BucketLimits pytorch_limits(const Parallelism& parallelism,
                                          std::int64_t gradient_bytes);
// Buckets by PyTorch's rule. `entries`: in backward order. A bucket spans all entries of which it
// has a tensor, so that two buckets may share an entry. Buckets are not padded.
[[nodiscard]] std::vector<Bucket> pytorch_buckets(std::span<const GradientEntry> entries,
                                                  const BucketLimits& limits);

}  // namespace trainyard
