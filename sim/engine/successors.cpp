#include "sim/engine/successors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// A member of a region that nothing outside waits for has no number.
constexpr std::uint32_t kWithoutEdges = kNone - 1;  // an operation that has no number

// By stream: the number of its last operation so far; kNone: it has none, or kWithoutEdges.
using LastOnStream = std::array<std::uint32_t, std::numeric_limits<std::uint8_t>::max() + 1>;

// Numbers the operations of a variant that are outside its regions or are seen from outside.
std::vector<std::uint32_t> numbered(const ProgramRegions::Variant& variant,
                                    const std::vector<RegionShape>& shapes) {
  std::vector<bool> has_edges(variant.size(), false);
  for (OpIndex place = 0; place < variant.size(); ++place) {
    if (variant[place] != kInsideRegion) has_edges[place] = true;
    if (variant[place] >= kInsideRegion) continue;
    for (const RegionShape::Piece& piece : shapes[variant[place]].pieces)
      if (piece.seen) has_edges[place + piece.offset] = true;
  }
  std::vector<std::uint32_t> numbers;
  numbers.reserve(has_edges.size());
  std::uint32_t next = 0;
  for (const bool has : has_edges) numbers.push_back(has ? next++ : kNone);
  return numbers;
}

}  // namespace

// The operations of a block that have their own start condition, with what they wait for.
// Operations of the block are counted from the first number of an instance.
struct Successors::BlockEdges {
  struct Place {
    OpIndex place = 0;
    std::uint8_t stream = 0;
    bool begins_stream = false;    // no operation of the block comes before it on its stream
    std::uint32_t inputs_end = 0;  // its inputs follow those of the place before
  };
  std::vector<Place> places = {};
  // Numbers of operations of the block, or kBlockInput plus the index of an input of the block.
  std::vector<std::uint32_t> inputs = {};
  // For each stream of the block: the stream, and the number of its last operation.
  std::vector<std::pair<std::uint8_t, std::uint32_t>> last = {};
};

Successors::Successors(const Program& program, const ProgramRegions& regions)
    : operations_(program.operations) {
  number_operations(regions);
  sort_edges(incoming_edges(regions));
}

// `variant`: kNone for a block without regions.
Successors::BlockEdges Successors::edges_in(const Block& block, std::uint32_t variant,
                                            const ProgramRegions& regions) const {
  const auto number = [&](OpIndex place) {
    return variant == kNone ? place : numbers_[variant][place];
  };
  const auto written = operations_.written().subspan(block.begin, block.count);
  BlockEdges result;
  LastOnStream last{};
  last.fill(kNone);
  for (OpIndex place = 0; place < block.count; ++place) {
    const Operation& operation = written[place];
    const OpIndex previous = std::exchange(last[operation.stream], place);
    if (variant != kNone && regions.variants[variant][place] == kInsideRegion) continue;
    if (previous != kNone) result.inputs.push_back(number(previous));
    for (const OpIndex input : operations_.dependencies().subspan(
             operation.dependencies_begin,
             operation.dependencies_end - operation.dependencies_begin)) {
      TY_CHECK(input >= kBlockInput || input < place, input, place);
      result.inputs.push_back(input >= kBlockInput ? input : number(input));
    }
    result.places.push_back({.place = place,
                             .stream = operation.stream,
                             .begins_stream = previous == kNone,
                             .inputs_end = static_cast<std::uint32_t>(result.inputs.size())});
  }
  // Operations outside a region wait only for members that are seen, and those have numbers.
  TY_CHECK(std::ranges::find(result.inputs, kNone) == result.inputs.end(), block.begin);
  for (std::size_t stream = 0; stream < last.size(); ++stream)
    if (last[stream] != kNone)
      result.last.emplace_back(static_cast<std::uint8_t>(stream), number(last[stream]));
  return result;
}

