// all_reduce by recursive doubling: in step k every rank swaps its whole sum with the one at
// distance 2^k.
//
//   T = log2(n) (alpha + S/B)          (Thakur, Rabenseifner and Gropp 2005)
//
// With other than a power of two of ranks two more steps: floor(log2 n) + 2.
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 32 227.254720 us
// (tests/sim/collectives/exchange_test.cpp).
#include "sim/collectives/exchange.hpp"

namespace trainyard {

namespace {

class RecursiveDoubling final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "recursive_doubling"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "whole buffers at distances 1, 2, 4, ...; fewest steps, for small sizes";
  }
  std::uint32_t pieces(const GroupPlace& /*place*/) const override { return 1; }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::vector<Message> RecursiveDoubling::messages(const GroupPlace& place, Bytes bytes) const {
  const std::uint32_t n = ranks_of(place);
  MessageList list = one_piece(place, bytes);
  constexpr PieceRange kWhole{.begin = 0, .end = 1};
  std::uint32_t step = add_extra_step(list, n, kWhole, 0, Extra::Give);
  for (std::uint32_t distance = 1; distance < core_of(n); distance *= 2, ++step)
    for (std::uint32_t rank = 0; rank < core_of(n); ++rank)
      list.send({.from = rank,
                 .to = rank ^ distance,
                 .step = step,
                 .reduce = true,
                 .piece_begin = kWhole.begin,
                 .piece_end = kWhole.end,
                 .after = {}});
  add_extra_step(list, n, kWhole, step, Extra::Get);
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& recursive_doubling_all_reduce() {
  static const RecursiveDoubling algorithm;
  return algorithm;
}

}  // namespace trainyard
