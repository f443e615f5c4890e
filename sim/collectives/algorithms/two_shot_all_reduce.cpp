// all_reduce in two steps: everyone sends each part to its owner, each owner sends its sum to all.
//
//   T = 2 alpha + 2(n-1)/n S/B
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 18 800.481920 us
// (tests/sim/collectives/exchange_test.cpp).
#include "sim/collectives/exchange.hpp"

namespace trainyard {

namespace {

class TwoShot final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "two_shot"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "parts straight to their owners, sums straight to all; least bytes";
  }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return too_many_to_all_send_to_all(place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return direct_phases(place, bytes.value() / ranks_of(place), 2);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    const std::uint32_t n = ranks_of(place);
    MessageList list = one_piece_per_rank(place, bytes);
    add_direct_step(list, n, 0, true, [](std::uint32_t, std::uint32_t to) {
      return PieceRange{to, to + 1};
    });
    add_direct_step(list, n, 1, false, [](std::uint32_t from, std::uint32_t) {
      return PieceRange{from, from + 1};
    });
    return std::move(list).take();
  }
};

}  // namespace

const CollectiveAlgorithm& two_shot_all_reduce() {
  static const TwoShot algorithm;
  return algorithm;
}

}  // namespace trainyard
