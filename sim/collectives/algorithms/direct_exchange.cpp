// Collectives in which every member sends directly to every other member, in one or two steps.
//
//    one_shot    all_reduce: all of S to all others, who add          T = alpha + (n-1) S/B
//    two_shot    all_reduce: parts to their owners, sums to all       T = 2 alpha + 2(n-1)/n S/B
//    direct      all_gather, reduce_scatter: one of these steps       T = alpha + (n-1)/n S/B
//
// S is the size of the whole buffer (gathered or scattered), B the rate of a member's port. n = 8,
// S = 2^30, B = 100 GB/s, alpha = 5 us: 75 166.927680 us, 18 800.481920 us
// (tests/sim/collectives/exchange_test.cpp) and 9 400.240960 us (new_algorithms_test.cpp).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

namespace {

// Appends one step in which every rank sends pieces_of(from, to) to every other rank. Each distance
// has its own channel, so the sends of a member run concurrently.
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
                 .piece_end = pieces.end});
    }
  }
}

// The phase of such a step with `bytes` per message: one flow per sender. It needs no list of
// messages, which would have four million entries for 2,000 ranks.
Phase direct_phase(const PlacedGroup& placed, double bytes) {
  const std::uint32_t ranks = ranks_of(placed);
  Phase phase;
  LoadSum loads(placed.cluster);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    for (std::uint32_t distance = 1; distance < ranks; ++distance) {
      const std::uint32_t to = (from + distance) % ranks;
      phase.latency = std::max(phase.latency, hop_latency(placed, from, to));
      loads.add(hop_route(placed, from, to), bytes);
    }
    loads.take_into(phase.flows);
  }
  return phase;
}

// The phases of `steps` such steps; the first one includes the launch latency.
std::vector<Phase> direct_phases(const PlacedGroup& placed, double bytes, std::size_t steps) {
  std::vector<Phase> phases(steps, direct_phase(placed, bytes));
  phases.front().latency += placed.cluster.facts().latency.launch;
  return phases;
}

class OneShot final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "one_shot"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "everyone's buffer straight to all others: one step, for tiny sizes";
  }
  std::uint32_t pieces(const PlacedGroup& /*placed*/) const override { return 1; }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return too_many_to_all_send_to_all(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return direct_phases(placed, bytes.value(), 1);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    const std::uint32_t n = ranks_of(placed);
    MessageList list({.ranks = n, .pieces = 1, .piece_bytes = bytes.value()});
    add_direct_step(list, n, 0, true, [](std::uint32_t, std::uint32_t) {
      return PieceRange{0, 1};
    });
    return std::move(list).take();
  }
};

class TwoShot final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "two_shot"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "parts straight to their owners, sums straight to all; least bytes";
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return too_many_to_all_send_to_all(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return direct_phases(placed, bytes.value() / ranks_of(placed), 2);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    const std::uint32_t n = ranks_of(placed);
    MessageList list({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
    add_direct_step(list, n, 0, true, [](std::uint32_t, std::uint32_t to) {
      return PieceRange{to, to + 1};
    });
    add_direct_step(list, n, 1, false, [](std::uint32_t from, std::uint32_t) {
      return PieceRange{from, from + 1};
    });
    return std::move(list).take();
  }
};

class DirectGather final : public CollectiveAlgorithm {
 public:
  explicit DirectGather(bool reduces) : reduces_(reduces) {}
  std::string_view name() const override { return "direct"; }
  CollectiveOp op() const override {
    return reduces_ ? CollectiveOp::ReduceScatter : CollectiveOp::AllGather;
  }
  std::string_view summary() const override {
    return reduces_ ? "every part straight to its owner, who adds what arrives: one step"
                    : "every member's part straight to all others: one step";
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return too_many_to_all_send_to_all(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return direct_phases(placed, bytes.value() / ranks_of(placed), 1);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    const std::uint32_t n = ranks_of(placed);
    MessageList list({.ranks = n, .pieces = n, .piece_bytes = bytes.value() / n});
    add_direct_step(list, n, 0, reduces_, [&](std::uint32_t from, std::uint32_t to) {
      const std::uint32_t piece = reduces_ ? to : from;
      return PieceRange{piece, piece + 1};
    });
    return std::move(list).take();
  }

 private:
  bool reduces_;
};

}  // namespace

const CollectiveAlgorithm& one_shot_all_reduce() {
  static const OneShot algorithm;
  return algorithm;
}

const CollectiveAlgorithm& two_shot_all_reduce() {
  static const TwoShot algorithm;
  return algorithm;
}

const CollectiveAlgorithm& direct_all_gather() {
  static const DirectGather algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& direct_reduce_scatter() {
  static const DirectGather algorithm(true);
  return algorithm;
}

}  // namespace trainyard
