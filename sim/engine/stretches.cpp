#include "sim/engine/stretches.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/mixed.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostPieces = 4096;
// Which of the stretches before may be a model, counted from the last: forwards and backwards take
// turns.
constexpr std::array<std::size_t, 4> kModels = {2, 1, 3, 4};

struct Stretch {
  std::vector<OpIndex> members;  // in issue order
  // An earlier one with the same kinds, columns and edges in the same places; kNone: none is known.
  std::uint32_t copy_of = kNone;
};

class StretchFinder {
 public:
  StretchFinder(const Program& program, const std::vector<bool>& joinable, ProgramOrder order)
      : operations_(program.operations),
        dependencies_(program.dependencies),
        joinable_(joinable),
        order_(std::move(order)),
        columns_(order_.column_of()),
        computations_(order_.columns()),
        number_(operations_.size(), kNone) {
    std::vector<OpIndex> last(computations_.size(), kNone);
    previous_.reserve(operations_.size());
    for (OpIndex op = 0; op < operations_.size(); ++op) {
      const std::uint8_t column = order_.column(op);
      previous_.push_back(std::exchange(last[column], op));
      if (operations_[op].kind == OpKind::Compute) computations_[column].push_back(op);
    }
  }

  std::vector<Stretch> found() {
    std::vector<Stretch> stretches;
    const auto count = static_cast<OpIndex>(operations_.size());
    for (OpIndex op = 0; op < count; ++op) {
      if (operations_[op].kind != OpKind::Compute || !joinable_[op]) continue;
      if (!computes_alone_from(op)) continue;
      Stretch stretch = grown(op, stretches);
      if (stretch.members.size() < 2 || !computes_alone_to(stretch.members.back())) continue;
      op = stretch.members.back();
      stretches.push_back(std::move(stretch));
    }
    return stretches;
  }

  template <class Visit>
  void for_each_input(OpIndex op, const Visit& visit) const {
    if (previous_[op] != kNone) visit(previous_[op]);
    const Operation& operation = operations_[op];
    for (std::uint32_t i = operation.dependencies_begin; i < operation.dependencies_end; ++i)
      visit(dependencies_[i]);
  }

 private:
  // Every computation issued earlier has ended when `head` starts.
  [[nodiscard]] bool computes_alone_from(OpIndex head) const {
    return std::ranges::all_of(computations_, [&](const std::vector<OpIndex>& stream) {
      const auto at = std::ranges::lower_bound(stream, head);
      return at == stream.begin() || order_.before(*(at - 1), head);
    });
  }
  // No computation issued later starts before `last` has ended.
  [[nodiscard]] bool computes_alone_to(OpIndex last) const {
    return std::ranges::all_of(computations_, [&](const std::vector<OpIndex>& stream) {
      const auto next = std::ranges::upper_bound(stream, last);
      return next == stream.end() || order_.before(last, *next);
    });
  }

  // From the head to the last operation that comes after all others.
  Stretch grown(OpIndex head, std::span<const Stretch> earlier) {
    Stretch stretch{.members = {head}};
    std::vector<OpIndex>& members = stretch.members;
    number_[head] = head;
    const std::uint32_t model = begins_like(head, earlier);
    if (model != kNone) copy(earlier[model].members, members);
    const bool whole = model != kNone && members.size() == earlier[model].members.size();
    std::size_t kept = whole ? members.size() : last_of(members);
    if (whole) set_tails(members);
    const std::span<const Operation> operations = operations_;
    const std::int32_t microbatch = operations[head].microbatch;
    const std::span<const OpIndex> done = order_.after(head);
    for (OpIndex op = members.back() + 1; op < operations.size() && members.size() < kMostPieces;
         ++op) {
      if (operations[op].microbatch != microbatch) break;
      if (!joinable_[op] || !follows(op, head, done)) {
        if (operations[op].kind == OpKind::Compute) break;
        continue;
      }
      number_[op] = head;
      members.push_back(op);
      if (comes_last(op)) kept = members.size();
    }
    members.resize(kept);
    if (whole && kept == earlier[model].members.size()) stretch.copy_of = model;
    return stretch;
  }

  // Of the last stretches one whose head is the same kernel in the same part of the step.
  [[nodiscard]] std::uint32_t begins_like(OpIndex head, std::span<const Stretch> earlier) const {
    const Operation& own = operations_[head];
    for (std::size_t back : kModels) {
      if (back > earlier.size()) break;
      const Operation& other = operations_[earlier[earlier.size() - back].members.front()];
      if (own.payload == other.payload && own.name == other.name && own.part == other.part)
        return static_cast<std::uint32_t>(earlier.size() - back);
    }
    return kNone;
  }

