#include "sim/collectives/blocks.hpp"

namespace trainyard {

namespace {

// Pieces into which one block of an all_to_all is cut, or into which its buffer of one rank is.
std::uint32_t pieces_of_block(const Cut& cut) { return cut.pieces / cut.ranks / cut.ranks; }

std::uint32_t pieces_of_buffer(const Cut& cut) {
  return cut.op == CollectiveOp::AllToAll ? cut.pieces / cut.ranks : cut.pieces;
}

// Where piece number `piece` begins when `bytes` is cut in whole bytes.
std::int64_t edge(std::int64_t bytes, std::uint32_t pieces, std::uint32_t piece) {
  const std::int64_t quotient = bytes / pieces;
  const std::int64_t remainder = bytes % pieces;
  return quotient * piece + remainder * piece / pieces;
}

}  // namespace

Blocks blocks_of(const GroupPlace& place, Bytes bytes) {
  return {.ranks = static_cast<std::uint32_t>(place.gpus.size()),
          .bytes = bytes.value(),
          .matrix = place.matrix};
}

double bytes_of(const Message& message, const Cut& cut, double bytes,
                std::span<const std::int64_t> matrix) {
  if (matrix.empty()) return bytes / pieces_of_buffer(cut) * message.piece_count();
  const std::uint32_t parts = pieces_of_block(cut);
  double sum = 0.0;
  for (std::uint32_t i = 0; i < message.piece_count(); ++i)
    sum += static_cast<double>(matrix[message.piece(i) / parts]) / parts;
  return sum;
}

std::int64_t whole_bytes_of(const Message& message, const Cut& cut, const Call& call) {
  const std::uint32_t pieces = pieces_of_buffer(cut);
  const std::span<const std::int64_t> matrix = matrix_of(call);
  if (matrix.empty() && message.scattered.empty())
    return edge(bytes_of(call), pieces, message.piece_end) -
           edge(bytes_of(call), pieces, message.piece_begin);
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < message.piece_count(); ++i) {
    const std::uint32_t piece = message.piece(i);
    if (matrix.empty()) {
      sum += edge(bytes_of(call), pieces, piece + 1) - edge(bytes_of(call), pieces, piece);
    } else {
      const std::uint32_t parts = pieces_of_block(cut);
      const std::int64_t block = matrix[piece / parts];
      sum += edge(block, parts, piece % parts + 1) - edge(block, parts, piece % parts);
    }
  }
  return sum;
}

}  // namespace trainyard
