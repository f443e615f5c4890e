// Over how many ranks a scheme divides what it shards, and in which groups.
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
#pragma once

#include <cstdint>

#include "models/plan.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

// Ranks that hold the same weights: replicas, context ranks, and both holders of a stage.
[[nodiscard]] std::int64_t data_ranks(const Parallelism& parallelism);
// Of them, those that divide the optimizer state among them; 1 without ZeRO.
[[nodiscard]] std::int64_t optimizer_shards(const Parallelism& parallelism);

// The same of the experts of a rank, which have replicas of their own (rank_grid.hpp).
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

}  // namespace trainyard
