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
              const std::vector<SectionStretches>& found)
      : program_(program),
        order_(order),
        sections_(order.sections()),
        found_(found),
        variants_(found.size()),
        piece_(program.operations.size(), kNone),
        seen_(program.operations.size(), 0) {
    result_.shape_of.assign(program.operations.size(), kAlone);
  }

  ProgramStretches written() {
    for (const SectionStretches& section : found_)
      for (const std::vector<OpIndex>& members : section.stretches) mark(members);
    for (const ProgramSection& section : sections_.all) find_seen(section);
    std::ranges::sort(awaited_);
    const auto rest = std::ranges::unique(awaited_);
    awaited_.erase(rest.begin(), rest.end());
    for (const ProgramSection& section : sections_.all) write(section);
    return std::move(result_);
  }

 private:
  // Shapes of a section's stretches, which follow from what later sections wait for.
  struct Variant {
    std::vector<OpIndex> awaited;  // members, from the section's first operation
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
  void find_seen(const ProgramSection& section) {
    const OpIndex searched = sections_.all[found_[section.number].as].first;
    if (searched != section.first) {
      const auto entries = sections_.entries_of(section);
      const auto outside = sections_.outside_of(section);
      for (std::size_t i = 0; i < entries.size(); ++i)
        if (outside[i] != kNone && result_.shape_of[searched + entries[i].offset] != kWithin)
          awaited_.push_back(outside[i]);
      return;
    }
    for (OpIndex op = section.first; op < section.end(); ++op) {
      if (result_.shape_of[op] == kWithin) continue;
      for_each_input(program_, order_, op, [&](OpIndex input) {
        if (input >= section.first) {
          seen_[input] = 1;
        } else {
          awaited_.push_back(input);
        }
      });
    }
  }

  void write(const ProgramSection& section) {
    const SectionStretches& found = found_[found_[section.number].as];
    if (found.stretches.empty()) return;
    const ProgramSection& searched = sections_.all[found.as];
    const std::vector<std::uint32_t>& shapes = variant(section, searched).shapes;
    std::uint32_t* const own = result_.shape_of.data() + section.first;
    if (section.number != searched.number)
      std::copy_n(result_.shape_of.data() + searched.first, section.count, own);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      own[found.stretches[i].front() - searched.first] = shapes[i];
    result_.stretches += static_cast<std::uint32_t>(shapes.size());
  }

  [[nodiscard]] const Variant& variant(const ProgramSection& section,
                                       const ProgramSection& searched) {
    std::vector<OpIndex> awaited;
    for (auto op = std::ranges::lower_bound(awaited_, section.first);
         op != awaited_.end() && *op < section.end(); ++op)
      if (piece_[*op - section.first + searched.first] != kNone)
        awaited.push_back(*op - section.first);
    std::vector<Variant>& known = variants_[searched.number];
    const auto same = std::ranges::find(known, awaited, &Variant::awaited);
    if (same != known.end()) return *same;
    Variant fresh;
    const std::vector<std::uint8_t> within(seen_.begin() + searched.first,
                                           seen_.begin() + searched.end());
    for (const OpIndex offset : awaited) seen_[searched.first + offset] = 1;
    for (const std::vector<OpIndex>& members : found_[searched.number].stretches)
      fresh.shapes.push_back(shape_of(members));
    std::ranges::copy(within, seen_.begin() + searched.first);
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
  const ProgramSections& sections_;
  const std::vector<SectionStretches>& found_;
  std::vector<std::vector<Variant>> variants_;  // by section searched
  std::vector<std::uint32_t> piece_;            // by operation of those: its number in its stretch
  std::vector<std::uint8_t> seen_;  // by operation of those: 1 where one outside its stretch, but
                                    // of its section, waits for it
  std::vector<OpIndex> awaited_;    // by operations of later sections
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  ProgramStretches result_;
};

}  // namespace

ProgramStretches stretch_shapes(const Program& program, const ProgramOrder& order,
                                const std::vector<SectionStretches>& found) {
  return ShapeWriter(program, order, found).written();
}

}  // namespace trainyard
