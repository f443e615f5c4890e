#include "sim/collectives/algorithms/sharp_plan.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/switch_pass.hpp"
#include "sim/collectives/switch_routes.hpp"

namespace trainyard {

std::optional<std::vector<std::uint32_t>> sharp_heads(const GroupPlace& place,
                                                      const Placement& placement) {
  const SwitchRoutes routes(place);
  std::optional<std::vector<std::uint32_t>> common;
  for (const std::vector<std::uint32_t>& roles : placement.nodes) {
    std::set<DeviceId> seen;
    std::vector<std::uint32_t> heads;
    for (std::uint32_t i = 0; i < roles.size(); ++i) {
      const std::optional<DeviceId> nic = routes.nic_of(roles[i]);
      if (nic && seen.insert(*nic).second) heads.push_back(i);
    }
    if (heads.empty() || (common && *common != heads)) return {};
    common = std::move(heads);
  }
  return common;
}

namespace {

// By position in a node, which of the heads has the same NIC.
std::vector<std::uint32_t> heads_of(const GroupPlace& place,
                                    const std::vector<std::uint32_t>& roles,
                                    const std::vector<std::uint32_t>& head_index) {
  const SwitchRoutes routes(place);
  std::vector<std::uint32_t> heads;
  for (const std::uint32_t role : roles) {
    const auto same_nic = [&](std::uint32_t at) {
      return routes.nic_of(roles[at]) == routes.nic_of(role);
    };
    heads.push_back(static_cast<std::uint32_t>(std::ranges::find_if(head_index, same_nic) -
                                               head_index.begin()));
  }
  return heads;
}

}  // namespace

SharpPlan sharp_plan(const GroupPlace& place, InNode in_node) {
  SharpPlan plan;
  plan.placement = placement_of(place);
  plan.head_index = sharp_heads(place, plan.placement).value();
  plan.head_of = heads_of(place, plan.placement.nodes.front(), plan.head_index);
  if (in_node == InNode::NvSwitch)
    for (const auto& roles : plan.placement.nodes)
      plan.parties.push_back(nv_switch_of(place, roles).value());
  std::set<DeviceId> switches;
  for (std::uint32_t head = 0; head < plan.head_index.size(); ++head) {
    std::vector<std::uint32_t> roles;
    for (const auto& node : plan.placement.nodes) roles.push_back(node[plan.head_index[head]]);
    plan.trees.push_back(reduction_tree(place, roles, head).value());
    for (const DeviceId device : plan.trees.back().upwards()) switches.insert(device);
    plan.heads.push_back(std::move(roles));
  }
  plan.parties.insert(plan.parties.end(), switches.begin(), switches.end());
  for (const DeviceId device : plan.parties)
    plan.roles.emplace(device, static_cast<std::uint32_t>(place.gpus.size() + plan.roles.size()));
  return plan;
}

namespace {

// Pieces by the node whose ranks own them; of an all_reduce, all under node 0.
using NodePieces = std::vector<std::vector<std::uint32_t>>;

class SharpMessages {
 public:
  SharpMessages(const SharpPlan& plan, const SharpCall& call)
      : plan_(plan),
        call_(call),
        ranks_(static_cast<std::uint32_t>(plan.placement.nodes.size() * plan.placement.smallest())),
        chunks_most_(sharp_chunks_most(plan, call.in_node)),
        chunks_(stream_chunks(Bytes{call.bytes.value() / static_cast<double>(plan.heads.size())},
                              call.whole ? 1 : chunks_most_)),
        pieces_(by_rank() ? ranks_ : chunks_most_ * static_cast<std::uint32_t>(plan.heads.size())),
        list_({.ranks = ranks_ + static_cast<std::uint32_t>(plan.parties.size()),
               .pieces = pieces_,
               .piece_bytes = call.bytes.value() / pieces_}) {}

  std::vector<Message> take() && {
    for (chunk_ = 0; chunk_ < chunks_; ++chunk_, step_ = 0) {
      if (call_.op == CollectiveOp::AllGather) hand_over(true);
      if (call_.op != CollectiveOp::AllGather) in_node(true);
      climb();
      if (call_.op != CollectiveOp::ReduceScatter) in_node(false);
      if (call_.op == CollectiveOp::ReduceScatter) hand_over(false);
    }
    return std::move(list_).take();
  }

