#include "models/collectives/sharp_plan.hpp"

#include <algorithm>
#include <set>

#include "models/collectives/switch_pass.hpp"
#include "models/collectives/switch_routes.hpp"

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

SharpPlan sharp_plan(const GroupPlace& place, InNode in_node) {
  SharpPlan plan;
  plan.placement = placement_of(place);
  plan.head_index = sharp_heads(place, plan.placement).value();
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

class SharpMessages {
 public:
  SharpMessages(const SharpPlan& plan, InNode in_node, std::uint32_t ranks, Bytes bytes)
      : plan_(plan),
        in_node_(in_node),
        ranks_(ranks),
        list_({.ranks = ranks + static_cast<std::uint32_t>(plan.parties.size()),
               .pieces = static_cast<std::uint32_t>(plan.heads.size()),
               .piece_bytes = bytes.value() / static_cast<double>(plan.heads.size())}) {}

  std::vector<Message> take() && {
    if (in_node_ == InNode::Direct)
      exchange(true);
    else
      pass(true);
    climb();
    if (in_node_ == InNode::Direct)
      exchange(false);
    else
      pass(false);
    return std::move(list_).take();
  }

 private:
  void send(std::uint32_t from, std::uint32_t to, std::size_t head, bool reduce,
            std::uint32_t channel) {
    const auto piece = static_cast<std::uint32_t>(head);
    list_.send({.from = from,
                .to = to,
                .step = step_,
                .channel = channel,
                .reduce = reduce,
                .piece_begin = piece,
                .piece_end = piece + 1,
                .after = {}});
  }

  // Step k brings every head the part of the member k places before it, or back.
  void exchange(bool up) {
    const std::size_t members = plan_.placement.smallest();
    for (std::size_t shift = 1; shift < members; ++shift, ++step_) {
      for (const auto& node : plan_.placement.nodes) {
        for (std::size_t head = 0; head < plan_.heads.size(); ++head) {
          const std::size_t at = plan_.head_index[head];
          const std::uint32_t role = node[at];
          const std::uint32_t other = node[(at + (up ? members - shift : shift)) % members];
          send(up ? other : role, up ? role : other, head, up, 0);
        }
      }
    }
  }

  void pass(bool up) {
    for (std::size_t node = 0; node < plan_.placement.nodes.size(); ++node) {
      for (std::uint32_t head = 0; head < plan_.heads.size(); ++head) {
        const SwitchPass part{.members = plan_.placement.nodes[node],
                              .hub = ranks_ + static_cast<std::uint32_t>(node),
                              .head = plan_.heads[head][node],
                              .begin = head,
                              .end = head + 1,
                              .channel = head};
        if (up)
          part.reduce(list_, step_);
        else
          part.copy(list_, step_);
      }
    }
    step_ += 2;
  }

  // Heads to leaves, every switch to the one above it, and back: at most one step for each switch,
  // each way, since the trees of all heads take them together.
  void climb() {
    const std::uint32_t first = step_;
    std::uint32_t last = first;
    for (std::size_t head = 0; head < plan_.heads.size(); ++head) {
      step_ = first;
      climb_tree(head);
      last = std::max(last, step_);
    }
    step_ = last;
  }

  void climb_tree(std::size_t head) {
    const ReductionTree& tree = plan_.trees[head];
    const std::uint32_t channel =
        in_node_ == InNode::NvSwitch ? static_cast<std::uint32_t>(head) : 0;
    const std::vector<DeviceId> switches = tree.upwards();
    const auto each_leaf = [&](bool up) {
      for (std::size_t node = 0; node < tree.leaf.size(); ++node) {
        const std::uint32_t leaf = plan_.role_of(tree.leaf[node]);
        const std::uint32_t role = plan_.heads[head][node];
        send(up ? role : leaf, up ? leaf : role, head, up, channel);
      }
      ++step_;
    };
    each_leaf(true);
    for (const DeviceId device : switches) {
      if (device == tree.root) continue;
      send(plan_.role_of(device), plan_.role_of(tree.parent.at(device)), head, true, channel);
      ++step_;
    }
    for (auto device = switches.rbegin(); device != switches.rend(); ++device) {
      if (*device == tree.root) continue;
      send(plan_.role_of(tree.parent.at(*device)), plan_.role_of(*device), head, false, channel);
      ++step_;
    }
    each_leaf(false);
  }

  const SharpPlan& plan_;
  InNode in_node_;
  std::uint32_t ranks_;
  MessageList list_;
  std::uint32_t step_ = 0;
};

}  // namespace

std::vector<Message> sharp_messages(const SharpPlan& plan, InNode in_node, std::uint32_t ranks,
                                    Bytes bytes) {
  return SharpMessages(plan, in_node, ranks, bytes).take();
}

}  // namespace trainyard
