#include "sim/collectives/message_list.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

MessageList::MessageList(const Shape& shape)
    : shape_(shape),
      writers_(shape.carried_on == CarriedOn::Found ? std::size_t{shape.ranks} * shape.pieces : 0) {
}

std::vector<std::uint32_t>& MessageList::writers(std::uint32_t role, std::uint32_t piece) {
  return writers_[std::size_t{role} * shape_.pieces + piece];
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
    // Steps do not decrease: behind the first writer of this step there is no earlier one.
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

}  // namespace trainyard
