// Writes an algorithm's messages down and finds out which earlier ones each carries on.
//
//   MessageList list({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
//   list.send({.from = 0, .to = 1, .step = 0, .reduce = true, .piece_begin = 3, .piece_end = 4});
//   std::vector<Message> messages = std::move(list).take();
#pragma once

#include <cstdint>
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
  // Messages that made what a role holds of a piece, oldest first; a message that replaces clears
  // the others.
  [[nodiscard]] std::vector<std::uint32_t>& writers(std::uint32_t role, std::uint32_t piece);

  Shape shape_;
  std::vector<std::vector<std::uint32_t>> writers_;
  std::vector<Message> messages_;
};

}  // namespace trainyard
