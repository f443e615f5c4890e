// broadcast and reduce by pipelined chains: the chunks of the buffer travel along a ring that is
// cut at the root.
//
//    T = (n-2+C)(alpha + S/(CB))          S bytes in C chunks, n ranks
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: C = 64 gives 12 094.051200 us; the best C is
// sqrt(S(n-2)/(alpha B)) = 113.5 (tests/sim/collectives/exchange_test.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "sim/collectives/algorithms/ring.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/pipeline.hpp"

namespace trainyard {

namespace {

// The ring, rotated so that group rank 0 is first (where a broadcast starts) or last (where a
// reduction ends).
Ring cut_at_root(Ring ring, bool root_last) {
  auto begin = std::find(ring.begin(), ring.end(), 0U);
  if (root_last) ++begin;
  std::rotate(ring.begin(), begin, ring.end());
  return ring;
}

std::vector<Ring> cut_rings(const PlacedGroup& placed, bool root_last) {
  std::vector<Ring> rings = rings_of(placed);
  for (Ring& ring : rings) ring = cut_at_root(std::move(ring), root_last);
  return rings;
}

// The hops [begin, end) that carry a chunk in a step: hop i carries chunk step - i. With 3 hops and
// 2 chunks, the steps 0 to 3 use hop 0, hops 0 and 1, hops 1 and 2, and hop 2.
struct HopRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};
HopRange busy_hops(std::uint32_t step, std::uint32_t hops, std::uint32_t chunks) {
  return {.begin = step < chunks ? 0 : step - chunks + 1, .end = std::min(hops, step + 1)};
}

// The flow of one chunk on each hop of a ring. It is the same in every step.
std::vector<MultiLinkFlow> hop_flows(const PlacedGroup& placed, const Ring& ring,
                                     double chunk_bytes, LoadSum& loads) {
  std::vector<MultiLinkFlow> flows;
  for (std::size_t hop = 0; hop + 1 < ring.size(); ++hop) {
    loads.add(hop_route(placed, ring[hop], ring[hop + 1]), chunk_bytes);
    flows.push_back(loads.take());
  }
  return flows;
}

std::uint32_t chain_pieces(const PlacedGroup& placed, const ChainPlan& plan) {
  return static_cast<std::uint32_t>(rings_of(placed).size()) * plan.chunks * plan.pieces_per_chunk;
}

}  // namespace

std::vector<Message> chain_messages(const PlacedGroup& placed, Bytes bytes, const ChainPlan& plan) {
  const std::vector<Ring> rings = cut_rings(placed, plan.reduce);
  const std::uint32_t hops = ranks_of(placed) - 1;
  const std::uint32_t pieces = chain_pieces(placed, plan);
  MessageList list({.ranks = hops + 1, .pieces = pieces, .piece_bytes = bytes.value() / pieces});
  const auto add_chunk = [&](std::uint32_t channel, std::uint32_t hop, std::uint32_t step) {
    const std::uint32_t chunk = channel * plan.chunks + step - hop;
    list.send({.from = rings[channel][hop],
               .to = rings[channel][hop + 1],
               .step = step,
               .channel = channel,
               .reduce = plan.reduce,
               .piece_begin = chunk * plan.pieces_per_chunk,
               .piece_end = (chunk + 1) * plan.pieces_per_chunk});
  };
  for (std::uint32_t step = 0; step + 1 < hops + plan.chunks; ++step)
    for (std::uint32_t channel = 0; channel < rings.size(); ++channel) {
      const HopRange busy = busy_hops(step, hops, plan.chunks);
      for (std::uint32_t hop = busy.begin; hop < busy.end; ++hop) add_chunk(channel, hop, step);
    }
  return std::move(list).take();
}

