// Builder for the list of messages of an algorithm, and the number of bytes of each message.
//
// A message carries pieces. A piece is one of the equal parts of the buffer. In an uneven
// all_to_all it is a part of the bytes that one member sends to another (a block of the byte
// matrix).
//
//    MessageList list({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
//    list.send({.from = 0, .to = 1, .step = 0, .reduce = true, .piece_begin = 3, .piece_end = 4});
//    std::vector<Message> messages = std::move(list).take();
//
//    const Blocks blocks{.ranks = 8, .bytes = 1e9, .matrix = placed.matrix};
//    blocks.between(2, 5);        // bytes that member 2 sends to member 5, 1.25e8 if even
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

// Whether a list computes the dependencies of its messages (the earlier messages whose data a
// message carries on). Phases need only sender, receiver and bytes. If all members send to all
// others, the number of dependencies grows with the cube of the number of ranks.
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

  // Appends the message and sets its bytes. Sets `after` to every message of an *earlier step* that
  // brought the sender one of the pieces; messages of one step run concurrently and do not depend
  // on each other. REQUIRES: steps do not decrease per sender and piece; no message replaces a
  // piece in the step in which its holder sends it.
  void send(Message message);

  [[nodiscard]] std::vector<Message> take() && { return std::move(messages_); }

 private:
  // The messages that produced the content of a piece at a group rank, oldest first. A message that
  // replaces the content clears the list.
  [[nodiscard]] std::vector<std::uint32_t>& writers(std::uint32_t group_rank, std::uint32_t piece);

  Shape shape_;
  std::vector<std::vector<std::uint32_t>> writers_;
  std::vector<Message> messages_;
};

// The reason why a call cannot have so many messages with a route each, or nothing. `senders` is
// the subject of the sentence.
[[nodiscard]] std::optional<std::string> too_many_messages(const std::string& senders,
                                                           std::uint64_t messages);
[[nodiscard]] std::optional<std::string> too_many_to_all_send_to_all(const PlacedGroup& placed);

// The n*n blocks of an all_to_all, in bytes.
struct Blocks {
  std::uint32_t ranks = 0;
  double bytes = 0.0;  // all bytes that the busiest member sends, including its own block
  std::span<const std::int64_t> matrix = {};  // empty: every block is bytes / ranks

  [[nodiscard]] double between(std::uint32_t from, std::uint32_t to) const {
    return matrix.empty() ? bytes / ranks
                          : static_cast<double>(matrix[std::size_t{from} * ranks + to]);
  }
  // True if there is a message from one member to another. An even block of zero bytes still has a
  // message (it takes its steps); a zero in the matrix means that there is no message.
  [[nodiscard]] bool sends(std::uint32_t from, std::uint32_t to) const {
    return matrix.empty() || matrix[std::size_t{from} * ranks + to] > 0;
  }
};

[[nodiscard]] Blocks blocks_of(const PlacedGroup& placed, Bytes bytes);

// The number of pieces into which an algorithm cuts the buffer of a call.
struct Cut {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t pieces = 0;  // CollectiveAlgorithm::pieces
};

// Bytes of all pieces that the message carries.
[[nodiscard]] double bytes_of(const Message& message, const Cut& cut, double bytes,
                              std::span<const std::int64_t> matrix);

// The same in whole bytes. Rounding is such that the pieces of the buffer (or of a block of the
// matrix) sum to exactly its size.
[[nodiscard]] std::int64_t whole_bytes_of(const Message& message, const Cut& cut, const Call& call);

}  // namespace trainyard
