// Point to point: one message from group rank 0 to group rank 1.
//
//    T = launch + alpha + S/B  ("direct");  T = alpha + S/B  ("step", part of a larger collective)
#include "sim/collectives/loads.hpp"

namespace trainyard {

namespace {

class SendRecv final : public CollectiveAlgorithm {
 public:
  explicit SendRecv(bool launches) : launches_(launches) {}
  std::string_view name() const override { return launches_ ? "direct" : "step"; }
  CollectiveOp op() const override { return CollectiveOp::SendRecv; }
  bool is_part() const override { return !launches_; }
  std::string_view summary() const override {
    return launches_ ? "one message, on the receiver's rail between nodes"
                     : "one message of a collective played step by step: no launch of its own";
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    if (placed.gpus.size() == 2) return {};
    return "a message has one sender and one receiver";
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    LoadSum loads(placed.cluster);
    loads.add(hop_route(placed, 0, 1), bytes.value());
    Phase phase{.latency = hop_latency(placed, 0, 1), .flows = {}};
    if (launches_) phase.latency += placed.cluster.facts().latency.launch;
    loads.take_into(phase.flows);
    return {std::move(phase)};
  }
  std::vector<Message> messages(const PlacedGroup& /*placed*/, Bytes bytes) const override {
    return {{.from = 0, .to = 1, .bytes = bytes.value(), .piece_begin = 0, .piece_end = 2}};
  }

 private:
  bool launches_;
};

}  // namespace

const CollectiveAlgorithm& send_recv_direct() {
  static const SendRecv algorithm(true);
  return algorithm;
}

const CollectiveAlgorithm& send_recv_step() {
  static const SendRecv algorithm(false);
  return algorithm;
}

}  // namespace trainyard