// Lists the edges in the order of the operations that they lead to, and numbers the counters. The
// edges of a block or of a variant are found once. Each instance adds its first number, its
// bindings and the last operation on each stream before it.
std::vector<Successors::NumberedEdge> Successors::incoming_edges(const ProgramRegions& regions) {
  std::vector<NumberedEdge> edges;
  std::vector<BlockEdges> plain(operations_.blocks().size());
  std::vector<BlockEdges> contracted(regions.variants.size());
  LastOnStream last{};
  last.fill(kNone);
  const auto follow_stream = [&](const BlockEdges::Place& to, const Edge& edge) {
    if (!to.begins_stream || last[to.stream] == kNone) return;
    TY_CHECK(last[to.stream] != kWithoutEdges, edge.operation);
    edges.push_back({last[to.stream], edge});
  };
  for (std::size_t i = 0; i < variant_of_.size(); ++i) {
    const Instance& instance = operations_.instances()[i];
    const std::uint32_t variant = variant_of_[i];
    BlockEdges& own = variant == kNone ? plain[instance.block] : contracted[variant];
    // Every block has an operation, so `last` is empty only before the first use.
    if (own.last.empty()) own = edges_in(operations_.block_of(instance), variant, regions);
    const std::span<const OpIndex> bindings = operations_.bindings_of(instance);
    const auto number = [&](std::uint32_t from) {
      return from < kBlockInput ? first_number_[i] + from : number_of(bindings[from - kBlockInput]);
    };
    std::uint32_t input = 0;
    for (const BlockEdges::Place& to : own.places) {
      const OpIndex op = instance.first + to.place;
      const auto counter = static_cast<std::uint32_t>(waits_for_.size());
      const std::size_t before = edges.size();
      follow_stream(to, {op, counter});
      for (; input < to.inputs_end; ++input)
        edges.push_back({number(own.inputs[input]), {op, counter}});
      if (edges.size() == before) {
        heads_.push_back(op);
      } else {
        waits_for_.push_back(static_cast<std::uint32_t>(edges.size() - before));
      }
    }
    for (const auto& [stream, of_block] : own.last)
      last[stream] = of_block == kNone ? kWithoutEdges : first_number_[i] + of_block;
  }
  return edges;
}

// A counting sort by the operation that the edges leave. The counts are stored two entries further,
// so that after the prefix sum begin_[n + 1] is the begin of list n. The second pass advances it to
// the end of list n, which is the final value of begin_[n + 1].
void Successors::sort_edges(std::span<const NumberedEdge> edges) {
  begin_.assign(first_number_.back() + 2, 0);
  for (const NumberedEdge& edge : edges) ++begin_[edge.from + 2];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  edges_.resize(edges.size());
  for (const NumberedEdge& edge : edges) edges_[begin_[edge.from + 1]++] = edge.edge;
  begin_.pop_back();
}

void Successors::number_operations(const ProgramRegions& regions) {
  variant_of_ = regions.variant_of;
  for (const ProgramRegions::Variant& variant : regions.variants)
    numbers_.push_back(numbered(variant, regions.shapes));
  std::vector<std::uint32_t> count;  // indexed by variant
  for (const std::vector<std::uint32_t>& numbers : numbers_)
    count.push_back(static_cast<std::uint32_t>(
        std::ranges::count_if(numbers, [](std::uint32_t number) { return number != kNone; })));
  variant_of_.resize(operations_.instances().size(), kNone);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < variant_of_.size(); ++i) {
    first_number_.push_back(next);
    const std::uint32_t variant = variant_of_[i];
    next +=
        variant == kNone ? operations_.block_of(operations_.instances()[i]).count : count[variant];
  }
  first_number_.push_back(next);
}

std::uint32_t Successors::number_of(OpIndex op) const {
  const OperationList::Position position = operations_.position_of(op);
  const std::uint32_t first = first_number_[position.instance];
  const std::uint32_t variant = variant_of_[position.instance];
  if (variant == kNone) return first + position.place;
  const std::uint32_t number = numbers_[variant][position.place];
  TY_CHECK(number != kNone, op);
  return first + number;
}

}  // namespace trainyard