namespace {

// The reason why the group has too many ranks for chains at any size, or nothing.
std::optional<std::string> chain_refusal(const PlacedGroup& placed) {
  const std::size_t rings = rings_of(placed).size();
  return too_many_messages(fmt::format("{} ranks that pass on {} chunks in each of {} chains",
                                       placed.gpus.size(), kChunksMost, rings),
                           (placed.gpus.size() - 1) * rings * kChunksMost);
}

// The plan of the registered algorithms, with chunks_of() chunks. pieces() must not depend on the
// size, so it always has kChunksMost pieces per ring, and a chunk has kChunksMost / chunks of them.
ChainPlan chain_plan(const PlacedGroup& placed, Bytes bytes, bool reduce) {
  const std::size_t hops = placed.gpus.size() - 1;
  const double share = bytes.value() / static_cast<double>(rings_of(placed).size());
  const std::uint32_t chunks = chunks_of(placed, Bytes{share}, hops);
  return {.chunks = chunks, .pieces_per_chunk = kChunksMost / chunks, .reduce = reduce};
}

// The latencies of the hops of the slowest ring. The rings cross nodes at different hops but run at
// the same time, so the group waits for the ring with the largest sum.
std::vector<Seconds> slowest_ring(const PlacedGroup& placed, const std::vector<Ring>& rings) {
  std::vector<Seconds> slowest;
  Seconds longest;
  for (const Ring& ring : rings) {
    std::vector<Seconds> latencies;
    Seconds sum;
    for (std::size_t hop = 0; hop + 1 < ring.size(); ++hop) {
      latencies.push_back(hop_latency(placed, ring[hop], ring[hop + 1]));
      sum += latencies.back();
    }
    if (!slowest.empty() && sum <= longest) continue;
    slowest = std::move(latencies);
    longest = sum;
  }
  return slowest;
}

// One phase per step. While the pipeline fills, a step takes the latency of the hop that the first
// chunk crosses, afterwards that of the slowest hop: sum over hops of (alpha + S/(CB)) +
// (C-1)(alpha + S/(CB)).
std::vector<Phase> chain_phases(const PlacedGroup& placed, Bytes bytes, const ChainPlan& plan) {
  const std::uint32_t hops = ranks_of(placed) - 1;
  const double chunk_bytes = bytes.value() / chain_pieces(placed, plan) * plan.pieces_per_chunk;
  const std::vector<Ring> rings = cut_rings(placed, plan.reduce);
  const std::vector<Seconds> latencies = slowest_ring(placed, rings);
  std::vector<std::vector<MultiLinkFlow>> flows;  // by ring and hop
  LoadSum loads(placed.cluster);
  for (const Ring& ring : rings) flows.push_back(hop_flows(placed, ring, chunk_bytes, loads));
  const Seconds slowest = *std::ranges::max_element(latencies);
  std::vector<Phase> phases(hops + plan.chunks - 1);
  for (std::uint32_t step = 0; step < phases.size(); ++step) {
    phases[step].latency = step < hops ? latencies[step] : slowest;
    const HopRange busy = busy_hops(step, hops, plan.chunks);
    if (chunk_bytes <= 0.0) continue;
    phases[step].flows.reserve(flows.size() * (busy.end - busy.begin));
    for (const std::vector<MultiLinkFlow>& ring : flows)
      phases[step].flows.insert(phases[step].flows.end(), ring.begin() + busy.begin,
                                ring.begin() + busy.end);
  }
  phases.front().latency += placed.cluster.facts().latency.launch;
  return phases;
}

class ChainCollective final : public CollectiveAlgorithm {
 public:
  explicit ChainCollective(bool reduces) : reduces_(reduces) {}
  std::string_view name() const override { return "chain"; }
  CollectiveOp op() const override {
    return reduces_ ? CollectiveOp::Reduce : CollectiveOp::Broadcast;
  }
  std::string_view summary() const override {
    return reduces_ ? "chunks towards the root along rings, added up on the way"
                    : "chunks from the root along rings, pipelined";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return chain_pieces(placed, chain_plan(placed, Bytes{0.0}, reduces_));
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return chain_refusal(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return chain_phases(placed, bytes, chain_plan(placed, bytes, reduces_));
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return chain_messages(placed, bytes, chain_plan(placed, bytes, reduces_));
  }

 private:
  bool reduces_;
};

}  // namespace

const CollectiveAlgorithm& chain_broadcast() {
  static const ChainCollective algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& chain_reduce() {
  static const ChainCollective algorithm(true);
  return algorithm;
}

}  // namespace trainyard
