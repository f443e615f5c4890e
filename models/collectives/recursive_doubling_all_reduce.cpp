// all_reduce by recursive doubling: in step k every rank swaps its whole sum with the one at
// distance 2^k.
//
//   T = log2(n) (alpha + S/B)          (Thakur, Rabenseifner and Gropp 2005)
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 32 227.254720 us
// (tests/models/collectives/exchange_test.cpp).
#include "models/collectives/exchange.hpp"

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
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return unless_power_of_two(name(), place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::vector<Message> RecursiveDoubling::messages(const GroupPlace& place, Bytes bytes) const {
  const std::uint32_t n = ranks_of(place);
  MessageList list = one_piece(place, bytes);
  for (std::uint32_t step = 0; (1U << step) < n; ++step)
    for (std::uint32_t rank = 0; rank < n; ++rank)
      list.send({.from = rank,
                 .to = rank ^ (1U << step),
                 .step = step,
                 .reduce = true,
                 .piece_begin = 0,
                 .piece_end = 1,
                 .after = {}});
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& recursive_doubling_all_reduce() {
  static const RecursiveDoubling algorithm;
  return algorithm;
}

}  // namespace trainyard
