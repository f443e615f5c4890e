// What Chakra and we call collectives, their sizes and their groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/workload.hpp"

namespace trainyard::chakra {

// Chakra's number of a collective (CollectiveCommType). REQUIRES: it is one between GPUs.
[[nodiscard]] std::int64_t collective_number(CollectiveOp op);
// Nothing for those we have no counterpart of (gather, scatter); a barrier is an all_reduce.
[[nodiscard]] std::optional<CollectiveOp> collective_of(std::int64_t number);
// "ALL_GATHER"; "type 12" for an unknown one.
[[nodiscard]] std::string collective_words(std::int64_t number);
inline constexpr std::int64_t kBarrier = 9;

// "0" and "" are the world in Chakra, so that ours count from 1.
[[nodiscard]] std::string group_name(GroupId group);

// Bytes that one of `members` ranks puts in: of an all_gather its own part.
[[nodiscard]] std::int64_t input_bytes(const Call& call, std::size_t members);

// The kind that a description such as "DATA_PARALLEL_GROUP_WITH_CP" means; Other where it says
// none.
[[nodiscard]] GroupKind kind_of(const std::string& description);

}  // namespace trainyard::chakra
