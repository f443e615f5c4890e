#include "models/lower/data_parallel/shards.hpp"

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
          .kept_by = parallelism.reshard_size()};
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
          .kept_by = parallelism.expert_reshard_size()};
}

bool partitions_every_microbatch(const Parallelism& p) {
  return p.zero_stage == 2 && p.reduce_every_microbatch;
}

}  // namespace trainyard
