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
        searched_(found.size()) {
    result_.operations = program.operations;
    result_.variant_of.assign(found.size(), kNone);
  }

  ProgramStretches written() {
    for (std::uint32_t number = 0; number < found_.size(); ++number)
      if (found_[number].as == number) mark(number);
    for (std::uint32_t number = 0; number < instances_.size(); ++number) find_seen(number);
    std::ranges::sort(awaited_);
    const auto rest = std::ranges::unique(awaited_);
    awaited_.erase(rest.begin(), rest.end());
    for (std::uint32_t number = 0; number < instances_.size(); ++number) write(number);
    return std::move(result_);
  }

 private:
  // An instance that was searched.
  struct Searched {
    ProgramStretches::Variant within;  // by place; kWithin, and kAlone for heads too
    std::vector<std::uint32_t> piece;  // by place: its number in its stretch; kNone
    // By place: 1 where one outside its stretch, but of its instance, waits for it.
    std::vector<std::uint8_t> seen;
    // Variants follow from what later instances wait for: members, by their places.
    std::vector<std::pair<std::vector<OpIndex>, std::uint32_t>> variants;
  };

  void mark(std::uint32_t number) {
    const OpIndex first = instances_[number].first;
    const OpIndex count = program_.operations.block_of(instances_[number]).count;
    Searched& own = searched_[number];
    own = {.within = ProgramStretches::Variant(count, kAlone),
           .piece = std::vector<std::uint32_t>(count, kNone),
           .seen = std::vector<std::uint8_t>(count, 0),
           .variants = {}};
    for (const std::vector<OpIndex>& members : found_[number].stretches) {
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        own.within[members[i] - first] = kWithin;
        own.piece[members[i] - first] = i;
      }
      own.within[members.front() - first] = kAlone;
    }
  }

  // What a later member of a stretch waits for outside comes before its head: nobody needs to tell
  // it.
  void find_seen(std::uint32_t number) {
    const Instance& instance = instances_[number];
    Searched& as = searched_[found_[number].as];
    const std::span<const OpIndex> outside = order_.outside_of(number);
    for (const BlockEntries::Edge& edge : order_.entries_of(instance.block).edges)
      if (outside[edge.entry] != kNone && as.within[edge.place] != kWithin)
        awaited_.push_back(outside[edge.entry]);
    if (found_[number].as != number) return;
    for (OpIndex op = instance.first; op < end_of(instance); ++op) {
      if (as.within[op - instance.first] == kWithin) continue;
      for_each_input(program_, order_, op, [&](OpIndex input) {
        if (input >= instance.first) as.seen[input - instance.first] = 1;
      });
    }
  }

  [[nodiscard]] OpIndex end_of(const Instance& instance) const {
    return instance.first + program_.operations.block_of(instance).count;
  }

  void write(std::uint32_t number) {
    const std::uint32_t as = found_[number].as;
    const std::size_t stretches = found_[as].stretches.size();
    if (stretches == 0) return;
    result_.variant_of[number] = variant(instances_[number], as);
    result_.stretches += static_cast<std::uint32_t>(stretches);
  }

  [[nodiscard]] std::uint32_t variant(const Instance& instance, std::uint32_t as) {
    first_ = instances_[as].first;
    own_ = &searched_[as];
    std::vector<OpIndex> awaited;
    for (auto op = std::ranges::lower_bound(awaited_, instance.first);
         op != awaited_.end() && *op < end_of(instance); ++op)
      if (own_->piece[*op - instance.first] != kNone) awaited.push_back(*op - instance.first);
    for (const auto& [known, number] : own_->variants)
      if (known == awaited) return number;
    const std::vector<std::uint8_t> seen = own_->seen;
    for (const OpIndex place : awaited) own_->seen[place] = 1;
    ProgramStretches::Variant fresh = own_->within;
    for (const std::vector<OpIndex>& members : found_[as].stretches)
      fresh[members.front() - first_] = shape_of(members);
    own_->seen = seen;
    const auto number = static_cast<std::uint32_t>(result_.variants.size());
    result_.variants.push_back(std::move(fresh));
    own_->variants.emplace_back(std::move(awaited), number);
    return number;
  }

  // Stretches follow one another: what lies between a stretch's ends and has a number is its own.
  template <class Visit>
  void for_each_piece_before(OpIndex op, OpIndex head, const Visit& visit) const {
    for_each_input(program_, order_, op, [&](OpIndex input) {
      if (input < head) return;
      if (const std::uint32_t piece = own_->piece[input - first_]; piece != kNone) visit(piece);
    });
  }

  [[nodiscard]] bool is_seen(OpIndex op, const std::vector<OpIndex>& members) const {
    return own_->seen[op - first_] != 0 || op == members.back();
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
  std::vector<Searched> searched_;  // by instance; empty: it goes as another
  OpIndex first_ = 0;               // operation of the searched instance at hand
  Searched* own_ = nullptr;
  std::vector<OpIndex> awaited_;  // by operations of later instances
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  ProgramStretches result_;
};

}  // namespace

ProgramStretches stretch_shapes(const Program& program, const ProgramOrder& order,
                                const std::vector<InstanceStretches>& found) {
  return ShapeWriter(program, order, found).written();
}

}  // namespace trainyard
