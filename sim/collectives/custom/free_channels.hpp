// Channels for messages that run side by side: each gets the lowest one on which neither its sender
// nor its receiver has another.
//
//   FreeChannels free;
//   message.channel = free.take(message.from, message.to);
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace trainyard {

class FreeChannels {
 public:
  [[nodiscard]] std::uint32_t take(std::uint32_t from, std::uint32_t to) {
    std::set<std::uint32_t>& sends = sends_[from];
    std::set<std::uint32_t>& receives = receives_[to];
    std::uint32_t channel = 0;
    while (sends.contains(channel) || receives.contains(channel)) ++channel;
    sends.insert(channel);
    receives.insert(channel);
    return channel;
  }

 private:
  std::map<std::uint32_t, std::set<std::uint32_t>> sends_;
  std::map<std::uint32_t, std::set<std::uint32_t>> receives_;
};

}  // namespace trainyard
