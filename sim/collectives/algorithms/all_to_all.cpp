// all_to_all without levels: every block travels directly to its destination, all at once or in
// rounds.
//
// "pairwise": in round k every rank sends one block to the rank at distance k.
//
//    T = (n-1)(alpha + S/(nB))
//
// S is the number of bytes that one rank sends, including its own block. With uneven blocks a round
// ends with its largest block, so T = sum over rounds of (alpha + largest/B). In the stepwise model
// no round waits for the round before. The sum is therefore an upper bound of the stepwise time;
// the bytes that the busiest member sends or receives give a lower bound.
//
// "direct": all blocks at once, as NCCL groups its sends; the messages of a sender share its port.
// Between nodes each message leaves through the NIC of the local GPU with the receiver's local
// index (NCCL's PXN), so it crosses the fabric on one rail.
//
//    T = alpha + (n-1)/n S/B
//
// With uneven blocks each sender is one flow over all its links, so T is at least alpha plus the
// largest number of bytes that one port sends or receives, divided by B.
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 430.240960 us and 9 400.240960 us
// (tests/sim/collectives/exchange_test.cpp).
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
                       .piece_end = piece + 1});
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

std::vector<Phase> phases_of_all_to_all(const PlacedGroup& placed,
                                        const std::vector<Message>& messages, FlowOf flow_of) {
  if (!messages.empty()) return phases_by_step(placed, messages, flow_of);
  return {{.latency = placed.cluster.facts().latency.launch, .flows = {}}};
}

namespace {

class FlatAllToAll final : public CollectiveAlgorithm {
 public:
  explicit FlatAllToAll(bool in_rounds) : in_rounds_(in_rounds) {}
  std::string_view name() const override { return in_rounds_ ? "pairwise" : "direct"; }
  CollectiveOp op() const override { return CollectiveOp::AllToAll; }
  bool is_plain() const override { return in_rounds_; }
  std::string_view summary() const override {
    return in_rounds_ ? "one partner per round, n-1 rounds"
                      : "all messages at once, one flow per sender";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return ranks_of(placed) * ranks_of(placed);
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return too_many_to_all_send_to_all(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_of_all_to_all(placed, messages(placed, bytes),
                                in_rounds_ ? FlowOf::Message : FlowOf::Sender);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override;

 private:
  bool in_rounds_;
};

// In rounds, each round is a step and all use one channel. At once, each distance has its own
// channel, so the messages of a member run concurrently.
std::vector<Message> FlatAllToAll::messages(const PlacedGroup& placed, Bytes bytes) const {
  const std::uint32_t n = ranks_of(placed);
  AllToAllRounds rounds(placed, bytes);
  for (std::uint32_t distance = 1; distance < n; ++distance)
    for (std::uint32_t from = 0; from < n; ++from)
      rounds.add({.from = from,
                  .to = (from + distance) % n,
                  .step = in_rounds_ ? distance - 1 : 0,
                  .channel = in_rounds_ ? 0 : distance - 1});
  return std::move(rounds).take();
}

}  // namespace

const CollectiveAlgorithm& pairwise_all_to_all() {
  static const FlatAllToAll algorithm(true);
  return algorithm;
}

const CollectiveAlgorithm& direct_all_to_all() {
  static const FlatAllToAll algorithm(false);
  return algorithm;
}

}  // namespace trainyard
