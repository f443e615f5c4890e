#include "models/lower/data_parallel/shards.hpp"

#include <algorithm>
#include <numeric>

#include "models/pipeline_shape.hpp"

namespace trainyard {

std::int64_t data_ranks(const Parallelism& parallelism) {
  return parallelism.data * parallelism.context * weight_copies(parallelism);
}

// Shards of one copy: shard_size() replicas, with their context ranks and both holders of a stage.
std::int64_t optimizer_shards(const Parallelism& parallelism) {
  if (parallelism.zero_stage == 0) return 1;
  return data_ranks(parallelism) / parallelism.data * parallelism.shard_size();
}

ShardSlots shard_slots(const Parallelism& parallelism, Slot data) {
  const std::int64_t all = data_ranks(parallelism);
  const std::int64_t shards = optimizer_shards(parallelism);
  return {.all = all,
          .shards = shards,
          .replicas = all / shards,
          .shard = shards > 1 && shards < all ? Slot::Shard : data,
          .kept_by = parallelism.reshard_group};
}

std::int64_t expert_shards(const Parallelism& parallelism) {
  if (parallelism.zero_stage == 0) return 1;
  return expert_copies(parallelism) / parallelism.copies();
}

ShardSlots expert_shard_slots(const Parallelism& parallelism, Slot data) {
  const std::int64_t all = expert_copies(parallelism);
  const std::int64_t shards = expert_shards(parallelism);
  return {.all = all,
          .shards = shards,
          .replicas = all / shards,
          .shard = shards > 1 && shards < all ? Slot::ExpertShard : data,
          .replica = Slot::ExpertReplica,
          .reshard = Slot::ExpertReshard,
          .kept_by = parallelism.expert_reshard_group()};
}

// ---- buckets

// Each bucket is padded to a multiple of lcm(d, 128), so that its shards have equal sizes. The
// limit is compared with the sum before padding.
std::vector<Bucket> make_buckets(std::span<const std::int64_t> sizes, std::int64_t limit,
                                 std::int64_t replicas) {
  std::vector<Bucket> buckets;
  Bucket open;
  const std::int64_t multiple = std::lcm(replicas, std::int64_t{128});
  const auto close = [&](std::size_t end) {
    open.end = end;
    open.parameters = (open.parameters + multiple - 1) / multiple * multiple;
    buckets.push_back(open);
    open = {.begin = end, .end = end, .parameters = 0};
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    open.parameters += sizes[i];
    if (limit > 0 && open.parameters >= limit) close(i + 1);
  }
  if (open.begin < sizes.size()) close(sizes.size());
  return buckets;
}

bool partitions_every_microbatch(const Parallelism& p) {
  return p.zero_stage == 2 && p.reduce_every_microbatch;
}

std::int64_t bucket_limit(const Parallelism& p, std::int64_t stage, std::int64_t chunk) {
  if (!partitions_every_microbatch(p) && (!p.overlap_grad_reduce || stage > 0 || chunk > 0))
    return 0;
  return p.bucket_parameters > 0 ? p.bucket_parameters
                                 : std::max<std::int64_t>(40'000'000, 1'000'000 * p.replicas());
}

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
