#include "sim/collectives/algorithms/all_to_all.hpp"

#include <algorithm>

namespace trainyard {

void AllToAllRounds::add(const BlockMessage& message) {
  const auto& [from, to, step, channel] = message;
  if (!blocks_.sends(from, to)) return;
  const std::uint32_t piece = from * blocks_.ranks + to;
  messages_.push_back({.from = from,
                       .to = to,
                       .bytes = blocks_.between(from, to),
                       .step = step,
                       .channel = channel,
                       .piece_begin = piece,
                       .piece_end = piece + 1,
                       .after = {}});
}

Message carrying(const Blocks& blocks, Message message, std::span<const std::uint32_t> sources,
                 std::span<const std::uint32_t> destinations) {
  for (const std::uint32_t source : sources) {
    for (const std::uint32_t destination : destinations) {
      if (!blocks.sends(source, destination)) continue;
      message.bytes += blocks.between(source, destination);
      message.scattered.push_back(source * blocks.ranks + destination);
    }
  }
  std::ranges::sort(message.scattered);
  return message;
}

std::vector<Phase> phases_of_all_to_all(const GroupPlace& place,
                                        const std::vector<Message>& messages, ChainOf chain_of) {
  if (!messages.empty()) return phases_by_step(place, messages, chain_of);
  return {{.latency = place.cluster.facts().latency.launch, .chains = {}}};
}

}  // namespace trainyard
