#include "sim/engine/successors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// The last operation of each stream so far; kNone.
using LastOnStream = std::array<OpIndex, std::numeric_limits<std::uint8_t>::max() + 1>;

// The operations of a block that have their own start condition, and the last operation on each of
// its streams.
struct BlockWaiting {
  struct Place {
    OpIndex place = 0;
    OpIndex previous = kNone;  // the operation before it on its stream, in the block
    std::uint8_t stream = 0;
  };
  std::vector<Place> places;
  std::vector<std::pair<std::uint8_t, OpIndex>> last;  // stream and index in the block
};

// `variant`: the regions of the block; null: it has none.
BlockWaiting waiting_in(std::span<const Operation> operations,
                        const ProgramRegions::Variant* variant) {
  BlockWaiting result;
  LastOnStream last{};
  last.fill(kNone);
  for (OpIndex place = 0; place < operations.size(); ++place) {
    const std::uint8_t stream = operations[place].stream;
    const OpIndex previous = std::exchange(last[stream], place);
    if (variant == nullptr || (*variant)[place] != kInsideRegion)
      result.places.push_back({place, previous, stream});
  }
  for (std::size_t stream = 0; stream < last.size(); ++stream)
    if (last[stream] != kNone)
      result.last.emplace_back(static_cast<std::uint8_t>(stream), last[stream]);
  return result;
}

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
  std::uint32_t next = 0;
  for (const bool has : has_edges) numbers.push_back(has ? next++ : kNone);
  return numbers;
}

}  // namespace

Successors::Successors(const Program& program, const ProgramRegions& regions)
    : operations_(program.operations) {
  number_operations(regions);
  const std::vector<Waiting> all = waiting(regions);
  const auto for_each_awaited = [&](const Waiting& to, const auto& visit) {
    if (to.previous != kNone) visit(to.previous);
    for (const OpIndex before : operations_.dependencies_of(to.op)) {
      TY_CHECK(before < to.op, program.name, before, to.op);
      visit(before);
    }
  };
  // Counting sort into CSR lists in two passes. The counts are stored two entries further, so that
  // after the prefix sum begin_[n + 1] is the begin of list n. The second pass advances it to the
  // end of list n, which is the final value of begin_[n + 1].
  begin_.assign(first_number_.back() + 2, 0);
  for (const Waiting& to : all) {
    std::uint32_t edges = 0;
    for_each_awaited(to, [&](OpIndex from) {
      ++begin_[number_of(from) + 2];
      ++edges;
    });
    edges == 0 ? heads_.push_back(to.op) : waits_for_.push_back(edges);
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  edges_.resize(begin_.back());
  std::uint32_t counter = 0;
  for (const Waiting& to : all) {
    bool waits = false;
    for_each_awaited(to, [&](OpIndex from) {
      edges_[begin_[number_of(from) + 1]++] = {to.op, counter};
      waits = true;
    });
    if (waits) ++counter;
  }
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

// The lists of a block or of a variant are found once. Each instance only adds its first operation
// number and the last operation on each stream before it.
std::vector<Successors::Waiting> Successors::waiting(const ProgramRegions& regions) const {
  std::vector<Waiting> result;
  std::vector<BlockWaiting> plain(operations_.blocks().size());
  std::vector<BlockWaiting> contracted(regions.variants.size());
  LastOnStream last{};
  last.fill(kNone);
  for (std::size_t i = 0; i < variant_of_.size(); ++i) {
    const Instance& instance = operations_.instances()[i];
    const std::uint32_t variant = variant_of_[i];
    BlockWaiting& own = variant == kNone ? plain[instance.block] : contracted[variant];
    if (own.places.empty()) {
      const Block& block = operations_.block_of(instance);
      own = waiting_in(operations_.written().subspan(block.begin, block.count),
                       variant == kNone ? nullptr : &regions.variants[variant]);
    }
    for (const auto& [place, previous, stream] : own.places)
      result.push_back(
          {instance.first + place, previous == kNone ? last[stream] : instance.first + previous});
    for (const auto& [stream, place] : own.last) last[stream] = instance.first + place;
  }
  return result;
}

}  // namespace trainyard
