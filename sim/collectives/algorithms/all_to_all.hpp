// The all_to_all algorithms share this: one block from each member to each other one, even or as a
// byte matrix says.
//
//   AllToAllRounds rounds(place, bytes);
//   rounds.add({.from = 0, .to = 3, .step = 2});     // nothing where the matrix has a zero
//   std::vector<Phase> phases = phases_of_all_to_all(place, messages, FlowOf::Message);
#pragma once

#include <vector>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

// A message that carries one block straight to where it belongs.
struct BlockMessage {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t step = 0;
  std::uint32_t channel = 0;
};

// Messages that carry nothing on, in the order they were added. No MessageList with its n^3 pieces
// is needed.
class AllToAllRounds {
 public:
  AllToAllRounds(const GroupPlace& place, Bytes bytes) : blocks_(blocks_of(place, bytes)) {}
  // Leaves out a block that the matrix says is empty.
  void add(const BlockMessage& message);
  [[nodiscard]] std::vector<Message> take() && { return std::move(messages_); }

 private:
  Blocks blocks_;
  std::vector<Message> messages_;
};

// `message` with the blocks of all these sources for all these destinations: pieces in ascending
// order and bytes. Blocks that the matrix says are empty are left out; all empty: no pieces.
[[nodiscard]] Message carrying(const Blocks& blocks, Message message,
                               std::span<const std::uint32_t> sources,
                               std::span<const std::uint32_t> destinations);

// phases_by_step, and the launch alone where no member has anything to send.
[[nodiscard]] std::vector<Phase> phases_of_all_to_all(const GroupPlace& place,
                                                      const std::vector<Message>& messages,
                                                      FlowOf flow_of);

}  // namespace trainyard
