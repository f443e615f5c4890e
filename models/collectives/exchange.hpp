// What the algorithms share in which members talk to several others: one piece per rank, powers of
// two, and a step in which everyone sends to everyone.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <string>

#include "models/collectives/loads.hpp"
#include "models/collectives/message_list.hpp"

namespace trainyard {

[[nodiscard]] inline std::uint32_t ranks_of(const GroupPlace& place) {
  return static_cast<std::uint32_t>(place.gpus.size());
}

// An empty list for a buffer of one piece per rank.
[[nodiscard]] inline MessageList one_piece_per_rank(const GroupPlace& place, Bytes bytes) {
  const std::uint32_t n = ranks_of(place);
  return MessageList({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
}

// The same for a buffer that always travels whole.
[[nodiscard]] inline MessageList one_piece(const GroupPlace& place, Bytes bytes) {
  return MessageList({.ranks = ranks_of(place), .pieces = 1, .piece_bytes = bytes.value()});
}

[[nodiscard]] inline std::optional<std::string> unless_power_of_two(std::string_view name,
                                                                    const GroupPlace& place) {
  if (std::has_single_bit(place.gpus.size())) return {};
  return fmt::format("{} needs a power of two of ranks, not {}", name, place.gpus.size());
}

// Every rank sends pieces_of(from, to) to every other at once; each distance is a channel, so that
// a member's sends run side by side.
template <class PiecesOf>
void add_direct_step(MessageList& list, std::uint32_t ranks, std::uint32_t step, bool reduce,
                     PiecesOf pieces_of) {
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    for (std::uint32_t from = 0; from < ranks; ++from) {
      const std::uint32_t to = (from + distance) % ranks;
      const PieceRange pieces = pieces_of(from, to);
      list.send({.from = from,
                 .to = to,
                 .step = step,
                 .channel = distance - 1,
                 .reduce = reduce,
                 .piece_begin = pieces.begin,
                 .piece_end = pieces.end,
                 .after = {}});
    }
  }
}

}  // namespace trainyard
