// Buckets of gradients by the rules of PyTorch's DistributedDataParallel, once it has rebuilt them
// in the order in which gradients become ready.
//
// Tensors are taken in order; a bucket closes as soon as it holds its limit, and the tensor that
// crosses it stays in. The first limit is 1 MiB, the others 25 MiB (reference 03 section 2; PyTorch
// c10d/reducer.cpp). GPT-2 124M in fp32 has 13 buckets: 9.009, eleven of 27.038 and 168.272 MiB
// (tests/models/lower/fully_sharded_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/gradients.hpp"

namespace trainyard {

// Elements at which a bucket closes; 0: never.
struct BucketLimits {
  std::int64_t first = 0;
  std::int64_t others = 0;
};
// Of gradients of so many bytes. Where `bucket_parameters` is given it holds for all of them, and
// without overlap there is one bucket.
[[nodiscard]] BucketLimits pytorch_limits(const Parallelism& parallelism,
                                          std::int64_t gradient_bytes);
// `entries` in backward order. A bucket's entries are those it has a tensor of, so that two buckets
// may share one; nothing is padded.
[[nodiscard]] std::vector<Bucket> pytorch_buckets(std::span<const GradientEntry> entries,
                                                  const BucketLimits& limits);

}  // namespace trainyard
