// Shards: the number of ranks that divide the weights and gradients of a rank, and their groups.
//
//    d replicas (with their context ranks) = s shards x r copies
//
// An expert has its own replicas, and each copy of the model contains an equal part of them: with
// 64 GPUs, 8 expert-parallel ranks and copies of 16 GPUs, every expert has 2 shards x 4 copies
// (tests/models/lower/sharded_experts_test.cpp).
//
//    const ShardSlots slots = shard_slots({.data = 64, .zero_stage = 3, .shard = 8}, Slot::Data);
//    slots.shards;     // 8, in slots.shard
//    slots.replicas;   // 8, in Slot::Replica
#pragma once

#include <cstdint>

#include "models/plan.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

// Number of ranks that hold the same weights: replicas, context ranks, and with bidirectional
// pipelines both holders of a stage.
[[nodiscard]] std::int64_t data_ranks(const Parallelism& parallelism);
// Number of these ranks that divide the optimizer state; 1 without ZeRO.
[[nodiscard]] std::int64_t optimizer_shards(const Parallelism& parallelism);

// The same for the experts of a rank, which have their own replicas (rank_groups.hpp).
[[nodiscard]] std::int64_t expert_shards(const Parallelism& parallelism);

struct ShardSlots {
  std::int64_t all = 1;          // data_ranks
  std::int64_t shards = 1;       // 1: nothing is divided
  std::int64_t replicas = 1;     // copies of each shard; `all` if nothing is divided
  Slot shard = Slot::Data;       // group of the shards of one copy; `data` if there is one copy
  Slot replica = Slot::Replica;  // group of the ranks that hold the same shard
  // Group of the `kept_by` ranks over which weights stay sharded between forward and backward
  // (ZeRO++ hpZ); 0: they do not stay.
  Slot reshard = Slot::Reshard;
  std::int64_t kept_by = 0;
};
// `data`: the slot of the group of all ranks that hold these weights.
[[nodiscard]] ShardSlots shard_slots(const Parallelism& parallelism, Slot data);
// The same for weights of experts. A copy of the model contains the same fraction of their replicas
// as of all ranks.
[[nodiscard]] ShardSlots expert_shard_slots(const Parallelism& parallelism, Slot data);

// Whether a rank keeps only its own shard of the gradients after every microbatch: ZeRO 2 as
// DeepSpeed runs it.
[[nodiscard]] bool partitions_every_microbatch(const Parallelism& parallelism);

}  // namespace trainyard
