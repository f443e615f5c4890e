#include "sim/collectives/messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

MessageList::MessageList(const Shape& shape)
    : shape_(shape),
      writers_(shape.carried_on == CarriedOn::Found ? std::size_t{shape.ranks} * shape.pieces : 0) {
}

std::vector<std::uint32_t>& MessageList::writers(std::uint32_t group_rank, std::uint32_t piece) {
  return writers_[std::size_t{group_rank} * shape_.pieces + piece];
}

void MessageList::send(Message message) {
  TY_CHECK(message.from != message.to && message.from < shape_.ranks && message.to < shape_.ranks,
           message.from, message.to);
  TY_CHECK(!message.scattered.empty() || message.piece_begin < message.piece_end,
           message.piece_begin, message.piece_end);
  TY_CHECK(message.piece(message.piece_count() - 1) < shape_.pieces, message.piece_begin,
           message.piece_end);
  const auto index = static_cast<std::uint32_t>(messages_.size());
  message.bytes = shape_.piece_bytes * message.piece_count();
  if (shape_.carried_on == CarriedOn::LeftOut) {
    messages_.push_back(std::move(message));
    return;
  }
  for (std::uint32_t i = 0; i < message.piece_count(); ++i) {
    const std::uint32_t piece = message.piece(i);
    // Writers are ordered by step, so no writer of an earlier step follows the first one of this
    // step.
    for (const std::uint32_t writer : writers(message.from, piece)) {
      if (messages_[writer].step >= message.step) break;
      message.after.push_back(writer);
    }
    std::vector<std::uint32_t>& changed = writers(message.to, piece);
    if (!message.reduce) changed.clear();
    changed.push_back(index);
  }
  std::sort(message.after.begin(), message.after.end());
  message.after.erase(std::unique(message.after.begin(), message.after.end()), message.after.end());
  messages_.push_back(std::move(message));
}

std::optional<std::string> too_many_messages(const std::string& senders, std::uint64_t messages) {
  constexpr std::uint64_t kMessagesMost = 1ULL << 22U;  // 2048 ranks, each sends to all others
  if (messages <= kMessagesMost) return {};
  return fmt::format("{} are {} messages, more than {}", senders, messages, kMessagesMost);
}

std::optional<std::string> too_many_to_all_send_to_all(const PlacedGroup& placed) {
  const std::uint64_t n = placed.gpus.size();
  if (n == 0) return {};
  return too_many_messages(fmt::format("{} ranks that all send to all others", n), n * (n - 1));
}

namespace {

// Number of pieces of one block of an all_to_all. Below, the number of pieces of one rank's buffer.
std::uint32_t pieces_of_block(const Cut& cut) { return cut.pieces / cut.ranks / cut.ranks; }

std::uint32_t pieces_of_buffer(const Cut& cut) {
  return cut.op == CollectiveOp::AllToAll ? cut.pieces / cut.ranks : cut.pieces;
}

// First byte of piece number `piece` if `bytes` is cut into whole bytes: floor(bytes * piece /
// pieces), computed from quotient and remainder so that the product does not overflow.
std::int64_t edge(std::int64_t bytes, std::uint32_t pieces, std::uint32_t piece) {
  const std::int64_t quotient = bytes / pieces;
  const std::int64_t remainder = bytes % pieces;
  return quotient * piece + remainder * piece / pieces;
}

}  // namespace

Blocks blocks_of(const PlacedGroup& placed, Bytes bytes) {
  return {.ranks = ranks_of(placed), .bytes = bytes.value(), .matrix = placed.matrix};
}

double bytes_of(const Message& message, const Cut& cut, double bytes,
                std::span<const std::int64_t> matrix) {
  // Pieces are numbered block by block, so the block of a piece in the matrix is its number divided
  // by the pieces of a block.
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
  // A range of pieces is the difference of two edges, which needs no loop.
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
