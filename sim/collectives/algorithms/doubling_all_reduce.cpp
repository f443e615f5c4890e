// all_reduce by exchanges at distances of powers of two (Thakur, Rabenseifner and Gropp 2005).
//
// Recursive doubling: in step k every rank exchanges its whole sum with the rank at distance 2^k.
//
//    T = log2(n) (alpha + S/B)
//
// Halving and doubling: every rank exchanges S/2, S/4, ..., S/n with the ranks at distances 1, 2,
// 4, ... and reduces, then repeats the exchanges in reverse order and gathers. It transfers as many
// bytes as a ring in fewer steps. The nearest ranks exchange the most bytes: out of a node of 8
// ranks each rank sends at most S/8.
//
//    T = 2 log2(n) alpha + 2(n-1)/n S/B
//
// If the number of ranks is not a power of two, both algorithms take two more steps of S bytes, and
// the largest power of two p below n replaces n. These steps are between neighbours, which are on
// one node as far as nodes have an even number of ranks.
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 32 227.254720 us and 18 820.481920 us
// (tests/sim/collectives/exchange_test.cpp).
#include <bit>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

namespace {

// The number p of ranks that take part in the exchanges: the largest power of two up to `ranks`.
// Each odd one of the first 2(n - p) ranks sends all its data to the rank before it in a step
// before, and receives the result from it in a step after. The others are numbered anew.
std::uint32_t core_of(std::uint32_t ranks) { return std::bit_floor(ranks); }

// The rank with this number among those that take part. Of 11 ranks, 8 take part: 0, 2, 4, 6 to 10.
std::uint32_t rank_in_core(std::uint32_t ranks, std::uint32_t number) {
  const std::uint32_t extra = ranks - core_of(ranks);
  return number < extra ? 2 * number : number + extra;
}

enum class Extra : std::uint8_t { Give, Get };

// Appends that step if there are such ranks; returns the number of the following step.
std::uint32_t add_extra_step(MessageList& list, std::uint32_t ranks, PieceRange whole,
                             std::uint32_t step, Extra extra) {
  const std::uint32_t core = core_of(ranks);
  const bool gives = extra == Extra::Give;
  for (std::uint32_t rank = 0; rank < 2 * (ranks - core); rank += 2)
    list.send({.from = gives ? rank + 1 : rank,
               .to = gives ? rank : rank + 1,
               .step = step,
               .reduce = gives,
               .piece_begin = whole.begin,
               .piece_end = whole.end});
  return core == ranks ? step : step + 1;
}

class RecursiveDoubling final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "recursive_doubling"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "whole buffers at distances 1, 2, 4, ...; fewest steps, for small sizes";
  }
  std::uint32_t pieces(const PlacedGroup& /*placed*/) const override { return 1; }
  std::optional<std::string> refusal(const PlacedGroup& /*placed*/) const override { return {}; }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, messages(placed, bytes), FlowOf::Message);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override;
};

std::vector<Message> RecursiveDoubling::messages(const PlacedGroup& placed, Bytes bytes) const {
  const std::uint32_t n = ranks_of(placed);
  MessageList list({.ranks = n, .pieces = 1, .piece_bytes = bytes.value()});
  constexpr PieceRange kWhole{.begin = 0, .end = 1};
  std::uint32_t step = add_extra_step(list, n, kWhole, 0, Extra::Give);
  for (std::uint32_t distance = 1; distance < core_of(n); distance *= 2, ++step)
    for (std::uint32_t rank = 0; rank < core_of(n); ++rank)
      list.send({.from = rank_in_core(n, rank),
                 .to = rank_in_core(n, rank ^ distance),
                 .step = step,
                 .reduce = true,
                 .piece_begin = kWhole.begin,
                 .piece_end = kWhole.end});
  add_extra_step(list, n, kWhole, step, Extra::Get);
  return std::move(list).take();
}

// The pieces that `rank` sums after the exchanges at all distances below `beyond`: at each distance
// it keeps the half of the block that is selected by its own bit. Example: rank 5 (binary 101) of 8
// keeps pieces 4 to 7 at distance 1, pieces 4 and 5 at distance 2, piece 5 at distance 4.
PieceRange block_of(std::uint32_t rank, std::uint32_t beyond, std::uint32_t pieces) {
  std::uint32_t begin = 0;
  for (std::uint32_t distance = 1; distance < beyond; distance *= 2) {
    pieces /= 2;
    if ((rank & distance) != 0) begin += pieces;
  }
  return {begin, begin + pieces};
}

class HalvingDoubling final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "halving_doubling"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "halves what is exchanged until each holds a sum, then doubles";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return core_of(ranks_of(placed));
  }
  std::optional<std::string> refusal(const PlacedGroup& /*placed*/) const override { return {}; }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, listed(placed, bytes, CarriedOn::LeftOut), FlowOf::Message);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return listed(placed, bytes, CarriedOn::Found);
  }

 private:
  static std::vector<Message> listed(const PlacedGroup& placed, Bytes bytes, CarriedOn carried_on);
};

std::vector<Message> HalvingDoubling::listed(const PlacedGroup& placed, Bytes bytes,
                                             CarriedOn carried_on) {
  const std::uint32_t n = ranks_of(placed);
  const std::uint32_t core = core_of(n);
  MessageList list(
      {.ranks = n, .pieces = core, .piece_bytes = bytes.value() / core, .carried_on = carried_on});
  std::uint32_t step = add_extra_step(list, n, {0, core}, 0, Extra::Give);
  const auto add_step = [&](std::uint32_t distance, bool reduce) {
    for (std::uint32_t rank = 0; rank < core; ++rank) {
      const std::uint32_t other = rank ^ distance;
      // When it reduces, a rank sends the half that its partner keeps. When it gathers, it sends
      // all pieces that it has complete.
      const PieceRange block = block_of(reduce ? other : rank, 2 * distance, core);
      list.send({.from = rank_in_core(n, rank),
                 .to = rank_in_core(n, other),
                 .step = step,
                 .reduce = reduce,
                 .piece_begin = block.begin,
                 .piece_end = block.end});
    }
    ++step;
  };
  for (std::uint32_t distance = 1; distance < core; distance *= 2) add_step(distance, true);
  for (std::uint32_t distance = core / 2; distance >= 1; distance /= 2) add_step(distance, false);
  add_extra_step(list, n, {0, core}, step, Extra::Get);
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& recursive_doubling_all_reduce() {
  static const RecursiveDoubling algorithm;
  return algorithm;
}

const CollectiveAlgorithm& halving_doubling_all_reduce() {
  static const HalvingDoubling algorithm;
  return algorithm;
}

}  // namespace trainyard