  // Adds members as long as operations are to the head what the model's are to its own. What comes
  // after what within a stretch follows from the edges inside alone: an operation done before the
  // head comes after none of it. So where a model's last member came after all others, so does its
  // copy.
  void copy(std::span<const OpIndex> model, std::vector<OpIndex>& members) {
    const OpIndex head = members.front();
    const std::span<const OpIndex> done = order_.after(head);
    const OpIndex shift = head - model.front();
    for (const OpIndex old : model.subspan(1)) {
      const OpIndex op = old + shift;
      if (op >= operations_.size()) return;
      for (OpIndex between = members.back() + 1; between < op; ++between)
        if (!passed_over(between, head, done)) return;
      if (!joinable_[op] || !is_copy(op, old, shift, done.data())) return;
      number_[op] = head;
      members.push_back(op);
    }
  }

  [[nodiscard]] bool passed_over(OpIndex op, OpIndex head, std::span<const OpIndex> done) const {
    const Operation& operation = operations_[op];
    return operation.kind != OpKind::Compute &&
           operation.microbatch == operations_[head].microbatch &&
           !(joinable_[op] && follows(op, head, done));
  }

  // Of `old`, which is `shift` operations before and has the number of its head. This goes over
  // nearly all operations of a step, and so past the lists' checks.
  [[nodiscard]] bool is_copy(OpIndex op, OpIndex old, OpIndex shift, const OpIndex* done) const {
    const Operation& a = operations_.data()[op];
    const Operation& b = operations_.data()[old];
    const OpIndex* const number = number_.data();
    const std::uint8_t* const column = columns_.data();
    const OpIndex old_head = number[old];
    const OpIndex head = old_head + shift;
    const std::uint32_t inputs = a.dependencies_end - a.dependencies_begin;
    if (a.kind != b.kind || column[op] != column[old] ||
        a.microbatch != operations_.data()[head].microbatch ||
        inputs != b.dependencies_end - b.dependencies_begin)
      return false;
    const auto alike = [=](OpIndex input, OpIndex old_input) {
      if (old_input != kNone && number[old_input] == old_head) return input == old_input + shift;
      return input == kNone || (number[input] != head && done[column[input]] > input);
    };
    const OpIndex* input = dependencies_.data() + a.dependencies_begin;
    const OpIndex* old_input = dependencies_.data() + b.dependencies_begin;
    bool all = alike(previous_.data()[op], previous_.data()[old]);
    for (std::uint32_t i = 0; all && i < inputs; ++i) all = alike(input[i], old_input[i]);
    return all;
  }

  // How many members there are up to the last that comes after all others.
  [[nodiscard]] std::size_t last_of(const std::vector<OpIndex>& members) {
    tails_ = {members.front()};
    std::size_t kept = 1;
    for (std::size_t i = 1; i < members.size(); ++i)
      if (comes_last(members[i])) kept = i + 1;
    return kept;
  }

  void set_tails(const std::vector<OpIndex>& members) {
    tails_.clear();
    std::vector<bool> known(order_.columns(), false);
    for (std::size_t i = members.size(); i-- > 0 && tails_.size() < known.size();) {
      if (known[order_.column(members[i])]) continue;
      known[order_.column(members[i])] = true;
      tails_.push_back(members[i]);
    }
  }

  // Whether all that `op` waits for is of the head's stretch or done before the head starts.
  [[nodiscard]] bool follows(OpIndex op, OpIndex head, std::span<const OpIndex> done) const {
    bool inside = false;
    bool outside = false;
    for_each_input(op, [&](OpIndex input) {
      if (number_[input] == head) {
        inside = true;
      } else if (done[order_.column(input)] <= input) {
        outside = true;
      }
    });
    return inside && !outside;
  }

  // The last member of each stream speaks for those before it.
  [[nodiscard]] bool comes_last(OpIndex op) {
    const std::span<const OpIndex> before = order_.after(op);
    const std::uint8_t own = order_.column(op);
    bool last = true;
    bool known = false;
    for (OpIndex& tail : tails_) {
      const std::uint8_t column = order_.column(tail);
      if (column == own) {
        tail = op;
        known = true;
      } else if (before[column] <= tail) {
        last = false;
      }
    }
    if (!known) tails_.push_back(op);
    return last;
  }

