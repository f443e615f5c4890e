#include "sim/engine/stretch_shapes.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/mixed.hpp"

namespace trainyard {
namespace {

using Key = std::vector<std::uint32_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = key.size();
    for (const std::uint32_t word : key) hash = hash_with(hash, word);
    return hash;
  }
};

class ShapeWriter {
 public:
  ShapeWriter(const Program& program, const ProgramOrder& order,
              const std::vector<InstanceStretches>& found)
      : program_(program),
        order_(order),
        instances_(program.operations.instances()),
        found_(found),
        variants_(found.size()),
        piece_(program.operations.size(), kNone),
        seen_(program.operations.size(), 0) {
    result_.shape_of.assign(program.operations.size(), kAlone);
  }

  ProgramStretches written() {
    for (const InstanceStretches& instance : found_)
      for (const std::vector<OpIndex>& members : instance.stretches) mark(members);
    for (std::uint32_t number = 0; number < instances_.size(); ++number) find_seen(number);
    std::ranges::sort(awaited_);
    const auto rest = std::ranges::unique(awaited_);
    awaited_.erase(rest.begin(), rest.end());
    for (std::uint32_t number = 0; number < instances_.size(); ++number) write(number);
    return std::move(result_);
  }

 private:
  // Shapes of an instance's stretches, which follow from what later instances wait for.
  struct Variant {
    std::vector<OpIndex> awaited;  // members, by their places in the block
    std::vector<std::uint32_t> shapes;
  };

  void mark(const std::vector<OpIndex>& members) {
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      result_.shape_of[members[i]] = kWithin;
      piece_[members[i]] = i;
    }
    result_.shape_of[members.front()] = kAlone;
  }

  // What a later member of a stretch waits for outside comes before its head: nobody needs to tell
  // it.
  void find_seen(std::uint32_t number) {
    const Instance& instance = instances_[number];
    const OpIndex searched = instances_[found_[number].as].first;
    const std::span<const OpIndex> outside = order_.outside_of(number);
    for (const BlockEntries::Edge& edge : order_.entries_of(instance.block).edges)
      if (outside[edge.entry] != kNone && result_.shape_of[searched + edge.place] != kWithin)
        awaited_.push_back(outside[edge.entry]);
    if (found_[number].as != number) return;
    for (OpIndex op = instance.first; op < end_of(instance); ++op) {
      if (result_.shape_of[op] == kWithin) continue;
      for_each_input(program_, order_, op, [&](OpIndex input) {
        if (input >= instance.first) seen_[input] = 1;
      });
    }
  }

  [[nodiscard]] OpIndex end_of(const Instance& instance) const {
    return instance.first + program_.operations.block_of(instance).count;
  }

  void write(std::uint32_t number) {
    const std::uint32_t as = found_[number].as;
    const InstanceStretches& found = found_[as];
    if (found.stretches.empty()) return;
    const Instance& instance = instances_[number];
    const OpIndex searched = instances_[as].first;
    const std::vector<std::uint32_t>& shapes = variant(instance, as).shapes;
    std::uint32_t* const own = result_.shape_of.data() + instance.first;
    if (number != as)
      std::copy_n(result_.shape_of.data() + searched, program_.operations.block_of(instance).count,
                  own);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      own[found.stretches[i].front() - searched] = shapes[i];
    result_.stretches += static_cast<std::uint32_t>(shapes.size());
  }

  [[nodiscard]] const Variant& variant(const Instance& instance, std::uint32_t as) {
    const OpIndex searched = instances_[as].first;
    std::vector<OpIndex> awaited;
    for (auto op = std::ranges::lower_bound(awaited_, instance.first);
         op != awaited_.end() && *op < end_of(instance); ++op)
      if (piece_[*op - instance.first + searched] != kNone) awaited.push_back(*op - instance.first);
    std::vector<Variant>& known = variants_[as];
    const auto same = std::ranges::find(known, awaited, &Variant::awaited);
    if (same != known.end()) return *same;
    Variant fresh;
    const std::vector<std::uint8_t> within(seen_.begin() + searched,
                                           seen_.begin() + end_of(instances_[as]));
    for (const OpIndex place : awaited) seen_[searched + place] = 1;
    for (const std::vector<OpIndex>& members : found_[as].stretches)
      fresh.shapes.push_back(shape_of(members));
    std::ranges::copy(within, seen_.begin() + searched);
    fresh.awaited = std::move(awaited);
    return known.emplace_back(std::move(fresh));
  }

  // Stretches follow one another: what lies between a stretch's ends and has a number is its own.
  template <class Visit>
  void for_each_piece_before(OpIndex op, OpIndex head, const Visit& visit) const {
    for_each_input(program_, order_, op, [&](OpIndex input) {
      if (input >= head && piece_[input] != kNone) visit(piece_[input]);
    });
  }

  [[nodiscard]] bool is_seen(OpIndex op, const std::vector<OpIndex>& members) const {
    return seen_[op] != 0 || op == members.back();
  }

  std::uint32_t shape_of(const std::vector<OpIndex>& members) {
    const auto [entry, fresh] =
        known_.try_emplace(key(members), static_cast<std::uint32_t>(result_.shapes.size()));
    if (fresh) result_.shapes.push_back(shape(members));
    return entry->second;
  }

  // All that makes the stretch what it is.
  [[nodiscard]] Key key(const std::vector<OpIndex>& members) const {
    Key words;
    for (const OpIndex op : members) {
      const Operation& operation = program_.operations[op];
      const std::uint32_t seen = is_seen(op, members) ? 1 : 0;
      const auto kind = static_cast<std::uint32_t>(operation.kind);
      words.push_back(op - members.front());
      words.push_back(std::uint32_t{operation.slot} << 16U | kind << 8U | seen);
      words.push_back(operation.payload);
      for_each_piece_before(op, members.front(),
                            [&](std::uint32_t piece) { words.push_back(piece); });
      words.push_back(kNone);
    }
    return words;
  }

  [[nodiscard]] StretchShape shape(const std::vector<OpIndex>& members) const {
    StretchShape result;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const Operation& operation = program_.operations[members[i]];
      result.pieces.push_back({.offset = members[i] - members.front(),
                               .kind = operation.kind,
                               .slot = operation.slot,
                               .payload = operation.payload,
                               .seen = is_seen(members[i], members)});
      for_each_piece_before(members[i], members.front(), [&](std::uint32_t before) {
        edges.emplace_back(before, i);
        ++result.pieces.back().waits_for;
      });
    }
    std::ranges::sort(edges);
    for (const auto& [from, to] : edges) {
      StretchShape::Piece& piece = result.pieces[from];
      if (piece.next_end == piece.next_begin)
        piece.next_begin = piece.next_end = static_cast<std::uint32_t>(result.next.size());
      ++piece.next_end;
      result.next.push_back(to);
    }
    return result;
  }

  const Program& program_;
  const ProgramOrder& order_;
  const std::span<const Instance> instances_;
  const std::vector<InstanceStretches>& found_;
  std::vector<std::vector<Variant>> variants_;  // by instance searched
  std::vector<std::uint32_t> piece_;            // by operation of those: its number in its stretch
  std::vector<std::uint8_t> seen_;  // by operation of those: 1 where one outside its stretch, but
                                    // of its instance, waits for it
  std::vector<OpIndex> awaited_;    // by operations of later instances
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  ProgramStretches result_;
};

}  // namespace

ProgramStretches stretch_shapes(const Program& program, const ProgramOrder& order,
                                const std::vector<InstanceStretches>& found) {
  return ShapeWriter(program, order, found).written();
}

}  // namespace trainyard
