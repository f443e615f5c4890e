// Functions that the all_to_all algorithms share. Each member sends one block to each other member;
// the blocks are equal, or a byte matrix gives their sizes.
//
//    AllToAllRounds rounds(placed, bytes);
//    rounds.add({.from = 0, .to = 3, .step = 2});     // no message if the matrix has a zero
//    const std::vector<Message> messages = std::move(rounds).take();
//    std::vector<Phase> phases = phases_of_all_to_all(placed, messages, FlowOf::Message);
#pragma once

#include <vector>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

// A message that carries one block directly to its destination.
struct BlockMessage {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t step = 0;
  std::uint32_t channel = 0;
};

// A list of messages without dependencies, in the order of addition. It avoids a MessageList, whose
// table of n^3 entries (n ranks, n^2 pieces) these algorithms do not need.
class AllToAllRounds {
 public:
  AllToAllRounds(const PlacedGroup& placed, Bytes bytes) : blocks_(blocks_of(placed, bytes)) {}
  // Adds the message unless the matrix gives its block zero bytes.
  void add(const BlockMessage& message);
  [[nodiscard]] std::vector<Message> take() && { return std::move(messages_); }

 private:
  Blocks blocks_;
  std::vector<Message> messages_;
};

// `message` with the blocks from all `sources` to all `destinations`: sets its pieces, in ascending
// order, and its bytes. Blocks with zero bytes in the matrix are left out; if all are, the message
// has no pieces.
[[nodiscard]] Message carrying(const Blocks& blocks, Message message,
                               std::span<const std::uint32_t> sources,
                               std::span<const std::uint32_t> destinations);

// phases_by_step, or one phase with only the launch latency if no member sends anything.
[[nodiscard]] std::vector<Phase> phases_of_all_to_all(const PlacedGroup& placed,
                                                      const std::vector<Message>& messages,
                                                      FlowOf flow_of);

}  // namespace trainyard
