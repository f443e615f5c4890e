#include "sim/collectives/algorithms/pat.hpp"

#include <bit>

#include "sim/collectives/algorithms/ring.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard::nccl {

namespace {

// Calls visit(offset) for every block that a rank sends in the step of this distance. `offset` is
// the distance from the owner of the block to the rank.
template <class Visit>
void for_each_block(std::uint32_t ranks, std::uint32_t distance, Visit visit) {
  for (std::uint32_t offset = 0; offset + distance < ranks; offset += 2 * distance) visit(offset);
}

class Pat final : public CollectiveAlgorithm {
 public:
  explicit Pat(bool reduces) : reduces_(reduces) {}
  std::string_view name() const override { return "pat"; }
  CollectiveOp op() const override {
    return reduces_ ? CollectiveOp::ReduceScatter : CollectiveOp::AllGather;
  }
  std::string_view summary() const override {
    return "parallel aggregated trees: log2 n steps, few blocks far and many near";
  }
  std::optional<std::string> refusal(const PlacedGroup& /*placed*/) const override { return {}; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override {
    if (even_hops(placed, rings_of(placed))) return {};
    return {.relative = 0.1,
            .reason =
                "where hops differ in latency a member's messages miss each other on its port "
                "and each has it whole for a time"};
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, together(placed, bytes), FlowOf::Sender);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override;

 private:
  [[nodiscard]] std::vector<Message> together(const PlacedGroup& placed, Bytes bytes) const;

  bool reduces_;
};

// The messages of a step with all blocks of a rank as one message. All blocks that a rank sends in
// a step have the same receiver, and loads on links do not distinguish blocks. Separate messages
// would be as many as ranks squared.
std::vector<Message> Pat::together(const PlacedGroup& placed, Bytes bytes) const {
  const std::uint32_t ranks = ranks_of(placed);
  const std::vector<PatSend> sends = pat_sends(ranks);
  std::vector<Message> messages;
  for (std::uint32_t step = 0; step < sends.size(); ++step) {
    const PatSend& send = sends[reduces_ ? sends.size() - 1 - step : step];
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint32_t beyond = (rank + send.distance) % ranks;
      messages.push_back({.from = reduces_ ? beyond : rank,
                          .to = reduces_ ? rank : beyond,
                          .bytes = send.blocks * bytes.value() / ranks,
                          .step = step});
    }
  }
  return messages;
}

// The blocks that a rank sends in one step have different channels, so they travel concurrently.
std::vector<Message> Pat::messages(const PlacedGroup& placed, Bytes bytes) const {
  const std::uint32_t ranks = ranks_of(placed);
  MessageList list({.ranks = ranks, .pieces = ranks, .piece_bytes = bytes.value() / ranks});
  const std::vector<PatSend> sends = pat_sends(ranks);
  for (std::uint32_t step = 0; step < sends.size(); ++step) {
    const std::uint32_t distance = sends[reduces_ ? sends.size() - 1 - step : step].distance;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::uint32_t channel = 0;
      for_each_block(ranks, distance, [&](std::uint32_t offset) {
        const std::uint32_t piece = (rank + ranks - offset) % ranks;
        const std::uint32_t beyond = (rank + distance) % ranks;
        list.send({.from = reduces_ ? beyond : rank,
                   .to = reduces_ ? rank : beyond,
                   .step = step,
                   .channel = channel++,
                   .reduce = reduces_,
                   .piece_begin = piece,
                   .piece_end = piece + 1});
      });
    }
  }
  return std::move(list).take();
}

}  // namespace

std::vector<PatSend> pat_sends(std::uint32_t ranks) {
  std::vector<PatSend> sends;
  for (std::uint32_t distance = std::bit_ceil(ranks) / 2; distance > 0; distance /= 2) {
    PatSend send{.distance = distance, .blocks = 0};
    for_each_block(ranks, distance, [&](std::uint32_t) { ++send.blocks; });
    sends.push_back(send);
  }
  return sends;
}

std::vector<MultiLinkFlow> pat_flows(const PlacedGroup& placed, CollectiveOp op, double bytes) {
  const std::uint32_t ranks = ranks_of(placed);
  LoadSum loads(placed.cluster);
  std::vector<MultiLinkFlow> flows;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (const PatSend& send : pat_sends(ranks)) {
      const std::uint32_t step =
          op == CollectiveOp::AllGather ? send.distance : ranks - send.distance;
      loads.add(hop_route(placed, rank, (rank + step) % ranks), send.blocks * bytes / ranks);
    }
    loads.take_into(flows);
  }
  return flows;
}

const CollectiveAlgorithm& pat_all_gather() {
  static const Pat algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& pat_reduce_scatter() {
  static const Pat algorithm(true);
  return algorithm;
}

}  // namespace trainyard::nccl
