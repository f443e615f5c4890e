#include "models/lower/data_parallel/pytorch_buckets.hpp"

namespace trainyard {

namespace {
constexpr std::int64_t kMebibyte = 1 << 20;
}  // namespace

BucketLimits pytorch_limits(const Parallelism& parallelism, std::int64_t gradient_bytes) {
  if (!parallelism.overlap_grad_reduce) return {};
  const std::int64_t chosen = parallelism.bucket_parameters;
  if (chosen > 0) return {.first = chosen, .others = chosen};
  return {.first = kMebibyte / gradient_bytes, .others = 25 * kMebibyte / gradient_bytes};
}

std::vector<Bucket> pytorch_buckets(std::span<const GradientEntry> entries,
                                    const BucketLimits& limits) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (std::size_t entry = 0; entry < entries.size(); ++entry) {
    for (const Tensor& tensor : entries[entry].tensors) {
      if (open.parameters == 0) open.begin = entry;
      open.end = entry + 1;
      open.parameters += tensor.elements();
      const std::int64_t limit = buckets.empty() ? limits.first : limits.others;
      if (limit == 0 || open.parameters < limit) continue;
      buckets.push_back(open);
      open = {};
    }
  }
  if (open.parameters > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace trainyard