 private:
  [[nodiscard]] bool by_rank() const { return call_.op != CollectiveOp::AllReduce; }
  [[nodiscard]] std::size_t nodes() const { return plan_.placement.nodes.size(); }

  void send(std::uint32_t from, std::uint32_t to, std::vector<std::uint32_t> pieces, bool reduce,
            std::uint32_t channel) {
    if (pieces.empty()) return;
    std::ranges::sort(pieces);
    const std::uint32_t begin = pieces.front();
    const std::uint32_t end = pieces.back() + 1;
    if (end - begin == pieces.size()) pieces.clear();
    list_.send({.from = from,
                .to = to,
                .step = step_,
                .channel = channel,
                .reduce = reduce,
                .piece_begin = begin,
                .piece_end = end,
                .after = {},
                .scattered = std::move(pieces)});
  }

  // What a head answers for in the chunk, by the node that owns it.
  [[nodiscard]] NodePieces pieces_of(std::uint32_t head) const {
    NodePieces pieces(nodes());
    if (!by_rank()) {
      const std::uint32_t width = chunks_most_ / chunks_;
      pieces[0].resize(width);
      std::iota(pieces[0].begin(), pieces[0].end(), head * chunks_most_ + chunk_ * width);
      return pieces;
    }
    for (std::size_t node = 0; node < nodes(); ++node)
      for (std::size_t at = 0; at < plan_.head_of.size(); ++at)
        if (plan_.head_of[at] == head) pieces[node].push_back(plan_.placement.nodes[node][at]);
    return pieces;
  }

  template <class Keep>
  static std::vector<std::uint32_t> joined(const NodePieces& pieces, Keep keep) {
    std::vector<std::uint32_t> all;
    for (std::size_t node = 0; node < pieces.size(); ++node)
      if (keep(node)) all.insert(all.end(), pieces[node].begin(), pieces[node].end());
    return all;
  }
  // Each stage of a pipeline has channels of its own.
  [[nodiscard]] std::uint32_t stage(std::uint32_t number, std::uint32_t head) const {
    constexpr std::uint32_t kHeadsMost = 16;  // more take turns on their channels
    return number * kHeadsMost + head % kHeadsMost;
  }
  static bool any(std::size_t /*node*/) { return true; }

  void in_node(bool up) {
    if (call_.in_node == InNode::Direct)
      exchange(up);
    else
      pass(up);
  }

  // Step k brings every head the part of the member k places before it, or back.
  void exchange(bool up) {
    const std::size_t members = plan_.placement.smallest();
    for (std::size_t shift = 1; shift < members; ++shift, ++step_) {
      for (const auto& node : plan_.placement.nodes) {
        for (std::uint32_t head = 0; head < plan_.heads.size(); ++head) {
          const std::size_t at = plan_.head_index[head];
          const std::uint32_t role = node[at];
          const std::uint32_t other = node[(at + (up ? members - shift : shift)) % members];
          send(up ? other : role, up ? role : other, joined(pieces_of(head), any), up, 0);
        }
      }
    }
  }

  void pass(bool up) {
    for (std::size_t node = 0; node < nodes(); ++node) {
      for (std::uint32_t head = 0; head < plan_.heads.size(); ++head) {
        const std::vector<std::uint32_t> pieces = pieces_of(head).front();
        const SwitchPass part{.members = plan_.placement.nodes[node],
                              .hub = ranks_ + static_cast<std::uint32_t>(node),
                              .head = plan_.heads[head][node],
                              .begin = pieces.front(),
                              .end = pieces.back() + 1,
                              .channel = stage(up ? 0 : 2, head)};
        if (up)
          part.reduce(list_, step_);
        else
          part.copy(list_, step_);
      }
    }
    step_ += 2;
  }

