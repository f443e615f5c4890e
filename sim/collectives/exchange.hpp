// What the algorithms share in which members talk to several others: one piece per rank, powers of
// two, and a step in which everyone sends to everyone.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/message_list.hpp"

namespace trainyard {

[[nodiscard]] inline std::uint32_t ranks_of(const GroupPlace& place) {
  return static_cast<std::uint32_t>(place.gpus.size());
}

// Why a call cannot consist of so many messages, each on a route of its own. `senders` is the
// subject of the sentence.
[[nodiscard]] inline std::optional<std::string> too_many_messages(const std::string& senders,
                                                                  std::uint64_t messages) {
  constexpr std::uint64_t kMessagesMost = 1ULL << 22U;  // of 2048 ranks that all send to all
  if (messages <= kMessagesMost) return {};
  return fmt::format("{} are {} messages, more than {}", senders, messages, kMessagesMost);
}

[[nodiscard]] inline std::optional<std::string> too_many_to_all_send_to_all(
    const GroupPlace& place) {
  const std::uint64_t n = place.gpus.size();
  if (n == 0) return {};
  return too_many_messages(fmt::format("{} ranks that all send to all others", n), n * (n - 1));
}

// An empty list for a buffer of one piece per rank.
[[nodiscard]] inline MessageList one_piece_per_rank(const GroupPlace& place, Bytes bytes,
                                                    CarriedOn carried_on = CarriedOn::Found) {
  const std::uint32_t n = ranks_of(place);
  return MessageList(
      {.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n, .carried_on = carried_on});
}

// The same for a buffer that always travels whole.
[[nodiscard]] inline MessageList one_piece(const GroupPlace& place, Bytes bytes,
                                           CarriedOn carried_on = CarriedOn::Found) {
  return MessageList({.ranks = ranks_of(place),
                      .pieces = 1,
                      .piece_bytes = bytes.value(),
                      .carried_on = carried_on});
}

// Exchanges at distances of powers of two run among the first p ranks, the largest power of two. Of
// the others rank p + i gives all it has to rank i in a step before, and gets the result from it in
// a step after (Thakur, Rabenseifner and Gropp 2005).
[[nodiscard]] inline std::uint32_t core_of(std::uint32_t ranks) { return std::bit_floor(ranks); }

enum class Extra : std::uint8_t { Give, Get };

// Appends that step, if there are others; returns the step after it.
inline std::uint32_t add_extra_step(MessageList& list, std::uint32_t ranks, PieceRange whole,
                                    std::uint32_t step, Extra extra) {
  const std::uint32_t core = core_of(ranks);
  const bool gives = extra == Extra::Give;
  for (std::uint32_t rank = core; rank < ranks; ++rank)
    list.send({.from = gives ? rank : rank - core,
               .to = gives ? rank - core : rank,
               .step = step,
               .reduce = gives,
               .piece_begin = whole.begin,
               .piece_end = whole.end,
               .after = {}});
  return core == ranks ? step : step + 1;
}

// Every rank sends pieces_of(from, to) to every other at once; each distance is a channel, so that
// a member's sends run side by side.
template <class PiecesOf>
void add_direct_step(MessageList& list, std::uint32_t ranks, std::uint32_t step, bool reduce,
                     PiecesOf pieces_of) {
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    for (std::uint32_t from = 0; from < ranks; ++from) {
      const std::uint32_t to = (from + distance) % ranks;
      const PieceRange pieces = pieces_of(from, to);
      list.send({.from = from,
                 .to = to,
                 .step = step,
                 .channel = distance - 1,
                 .reduce = reduce,
                 .piece_begin = pieces.begin,
                 .piece_end = pieces.end,
                 .after = {}});
    }
  }
}

// The phase of such a step, in which every message has so many bytes: a chain per sender. Without a
// list of messages, which for 2,000 ranks has four million rows.
[[nodiscard]] inline Phase direct_phase(const GroupPlace& place, double bytes) {
  const std::uint32_t ranks = ranks_of(place);
  Phase phase;
  LoadSum loads(place.cluster);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    for (std::uint32_t distance = 1; distance < ranks; ++distance) {
      const std::uint32_t to = (from + distance) % ranks;
      phase.latency = std::max(phase.latency, hop_latency(place, from, to));
      loads.add(hop_route(place, from, to), bytes);
    }
    Chain chain = loads.take();
    if (!chain.loads.empty()) phase.chains.push_back(std::move(chain));
  }
  return phase;
}

// So many of these steps, the first with the launch latency.
[[nodiscard]] inline std::vector<Phase> direct_phases(const GroupPlace& place, double bytes,
                                                      std::size_t steps) {
  std::vector<Phase> phases(steps, direct_phase(place, bytes));
  phases.front().latency += place.cluster.facts().latency.launch;
  return phases;
}

}  // namespace trainyard
