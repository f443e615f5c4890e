// What the pieces of a collective's buffer weigh: equal parts of it, or what the byte matrix of an
// uneven all_to_all says.
//
//   const Blocks blocks{.ranks = 8, .bytes = 1e9, .matrix = place.matrix};
//   blocks.between(2, 5);                   // what member 2 sends to member 5, 1.25e8 when even
#pragma once

#include <cstdint>
#include <span>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// The n*n blocks of an all_to_all, as fractions of bytes.
struct Blocks {
  std::uint32_t ranks = 0;
  double bytes = 0.0;                         // all that the busiest member sends, itself included
  std::span<const std::int64_t> matrix = {};  // empty: every block is bytes / ranks

  [[nodiscard]] double between(std::uint32_t from, std::uint32_t to) const {
    return matrix.empty() ? bytes / ranks
                          : static_cast<double>(matrix[std::size_t{from} * ranks + to]);
  }
  // Is there anything to send? Even blocks of no bytes are sent all the same (they take their
  // steps); a zero in a matrix says that there is no message.
  [[nodiscard]] bool sends(std::uint32_t from, std::uint32_t to) const {
    return matrix.empty() || matrix[std::size_t{from} * ranks + to] > 0;
  }
};

[[nodiscard]] Blocks blocks_of(const GroupPlace& place, Bytes bytes);

// How an algorithm cuts the buffer of a call.
struct Cut {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t pieces = 0;  // CollectiveAlgorithm::pieces
};

// Bytes of the pieces that the message carries.
[[nodiscard]] double bytes_of(const Message& message, const Cut& cut, double bytes,
                              std::span<const std::int64_t> matrix);

// The same in whole bytes: each piece is cut so that the parts of the buffer (or of a block of the
// matrix) add up to the whole.
[[nodiscard]] std::int64_t whole_bytes_of(const Message& message, const Cut& cut, const Call& call);

}  // namespace trainyard
