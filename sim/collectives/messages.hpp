// The messages of an algorithm: how they are listed, and how many bytes each carries.
//
// A message carries pieces: equal parts of the buffer, or of what the byte matrix of an uneven
// all_to_all says that one member sends another (a block).
//
//   MessageList list({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
//   list.send({.from = 0, .to = 1, .step = 0, .reduce = true, .piece_begin = 3, .piece_end = 4});
//   std::vector<Message> messages = std::move(list).take();
//
//   const Blocks blocks{.ranks = 8, .bytes = 1e9, .matrix = place.matrix};
//   blocks.between(2, 5);                   // what member 2 sends to member 5, 1.25e8 when even
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// Pieces [begin, end) of the buffer.
struct PieceRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// Whether a list finds out which messages each one carries on. Phases need only who sends how much
// to whom, and where all send to all there are as many such dependencies as ranks cubed.
enum class CarriedOn : std::uint8_t { Found, LeftOut };

class MessageList {
 public:
  struct Shape {
    std::uint32_t ranks = 0;
    std::uint32_t pieces = 0;
    double piece_bytes = 0.0;
    CarriedOn carried_on = CarriedOn::Found;
  };
  explicit MessageList(const Shape& shape);

  // Appends the message with its bytes, after every message of an *earlier step* that brought the
  // sender one of the pieces (messages of one step run together and do not see each other).
  // REQUIRES: steps do not decrease per sender and piece; no piece is replaced in the step in which
  // its holder sends it.
  void send(Message message);

  [[nodiscard]] std::vector<Message> take() && { return std::move(messages_); }

 private:
  // Messages that made what a group rank holds of a piece, oldest first; a message that replaces
  // clears the others.
  [[nodiscard]] std::vector<std::uint32_t>& writers(std::uint32_t group_rank, std::uint32_t piece);

  Shape shape_;
  std::vector<std::vector<std::uint32_t>> writers_;
  std::vector<Message> messages_;
};

// Why a call cannot consist of so many messages, each on a route of its own. `senders` is the
// subject of the sentence.
[[nodiscard]] std::optional<std::string> too_many_messages(const std::string& senders,
                                                           std::uint64_t messages);
[[nodiscard]] std::optional<std::string> too_many_to_all_send_to_all(const GroupPlace& place);

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
