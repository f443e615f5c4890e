// One pass of a part of the buffer through a switch that adds or copies, as messages.
//
//   SwitchPass pass{.members = roles, .hub = n, .head = 2, .begin = 2, .end = 3, .channel = 2};
//   pass.reduce(list, 0);    // all to the hub, which adds; the sum to the head: steps 0 and 1
//   pass.copy(list, 2);      // the head to the hub; the hub to all: steps 2 and 3
#pragma once

#include <span>

#include "sim/collectives/message_list.hpp"

namespace trainyard {

struct SwitchPass {
  std::span<const std::uint32_t> members;
  std::uint32_t hub = 0;  // role of the switch
  std::uint32_t head = 0;
  std::uint32_t begin = 0;  // pieces
  std::uint32_t end = 0;
  std::uint32_t channel = 0;

  void reduce(MessageList& list, std::uint32_t step) const {
    for (const std::uint32_t member : members) send(list, member, hub, step, true);
    send(list, hub, head, step + 1, false);
  }
  void copy(MessageList& list, std::uint32_t step) const {
    send(list, head, hub, step, false);
    for (const std::uint32_t member : members) send(list, hub, member, step + 1, false);
  }

 private:
  void send(MessageList& list, std::uint32_t from, std::uint32_t to, std::uint32_t step,
            bool reduce) const {
    list.send({.from = from,
               .to = to,
               .step = step,
               .channel = channel,
               .reduce = reduce,
               .piece_begin = begin,
               .piece_end = end,
               .after = {}});
  }
};

}  // namespace trainyard
