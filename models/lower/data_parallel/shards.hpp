// Over how many ranks a scheme divides what it shards, and in which groups.
//
//   d replicas (with their context ranks) = s shards x r copies
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

// The same of the experts of a rank, which have replicas of their own (expert_grid.hpp).
[[nodiscard]] std::int64_t expert_shards(const Parallelism& parallelism);

struct ShardSlots {
  std::int64_t all = 1;       // data_ranks
  std::int64_t shards = 1;    // 1: nothing is divided
  std::int64_t replicas = 1;  // copies of the shards; all of them where nothing is divided
  Slot shard = Slot::Data;    // the group of the shards; of everybody where there is one copy
};
// `data`: the slot of everybody that holds the weights in question.
[[nodiscard]] ShardSlots shard_slots(const Parallelism& parallelism, Slot data);
// For weights of experts; they are divided over all of their replicas or over none.
[[nodiscard]] ShardSlots expert_shard_slots(const Parallelism& parallelism, Slot data);

}  // namespace trainyard
