// broadcast and reduce by two pipelined binary trees, each for half of the buffer: as many bytes
// per port as a chain, but only log2 n hops.
//
// The trees are NCCL's (double_tree.hpp) over all members except the root, which feeds both. A
// member forwards data in one tree and is a leaf of the other, so no port carries more than the
// buffer.
//
//    T = (D-1+C)(alpha + S/(CB))         D levels of hops, C chunks of each half
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: D = 4, C = 64: 11 575.734720 us, where a chain takes
// 12 094.051200 us (tests/sim/collectives/new_algorithms_test.cpp). Source: Sanders, Speck and
// Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009).
#include <fmt/format.h>

#include <algorithm>

#include "sim/collectives/algorithms/double_tree.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

// One hop of a tree, away from the root.
struct Hop {
  std::uint32_t from = 0;  // group rank
  std::uint32_t to = 0;
  std::uint32_t depth = 0;    // number of hops before it
  std::uint32_t channel = 0;  // one per child and tree: children are served concurrently
  std::uint32_t tree = 0;
};

// The group ranks in node order, rotated so that the root is first.
std::vector<std::uint32_t> from_root_on(const PlacedGroup& placed) {
  std::vector<std::uint32_t> order;
  for (const std::vector<std::uint32_t>& group_ranks : placement_of(placed).nodes)
    order.insert(order.end(), group_ranks.begin(), group_ranks.end());
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0U), order.end());
  return order;
}

std::uint32_t depth_of(const TreeShape& shape, std::uint32_t member) {
  std::uint32_t depth = 0;
  for (auto up = tree_node(shape, member).parent; up; up = tree_node(shape, *up).parent) ++depth;
  return depth;
}

std::vector<Hop> hops_of(const PlacedGroup& placed) {
  const std::vector<std::uint32_t> order = from_root_on(placed);
  const auto members = static_cast<std::uint32_t>(order.size()) - 1;
  std::vector<Hop> hops;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const TreeShape shape{.nodes = members, .mirrored = tree == 1};
    for (std::uint32_t member = 0; member < members; ++member) {
      const auto parent = tree_node(shape, member).parent;
      const bool second = parent && tree_node(shape, *parent).children[1] == member;
      // Member i of a tree is order[i + 1]: the trees leave out the root, which comes first.
      hops.push_back({.from = parent ? order[*parent + 1] : order[0],
                      .to = order[member + 1],
                      .depth = depth_of(shape, member),
                      .channel = 2 * tree + (second ? 1 : 0),
                      .tree = tree});
    }
  }
  return hops;
}

std::uint32_t levels_of_hops(const std::vector<Hop>& hops) {
  return std::ranges::max(hops, {}, &Hop::depth).depth + 1;
}

class TreeRooted final : public CollectiveAlgorithm {
 public:
  explicit TreeRooted(bool reduces) : reduces_(reduces) {}
  std::string_view name() const override { return "tree"; }
  CollectiveOp op() const override {
    return reduces_ ? CollectiveOp::Reduce : CollectiveOp::Broadcast;
  }
  std::string_view summary() const override {
    return reduces_ ? "two pipelined binary trees towards the root, half of the buffer each"
                    : "two pipelined binary trees from the root, half of the buffer each";
  }
  std::uint32_t pieces(const PlacedGroup& /*placed*/) const override { return 2 * kChunksMost; }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    const std::uint64_t n = ranks_of(placed);
    return too_many_messages(
        fmt::format("{} ranks that pass on {} chunks in each of 2 trees", n, kChunksMost),
        2 * (n - 1) * kChunksMost);
  }
  FluidBound fluid_bound(const PlacedGroup& /*placed*/) const override {
    return {.relative = 0.1,
            .reason =
                "a member with one child sends faster than one with two, so messages run "
                "ahead of the steps that the fluid form keeps"};
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, listed(placed, bytes, CarriedOn::LeftOut), FlowOf::Message);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return listed(placed, bytes, CarriedOn::Found);
  }

 private:
  [[nodiscard]] std::vector<Message> listed(const PlacedGroup& placed, Bytes bytes,
                                            CarriedOn carried_on) const;

  bool reduces_;
};

// Chunk c crosses a hop of depth d in step c+d. A reduction runs the steps of a broadcast in
// reverse order with sender and receiver exchanged.
std::vector<Message> TreeRooted::listed(const PlacedGroup& placed, Bytes bytes,
                                        CarriedOn carried_on) const {
  const std::vector<Hop> hops = hops_of(placed);
  const std::uint32_t levels = levels_of_hops(hops);
  const std::uint32_t chunks = chunks_of(placed, bytes, levels);
  const std::uint32_t chunk_pieces = kChunksMost / chunks;
  MessageList list({.ranks = ranks_of(placed),
                    .pieces = 2 * kChunksMost,
                    .piece_bytes = bytes.value() / (2 * kChunksMost),
                    .carried_on = carried_on});
  const std::uint32_t steps = levels - 1 + chunks;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint32_t played = reduces_ ? steps - 1 - step : step;
    for (const Hop& hop : hops) {
      if (played < hop.depth || played - hop.depth >= chunks) continue;
      const std::uint32_t chunk = hop.tree * chunks + played - hop.depth;
      list.send({.from = reduces_ ? hop.to : hop.from,
                 .to = reduces_ ? hop.from : hop.to,
                 .step = step,
                 .channel = hop.channel,
                 .reduce = reduces_,
                 .piece_begin = chunk * chunk_pieces,
                 .piece_end = (chunk + 1) * chunk_pieces});
    }
  }
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& tree_broadcast() {
  static const TreeRooted algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& tree_reduce() {
  static const TreeRooted algorithm(true);
  return algorithm;
}

}  // namespace trainyard