  // Where several ranks share a NIC: what they own, to their head or from it.
  void hand_over(bool up) {
    for (std::size_t at = 0; at < plan_.head_of.size(); ++at) {
      const std::uint32_t head = plan_.head_of[at];
      if (plan_.head_index[head] == at) continue;
      for (std::size_t node = 0; node < nodes(); ++node) {
        const std::uint32_t owner = plan_.placement.nodes[node][at];
        const std::uint32_t at_head = plan_.heads[head][node];
        send(up ? owner : at_head, up ? at_head : owner, {owner}, false, 0);
      }
      ++step_;
    }
  }

  // Heads to leaves, every switch to the one above it, and back: at most one step for each switch,
  // each way, since the trees of all heads take them together.
  void climb() {
    const std::uint32_t first = step_;
    std::uint32_t last = first;
    for (std::uint32_t head = 0; head < plan_.heads.size(); ++head) {
      step_ = first;
      climb_tree(head);
      last = std::max(last, step_);
    }
    step_ = last;
  }

  // Up go all pieces, or those of the nodes below; down all, those of the nodes below, or those of
  // the others.
  void climb_tree(std::uint32_t head) {
    const ReductionTree& tree = plan_.trees[head];
    const NodePieces pieces = pieces_of(head);
    const std::uint32_t channel = call_.in_node == InNode::NvSwitch ? stage(1, head) : 0;
    const bool gathers = call_.op == CollectiveOp::AllGather;
    const auto under = [&](DeviceId device, std::size_t node) { return tree.holds(device, node); };
    const auto below = [&](auto is_below) {
      return joined(pieces, [&](std::size_t node) { return !by_rank() || is_below(node); });
    };
    const auto upwards = [&](auto is_below) {
      return gathers ? below(is_below) : joined(pieces, any);
    };
    const auto downwards = [&](auto is_below) {
      return gathers ? below([&](std::size_t node) { return !is_below(node); }) : below(is_below);
    };
    const auto each_leaf = [&](bool up) {
      for (std::size_t node = 0; node < tree.leaf.size(); ++node) {
        const auto own = [&](std::size_t other) { return other == node; };
        const std::uint32_t leaf = plan_.role_of(tree.leaf[node]);
        const std::uint32_t role = plan_.heads[head][node];
        if (up)
          send(role, leaf, upwards(own), !gathers, channel);
        else
          send(leaf, role, downwards(own), false, channel);
      }
      ++step_;
    };
    const std::vector<DeviceId> switches = tree.upwards();
    each_leaf(true);
    for (const DeviceId device : switches) {
      if (device == tree.root) continue;
      const auto is_below = [&](std::size_t node) { return under(device, node); };
      send(plan_.role_of(device), plan_.role_of(tree.parent.at(device)), upwards(is_below),
           !gathers, channel);
      ++step_;
    }
    for (auto device = switches.rbegin(); device != switches.rend(); ++device) {
      if (*device == tree.root) continue;
      const auto is_below = [&](std::size_t node) { return under(*device, node); };
      send(plan_.role_of(tree.parent.at(*device)), plan_.role_of(*device), downwards(is_below),
           false, channel);
      ++step_;
    }
    each_leaf(false);
  }

  const SharpPlan& plan_;
  SharpCall call_;
  std::uint32_t ranks_;
  std::uint32_t chunks_most_;
  std::uint32_t chunks_;
  std::uint32_t pieces_;
  MessageList list_;
  std::uint32_t chunk_ = 0;
  std::uint32_t step_ = 0;
};

}  // namespace

std::uint32_t sharp_chunks_most(const SharpPlan& plan, InNode in_node) {
  if (in_node == InNode::Direct) return 1;
  constexpr std::size_t kMessagesMost = 1U << 16U;
  const std::size_t nodes = plan.placement.nodes.size();
  const std::size_t of_chunk =
      plan.heads.size() * (2 * nodes * (plan.placement.smallest() + 1) + 4 * nodes);
  const auto fitting = static_cast<std::uint32_t>(kMessagesMost / of_chunk);
  return std::bit_floor(std::clamp(fitting, 1U, kChunksMost));
}

std::vector<Message> sharp_messages(const SharpPlan& plan, const SharpCall& call) {
  return SharpMessages(plan, call).take();
}

}  // namespace trainyard
