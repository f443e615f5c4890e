// all_gather and reduce_scatter in one step: everyone exchanges straight with everyone.
//
//   T = alpha + (n-1)/n S/B             S the gathered (or scattered) buffer, B of a member's port
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 400.240960 us
// (tests/sim/collectives/new_algorithms_test.cpp).
#include "sim/collectives/exchange.hpp"

namespace trainyard {

namespace {

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
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return too_many_to_all_send_to_all(place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return direct_phases(place, bytes.value() / ranks_of(place), 1);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    MessageList list = one_piece_per_rank(place, bytes);
    add_direct_step(list, ranks_of(place), 0, reduces_, [&](std::uint32_t from, std::uint32_t to) {
      const std::uint32_t piece = reduces_ ? to : from;
      return PieceRange{piece, piece + 1};
    });
    return std::move(list).take();
  }

 private:
  bool reduces_;
};

}  // namespace

const CollectiveAlgorithm& direct_all_gather() {
  static const DirectGather algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& direct_reduce_scatter() {
  static const DirectGather algorithm(true);
  return algorithm;
}

}  // namespace trainyard
