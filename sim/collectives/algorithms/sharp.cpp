// The messages, phases and registered algorithms of SHARP.
#include "sim/collectives/algorithms/sharp.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/switches.hpp"

namespace trainyard {

namespace {

// Pieces by the node whose ranks own them. The pieces of an all_reduce have no owner and are all
// listed under node 0.
using NodePieces = std::vector<std::vector<std::uint32_t>>;

// Builder for the messages of one call. Each chunk passes three stages: the exchange within nodes
// towards the heads, the reduction trees of the fabric up and down, and the exchange within nodes
// back.
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
        list_({.ranks = ranks_ + static_cast<std::uint32_t>(plan.switches.size()),
               .pieces = pieces_,
               .piece_bytes = call.bytes.value() / pieces_}) {}

  std::vector<Message> take() && {
    // Steps order the messages of one chunk only, because chunks share no pieces. Every chunk
    // starts at step 0; the channels of its stages keep the chunks in order.
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
                .scattered = std::move(pieces)});
  }

  // The pieces of the current chunk for which a head is responsible, by the node that owns them.
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
  // The channel of a head in one stage of a pipeline. Each stage has its own channels.
  [[nodiscard]] std::uint32_t stage(std::uint32_t number, std::uint32_t head) const {
    constexpr std::uint32_t kHeadsMost = 16;  // heads beyond this number share channels
    return number * kHeadsMost + head % kHeadsMost;
  }
  static bool any(std::size_t /*node*/) { return true; }

  void in_node(bool up) {
    if (call_.in_node == InNode::Direct)
      exchange(up);
    else
      pass(up);
  }

  // Direct exchange within nodes. In step k every head receives its part from the member k
  // positions before it, or sends its part back to the member k positions after it.
  void exchange(bool up) {
    const std::size_t members = plan_.placement.smallest();
    for (std::size_t shift = 1; shift < members; ++shift, ++step_) {
      for (const auto& node : plan_.placement.nodes) {
        for (std::uint32_t head = 0; head < plan_.heads.size(); ++head) {
          const std::size_t at = plan_.head_index[head];
          const std::uint32_t group_rank = node[at];
          const std::uint32_t other = node[(at + (up ? members - shift : shift)) % members];
          send(up ? other : group_rank, up ? group_rank : other, joined(pieces_of(head), any), up,
               0);
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

  // If several ranks share a NIC, the pieces that they own move to their head (all_gather) or from
  // it (reduce_scatter), one rank of each node per step.
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

  // Heads send to leaves, every switch to the one above it, and back. The trees of all heads run in
  // the same steps, so there is at most one step per switch and direction.
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

  // Messages of one tree. Upwards, all pieces (a reduction), or those of the nodes below the switch
  // (all_gather). Downwards, all pieces (all_reduce), those of the nodes below (reduce_scatter), or
  // those of the other nodes (all_gather).
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
        const std::uint32_t leaf = plan_.group_rank_of(tree.leaf[node]);
        const std::uint32_t group_rank = plan_.heads[head][node];
        if (up)
          send(group_rank, leaf, upwards(own), !gathers, channel);
        else
          send(leaf, group_rank, downwards(own), false, channel);
      }
      ++step_;
    };
    const std::vector<DeviceId> switches = tree.upwards();
    each_leaf(true);
    for (const DeviceId device : switches) {
      if (device == tree.root) continue;
      const auto is_below = [&](std::size_t node) { return under(device, node); };
      send(plan_.group_rank_of(device), plan_.group_rank_of(tree.parent.at(device)),
           upwards(is_below), !gathers, channel);
      ++step_;
    }
    for (auto device = switches.rbegin(); device != switches.rend(); ++device) {
      if (*device == tree.root) continue;
      const auto is_below = [&](std::size_t node) { return under(*device, node); };
      send(plan_.group_rank_of(tree.parent.at(*device)), plan_.group_rank_of(*device),
           downwards(is_below), false, channel);
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

// Messages of one chunk: for each head, two passes on every node (members + 1 messages each), and
// about four messages per node in the tree.
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

namespace {

class SharpCollective final : public CollectiveAlgorithm {
 public:
  SharpCollective(CollectiveOp op, InNode in_node) : op_(op), in_node_(in_node) {}
  std::string_view name() const override {
    return in_node_ == InNode::Direct ? "sharp" : "nvls_sharp";
  }
  CollectiveOp op() const override { return op_; }
  std::string_view summary() const override;
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    if (op_ != CollectiveOp::AllReduce) return ranks_of(placed);
    const SharpPlan plan = sharp_plan(placed, in_node_);
    return sharp_chunks_most(plan, in_node_) * static_cast<std::uint32_t>(plan.heads.size());
  }
  bool streams() const override { return in_node_ == InNode::NvSwitch; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override {
    if (in_node_ == InNode::Direct) return {};
    const bool free = placed.cluster.facts().latency.intra_step.value() <= 0.0;
    const double chunks = free ? 1.0 : sharp_chunks_most(sharp_plan(placed, in_node_), in_node_);
    return {.relative = std::max(0.15, 2.0 / chunks),
            .reason =
                "the fluid form is one full pipeline; chunks go up, across and down one after the "
                "other, and those behind the first run ahead while it pays its latencies"};
  }
  std::vector<DeviceId> switches(const PlacedGroup& placed) const override {
    return sharp_plan(placed, in_node_).switches;
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return sharp_refusal(placed, in_node_);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override;
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return sharp_messages(sharp_plan(placed, in_node_),
                          {.op = op_, .in_node = in_node_, .bytes = bytes});
  }

 private:
  CollectiveOp op_;
  InNode in_node_;
};

std::string_view SharpCollective::summary() const {
  if (in_node_ == InNode::NvSwitch)
    return "the fabric's switches add, NVSwitch adds and copies in the node";
  if (op_ == CollectiveOp::AllGather)
    return "the fabric's switches copy to all nodes, then a direct exchange in the node";
  if (op_ == CollectiveOp::ReduceScatter)
    return "the fabric's switches add what each node needs, after a direct exchange in the node";
  return "the fabric's switches add, after a direct exchange in the node";
}

// By piece, the head that is responsible for it. In an all_reduce each head has an equal number of
// consecutive pieces.
std::vector<std::uint32_t> heads_of_pieces(const SharpPlan& plan, CollectiveOp op,
                                           std::uint32_t pieces) {
  std::vector<std::uint32_t> heads(pieces);
  const auto parts = static_cast<std::uint32_t>(plan.heads.size());
  for (std::uint32_t piece = 0; piece < pieces; ++piece) heads[piece] = piece / (pieces / parts);
  if (op == CollectiveOp::AllReduce) return heads;
  for (const std::vector<std::uint32_t>& group_ranks : plan.placement.nodes)
    for (std::size_t at = 0; at < group_ranks.size(); ++at)
      heads[group_ranks[at]] = plan.head_of[at];
  return heads;
}

// All messages into and out of switches are in transit at the same time. Those of one head meet in
// the switches of its tree, so they are one flow.
Phase switched_phase(const PlacedGroup& placed, const SharpPlan& plan,
                     const std::vector<std::uint32_t>& head_of_piece,
                     std::span<const Message> messages) {
  Phase phase;
  std::vector<std::vector<std::uint32_t>> of_head(plan.heads.size());
  for (std::uint32_t index = 0; index < messages.size(); ++index)
    of_head[head_of_piece[messages[index].piece(0)]].push_back(index);
  LoadSum loads(placed.cluster);
  for (const std::vector<std::uint32_t>& chosen : of_head) {
    for (const std::uint32_t index : chosen)
      loads.add(hop_between(placed, plan.switches, messages[index].from, messages[index].to),
                messages[index].bytes);
    loads.take_into(phase.flows);
  }
  return phase;
}

std::vector<Phase> SharpCollective::phases(const PlacedGroup& placed, Bytes bytes) const {
  const SharpPlan plan = sharp_plan(placed, in_node_);
  const std::uint32_t ranks = ranks_of(placed);
  // `whole` gives the messages of a single chunk. Messages before the first and after the last one
  // with a switch are the direct exchange; they are synchronous steps and become one phase each.
  // The messages between them are one phase.
  const std::vector<Message> messages =
      sharp_messages(plan, {.op = op_, .in_node = in_node_, .bytes = bytes, .whole = true});
  const auto is_switched = [&](const Message& message) {
    return message.from >= ranks || message.to >= ranks;
  };
  const auto first = std::find_if(messages.begin(), messages.end(), is_switched);
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_switched).base();
  const CollectiveLatency& latency = placed.cluster.facts().latency;
  std::vector<Phase> phases =
      phases_by_step(placed, std::span(messages.begin(), first), FlowOf::Message);
  const std::vector<std::uint32_t> heads_of = heads_of_pieces(plan, op_, pieces(placed));
  Phase switched = switched_phase(placed, plan, heads_of, std::span(first, last));
  for (const std::vector<std::uint32_t>& heads : plan.heads)
    switched.latency = std::max(switched.latency, fabric_latency(placed, heads));
  // The passes through the NVSwitch, one before the fabric and one after it, belong to the same
  // pipeline.
  if (in_node_ == InNode::NvSwitch) switched.latency += 2.0 * latency.intra_step;
  if (phases.empty()) switched.latency += latency.launch;
  phases.push_back(std::move(switched));
  std::vector<Phase> gathers =
      phases_by_step(placed, std::span(last, messages.end()), FlowOf::Message);
  // phases_by_step adds the launch latency to its first phase; this is not the start of the
  // collective.
  if (!gathers.empty()) gathers.front().latency -= latency.launch;
  for (Phase& phase : gathers) phases.push_back(std::move(phase));
  return phases;
}

const CollectiveAlgorithm& sharp_in(InNode in_node) {
  static const SharpCollective direct(CollectiveOp::AllReduce, InNode::Direct);
  static const SharpCollective switched(CollectiveOp::AllReduce, InNode::NvSwitch);
  return in_node == InNode::Direct ? direct : switched;
}

}  // namespace

std::vector<MultiLinkFlow> sharp_flows(const PlacedGroup& placed, InNode in_node, double bytes) {
  return all_flows(sharp_in(in_node).phases(placed, Bytes{bytes}));
}

const CollectiveAlgorithm& sharp_all_reduce() { return sharp_in(InNode::Direct); }
const CollectiveAlgorithm& nvls_sharp_all_reduce() { return sharp_in(InNode::NvSwitch); }

const CollectiveAlgorithm& sharp_all_gather() {
  static const SharpCollective algorithm(CollectiveOp::AllGather, InNode::Direct);
  return algorithm;
}

const CollectiveAlgorithm& sharp_reduce_scatter() {
  static const SharpCollective algorithm(CollectiveOp::ReduceScatter, InNode::Direct);
  return algorithm;
}

}  // namespace trainyard
