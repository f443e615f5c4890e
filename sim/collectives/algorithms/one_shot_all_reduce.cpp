// all_reduce in one step: everyone sends all of S to all others and adds up what arrives.
//
//   T = alpha + (n-1) S/B
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 75 166.927680 us
// (tests/sim/collectives/exchange_test.cpp).
#include "sim/collectives/exchange.hpp"

namespace trainyard {

namespace {

class OneShot final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "one_shot"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "everyone's buffer straight to all others: one step, for tiny sizes";
  }
  std::uint32_t pieces(const GroupPlace& /*place*/) const override { return 1; }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return too_many_to_all_send_to_all(place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return direct_phases(place, bytes.value(), 1);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    const std::uint32_t n = ranks_of(place);
    MessageList list = one_piece(place, bytes);
    add_direct_step(list, n, 0, true, [](std::uint32_t, std::uint32_t) {
      return PieceRange{0, 1};
    });
    return std::move(list).take();
  }
};

}  // namespace

const CollectiveAlgorithm& one_shot_all_reduce() {
  static const OneShot algorithm;
  return algorithm;
}

}  // namespace trainyard
