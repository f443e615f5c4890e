// all_to_all in two levels. The data for all remote GPUs with local index j is first collected at
// local GPU j over NVLink; then it crosses the fabric on rail j. Each level uses pairwise rounds.
//
//    T = (g-1)(alpha_i + S/(g B_i)) + (N-1)(alpha_e + S/(N B_e))
//
// g GPUs on each of N nodes; S is the number of bytes that one rank sends, including its own block.
// Compared with the flat algorithm, each GPU sends N-1 large messages over the fabric instead of
// (N-1)g small ones. The form is that of PXN in NCCL 2.12 and of the two-dimensional all_to_all of
// Tutel and DeepSpeed-MoE. g = 8, N = 4, NVLink 370.8 GB/s and 4 us, NIC 48.5 GB/s and 14 us, S =
// 2^30: 19 208.030889 us (tests/sim/collectives/all_to_all_test.cpp).
#include "sim/collectives/algorithms/all_to_all.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

// Builder for the messages of the two levels: first within nodes, then along rails.
class TwoLevels {
 public:
  TwoLevels(const PlacedGroup& placed, Bytes bytes)
      : placement_(placement_of(placed)),
        blocks_(blocks_of(placed, bytes)),
        nodes_(static_cast<std::uint32_t>(placement_.nodes.size())),
        members_(static_cast<std::uint32_t>(placement_.smallest())),
        gathered_(blocks_.ranks) {}

  std::vector<Message> messages() && {
    for (std::uint32_t distance = 1; distance < members_; ++distance)
      for (std::uint32_t node = 0; node < nodes_; ++node)
        for (std::uint32_t from = 0; from < members_; ++from)
          gather(node, from, (from + distance) % members_, distance - 1);
    for (std::uint32_t distance = 1; distance < nodes_; ++distance)
      for (std::uint32_t from = 0; from < nodes_; ++from)
        for (std::uint32_t member = 0; member < members_; ++member)
          cross(from, (from + distance) % nodes_, member, members_ - 1 + distance - 1);
    return std::move(messages_);
  }

 private:
  [[nodiscard]] std::uint32_t group_rank(std::uint32_t node, std::uint32_t member) const {
    return placement_.nodes[node][member];
  }

  // Member `from` sends to `to` all its blocks for the GPUs with the local index of `to`, on every
  // node.
  void gather(std::uint32_t node, std::uint32_t from, std::uint32_t to, std::uint32_t step) {
    std::vector<std::uint32_t> likes;
    for (std::uint32_t remote = 0; remote < nodes_; ++remote)
      likes.push_back(group_rank(remote, to));
    const std::uint32_t sender = group_rank(node, from);
    Message message =
        carrying(blocks_, {.from = sender, .to = group_rank(node, to), .step = step, .channel = 0},
                 std::span(&sender, 1), likes);
    if (message.scattered.empty()) return;
    gathered_[message.to].push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.push_back(std::move(message));
  }

  // Sends the data collected at a member of node `from` to the member of node `to` with the same
  // local index. It depends on all messages of the first level to its sender.
  void cross(std::uint32_t from, std::uint32_t to, std::uint32_t member, std::uint32_t step) {
    const std::uint32_t receiver = group_rank(to, member);
    Message message = carrying(
        blocks_, {.from = group_rank(from, member), .to = receiver, .step = step, .channel = 0},
        placement_.nodes[from], std::span(&receiver, 1));
    if (message.scattered.empty()) return;
    message.after = gathered_[message.from];
    messages_.push_back(std::move(message));
  }

  Placement placement_;
  Blocks blocks_;
  std::uint32_t nodes_;
  std::uint32_t members_;
  // By group rank, the messages of the first level that it receives.
  std::vector<std::vector<std::uint32_t>> gathered_;
  std::vector<Message> messages_;
};

class HierarchicalAllToAll final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "hierarchical"; }
  CollectiveOp op() const override { return CollectiveOp::AllToAll; }
  std::string_view summary() const override {
    return "gathered in the node by destination index, then pairwise along each rail";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return ranks_of(placed) * ranks_of(placed);
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    if (auto reason = placement_of(placed).uneven(name())) return reason;
    return too_many_to_all_send_to_all(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_of_all_to_all(placed, messages(placed, bytes), FlowOf::Message);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return TwoLevels(placed, bytes).messages();
  }
};

}  // namespace

const CollectiveAlgorithm& hierarchical_all_to_all() {
  static const HierarchicalAllToAll algorithm;
  return algorithm;
}

}  // namespace trainyard