  std::span<const Operation> operations_;
  std::span<const OpIndex> dependencies_;
  const std::vector<bool>& joinable_;
  ProgramOrder order_;
  std::span<const std::uint8_t> columns_;           // by operation
  std::vector<std::vector<OpIndex>> computations_;  // by stream
  std::vector<OpIndex> previous_;                   // on its stream
  std::vector<OpIndex> number_;                     // head of the stretch tried last
  std::vector<OpIndex> tails_;  // the last member on each stream, of the stretch being grown
};

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
  ShapeWriter(const Program& program, const StretchFinder& finder, ProgramStretches& result)
      : operations_(program.operations),
        finder_(finder),
        result_(result),
        piece_(program.operations.size(), kNone),
        seen_(program.operations.size(), 0) {
    result.shape_of.assign(program.operations.size(), kAlone);
  }

  void write(const std::vector<Stretch>& stretches) {
    for (const auto& [members, copy_of] : stretches) {
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        result_.shape_of[members[i]] = kWithin;
        piece_[members[i]] = i;
      }
      result_.shape_of[members.front()] = kAlone;
    }
    // What a later member of a stretch waits for outside comes before its head: nobody needs to
    // tell it.
    for (OpIndex op = 0; op < operations_.size(); ++op) {
      if (result_.shape_of[op] == kWithin) continue;
      finder_.for_each_input(op, [&](OpIndex input) { seen_[input] = 1; });
    }
    for (const auto& [members, copy_of] : stretches) {
      const bool same = copy_of != kNone && does_the_same(members, stretches[copy_of].members);
      result_.shape_of[members.front()] =
          same ? result_.shape_of[stretches[copy_of].members.front()] : shape_of(members);
    }
    result_.stretches = static_cast<std::uint32_t>(stretches.size());
  }

 private:
  // REQUIRES: one is a copy of the other.
  [[nodiscard]] bool does_the_same(std::span<const OpIndex> members,
                                   std::span<const OpIndex> others) const {
    const Operation* const operations = operations_.data();
    const std::uint8_t* const seen = seen_.data();
    return std::ranges::equal(members, others, [=](OpIndex op, OpIndex other) {
      return operations[op].payload == operations[other].payload &&
             operations[op].slot == operations[other].slot && seen[op] == seen[other];
    });
  }

  // Stretches follow one another: what lies between a stretch's ends and has a number is its own.
  template <class Visit>
  void for_each_piece_before(OpIndex op, OpIndex head, const Visit& visit) const {
    finder_.for_each_input(op, [&](OpIndex input) {
      if (input >= head && piece_[input] != kNone) visit(piece_[input]);
    });
  }

  // All that makes the stretch what it is, word by word. Stops where `word` says no.
  template <class Word>
  bool spell(const std::vector<OpIndex>& members, const Word& word) const {
    const OpIndex head = members.front();
    for (const OpIndex op : members) {
      const Operation& operation = operations_[op];
      const std::uint32_t seen = seen_[op] != 0 || op == members.back() ? 1 : 0;
      const auto kind = static_cast<std::uint32_t>(operation.kind);
      bool alike = word(op - head) &&
                   word(std::uint32_t{operation.slot} << 16U | kind << 8U | seen) &&
                   word(operation.payload);
      for_each_piece_before(op, head, [&](std::uint32_t piece) { alike = alike && word(piece); });
      if (!alike || !word(kNone)) return false;
    }
    return true;
  }

  [[nodiscard]] bool spells(const std::vector<OpIndex>& members, const Key& key) const {
    const std::uint32_t* next = key.data();
    const std::uint32_t* const end = next + key.size();
    return spell(members, [&](std::uint32_t word) { return next != end && *next++ == word; }) &&
           next == end;
  }

  // Microbatches have the same few stretches in turn: those met last are compared first.
  std::uint32_t shape_of(const std::vector<OpIndex>& members) {
    for (const auto* recent : recent_)
      if (recent != nullptr && spells(members, recent->first)) return recent->second;
    Key key;
    spell(members, [&](std::uint32_t word) { return key.push_back(word), true; });
    const auto [entry, fresh] =
        known_.try_emplace(std::move(key), static_cast<std::uint32_t>(result_.shapes.size()));
    if (fresh) result_.shapes.push_back(shape(members));
    recent_[next_recent_++ % recent_.size()] = &*entry;
    return entry->second;
  }

  [[nodiscard]] StretchShape shape(const std::vector<OpIndex>& members) const {
    StretchShape result;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const Operation& operation = operations_[members[i]];
      result.pieces.push_back({.offset = members[i] - members.front(),
                               .kind = operation.kind,
                               .slot = operation.slot,
                               .payload = operation.payload,
                               .seen = seen_[members[i]] != 0 || i + 1 == members.size()});
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

  std::span<const Operation> operations_;
  const StretchFinder& finder_;
  ProgramStretches& result_;
  std::vector<std::uint32_t> piece_;  // by operation: its number in its stretch
  std::vector<std::uint8_t> seen_;    // by operation: 1 where one outside waits for it
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  std::array<const std::pair<const Key, std::uint32_t>*, 8> recent_{};  // of known_
  std::size_t next_recent_ = 0;
};

}  // namespace

ProgramStretches find_stretches(const Program& program, const std::vector<bool>& joinable) {
  return find_stretches(program, joinable, ProgramOrder(program));
}

ProgramStretches find_stretches(const Program& program, const std::vector<bool>& joinable,
                                ProgramOrder order) {
  ProgramStretches result;
  StretchFinder finder(program, joinable, std::move(order));
  ShapeWriter(program, finder, result).write(finder.found());
  return result;
}

}  // namespace trainyard
