#include "sim/engine/regions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kMostPieces = 4096;

struct InstanceRegions {
  // The instance whose regions, shifted, it has: itself where it was searched.
  std::uint32_t as = 0;
  std::vector<std::vector<OpIndex>> regions = {};  // their members, in issue order
};

// Finds the members of regions. Instances of a block are searched once where they are entered in
// the same way. REQUIRES: all instances of a block agree on which of their operations may join.
class RegionSearch {
 public:
  RegionSearch(const Program& program, const MayJoin& may_join, const ProgramOrder& order)
      : program_(program),
        operations_(program.operations),
        may_join_(may_join),
        order_(order),
        computations_(operations_.blocks().size()) {
    list_computations();
  }

  std::vector<InstanceRegions> found() {
    const std::span<const Instance> instances = operations_.instances();
    std::vector<InstanceRegions> result(instances.size());
    std::vector<std::vector<Searched>> searched(operations_.blocks().size());
    for (std::uint32_t number = 0; number < instances.size(); ++number) {
      std::vector<Searched>& known = searched[instances[number].block];
      const auto like = std::ranges::find_if(
          known, [&](const Searched& other) { return goes_as(number, other); });
      if (like != known.end()) {
        result[number].as = like->instance;
        continue;
      }
      Searched fresh{.instance = number, .tried = {}};
      result[number] = {.as = number, .regions = search(number, fresh)};
      known.push_back(std::move(fresh));
    }
    return result;
  }

 private:
  // A region that was grown, or a head that nothing follows; numbers are places in the block.
  struct Tried {
    OpIndex head = 0;
    OpIndex last = 0;
    bool alone = true;  // no computation issued later starts before its end
  };
  struct Searched {
    std::uint32_t instance = 0;
    std::vector<Tried> tried;
  };

  // The computations of a block, and those on their streams around an instance of it.
  using Places = std::vector<std::vector<OpIndex>>;  // by column, ascending
  struct Around {
    std::vector<OpIndex> before = {};  // by column, the last one; kNone
    std::vector<OpIndex> after = {};   // the first one; kNone
  };

  void list_computations() {
    const std::span<const Instance> instances = operations_.instances();
    around_.resize(instances.size());
    std::vector<OpIndex> nearest(order_.columns(), kNone);
    for (std::size_t i = 0; i < instances.size(); ++i) {
      Places& places = computations_[instances[i].block];
      if (places.empty()) places = computations_of(instances[i]);
      around_[i].before = nearest;
      for (std::size_t column = 0; column < places.size(); ++column)
        if (!places[column].empty()) nearest[column] = instances[i].first + places[column].back();
    }
    in_turn_ = std::ranges::count_if(nearest, [](OpIndex op) { return op != kNone; }) <= 1;
    std::ranges::fill(nearest, kNone);
    for (std::size_t i = instances.size(); i-- > 0;) {
      const Places& places = computations_[instances[i].block];
      around_[i].after = nearest;
      for (std::size_t column = 0; column < places.size(); ++column)
        if (!places[column].empty()) nearest[column] = instances[i].first + places[column].front();
    }
  }

  [[nodiscard]] Places computations_of(const Instance& instance) const {
    Places places(order_.columns());
    const Block& block = operations_.block_of(instance);
    for (OpIndex place = 0; place < block.count; ++place)
      if (operations_.written()[block.begin + place].kind == OpKind::Compute)
        places[order_.column(instance.first + place)].push_back(place);
    return places;
  }

  // Whether a search would go as it did in that instance of the block: what operations wait for
  // from before it is done, or not, before each of the heads alike, and so are their ends before
  // what follows. What lies inside is to each other as it is there, and computations before a head
  // have no say where all are in turn.
  [[nodiscard]] bool goes_as(std::uint32_t number, const Searched& other) const {
    if (!in_turn_) return false;
    const OpIndex first = operations_.instances()[number].first;
    const OpIndex old_first = operations_.instances()[other.instance].first;
    const std::span<const OpIndex> outside = order_.outside_of(number);
    const std::span<const OpIndex> old_outside = order_.outside_of(other.instance);
    const auto done = [&](OpIndex op, OpIndex head) {
      return op == kNone || order_.before(op, head);
    };
    const auto alike = [&](const Tried& tried) {
      for (std::size_t i = 0; i < outside.size(); ++i)
        if (done(outside[i], first + tried.head) != done(old_outside[i], old_first + tried.head))
          return false;
      return computes_alone_to(number, first + tried.last) == tried.alone;
    };
    return std::ranges::all_of(other.tried, alike);
  }

  std::vector<std::vector<OpIndex>> search(std::uint32_t number, Searched& searched) {
    const Instance& instance = operations_.instances()[number];
    const OpIndex count = operations_.block_of(instance).count;
    first_ = instance.first;
    head_of_.assign(count, kNone);
    std::vector<std::vector<OpIndex>> regions;
    const OpIndex end = instance.first + count;
    for (OpIndex op = instance.first; op < end; ++op) {
      if (operations_[op].kind != OpKind::Compute || !may_join_(op)) continue;
      if (!computes_alone_from(number, op)) continue;
      std::vector<OpIndex> members = grown(op, end);
      const OpIndex last = members.back();
      const bool alone = computes_alone_to(number, last);
      searched.tried.push_back({op - instance.first, last - instance.first, alone});
      if (members.size() < 2 || !alone) continue;
      op = last;
      regions.push_back(std::move(members));
    }
    return regions;
  }

  // Every computation issued earlier has ended when `head` of the instance starts.
  [[nodiscard]] bool computes_alone_from(std::uint32_t number, OpIndex head) const {
    const Instance& instance = operations_.instances()[number];
    const Places& places = computations_[instance.block];
    for (std::size_t column = 0; column < places.size(); ++column) {
      const auto at = std::ranges::lower_bound(places[column], head - instance.first);
      const OpIndex before = at == places[column].begin() ? around_[number].before[column]
                                                          : instance.first + *(at - 1);
      if (before != kNone && !order_.before(before, head)) return false;
    }
    return true;
  }
  // No computation issued later starts before `last` of the instance has ended.
  [[nodiscard]] bool computes_alone_to(std::uint32_t number, OpIndex last) const {
    const Instance& instance = operations_.instances()[number];
    const Places& places = computations_[instance.block];
    for (std::size_t column = 0; column < places.size(); ++column) {
      const auto next = std::ranges::upper_bound(places[column], last - instance.first);
      const OpIndex after =
          next == places[column].end() ? around_[number].after[column] : instance.first + *next;
      if (after != kNone && !order_.before(last, after)) return false;
    }
    return true;
  }

  // From the head to the last operation that comes after all others.
  std::vector<OpIndex> grown(OpIndex head, OpIndex end) {
    std::vector<OpIndex> members = {head};
    head_of_[head - first_] = head;
    tails_ = {head};
    std::size_t kept = 1;
    for (OpIndex op = head + 1; op < end && members.size() < kMostPieces; ++op) {
      if (operations_[op].microbatch != operations_[head].microbatch) break;
      if (!may_join_(op) || !follows(op, head)) {
        if (operations_[op].kind == OpKind::Compute) break;
        continue;
      }
      head_of_[op - first_] = head;
      members.push_back(op);
      if (comes_last(op)) kept = members.size();
    }
    members.resize(kept);
    return members;
  }

  // Whether all that `op` waits for is of the head's region or done before the head starts.
  [[nodiscard]] bool follows(OpIndex op, OpIndex head) const {
    bool inside = false;
    bool outside = false;
    for_each_input(program_, order_, op, [&](OpIndex input) {
      if (input >= first_ && head_of_[input - first_] == head) {
        inside = true;
      } else if (!order_.before(input, head)) {
        outside = true;
      }
    });
    return inside && !outside;
  }

  // The last member of each stream speaks for those before it.
  [[nodiscard]] bool comes_last(OpIndex op) {
    const std::uint8_t own = order_.column(op);
    bool last = true;
    bool known = false;
    for (OpIndex& tail : tails_) {
      if (order_.column(tail) == own) {
        tail = op;
        known = true;
      } else if (!order_.before(tail, op)) {
        last = false;
      }
    }
    if (!known) tails_.push_back(op);
    return last;
  }

  const Program& program_;
  const OperationList& operations_;
  const MayJoin& may_join_;
  const ProgramOrder& order_;
  bool in_turn_ = true;               // all computations, on one stream
  std::vector<Places> computations_;  // by block
  std::vector<Around> around_;        // by instance
  OpIndex first_ = 0;                 // operation of the instance that is being searched
  std::vector<OpIndex> head_of_;      // by its places: the head of the region tried last
  std::vector<OpIndex> tails_;        // the last member on each stream, of the region being grown
};

using Key = std::vector<std::uint32_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = key.size();
    for (const std::uint32_t word : key) hash = hash_with(hash, word);
    return hash;
  }
};

// Writes what regions look like; those that are alike share one shape.
class ShapeWriter {
 public:
  ShapeWriter(const Program& program, const ProgramOrder& order,
              const std::vector<InstanceRegions>& found)
      : program_(program),
        order_(order),
        instances_(program.operations.instances()),
        found_(found),
        searched_(found.size()) {
    result_.operations = program.operations;
    result_.variant_of.assign(found.size(), kNone);
  }

  ProgramRegions written() {
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
    ProgramRegions::Variant within;    // by place; kWithin, and kAlone for heads too
    std::vector<std::uint32_t> piece;  // by place: its number in its region; kNone
    // By place: 1 where one outside its region, but of its instance, waits for it.
    std::vector<std::uint8_t> seen;
    // Variants follow from what later instances wait for: members, by their places.
    std::vector<std::pair<std::vector<OpIndex>, std::uint32_t>> variants;
  };

  void mark(std::uint32_t number) {
    const OpIndex first = instances_[number].first;
    const OpIndex count = program_.operations.block_of(instances_[number]).count;
    Searched& own = searched_[number];
    own = {.within = ProgramRegions::Variant(count, kAlone),
           .piece = std::vector<std::uint32_t>(count, kNone),
           .seen = std::vector<std::uint8_t>(count, 0),
           .variants = {}};
    for (const std::vector<OpIndex>& members : found_[number].regions) {
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        own.within[members[i] - first] = kWithin;
        own.piece[members[i] - first] = i;
      }
      own.within[members.front() - first] = kAlone;
    }
  }

  // A later member of a region waits outside only for what comes before the head: nobody needs to
  // tell it.
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
    const std::size_t regions = found_[as].regions.size();
    if (regions == 0) return;
    result_.variant_of[number] = variant(instances_[number], as);
    result_.regions += static_cast<std::uint32_t>(regions);
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
    ProgramRegions::Variant fresh = own_->within;
    for (const std::vector<OpIndex>& members : found_[as].regions)
      fresh[members.front() - first_] = shape_of(members);
    own_->seen = seen;
    const auto number = static_cast<std::uint32_t>(result_.variants.size());
    result_.variants.push_back(std::move(fresh));
    own_->variants.emplace_back(std::move(awaited), number);
    return number;
  }

  // Regions follow one another: what lies between a region's ends and has a number is its own.
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

  // All that makes the region what it is.
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

  [[nodiscard]] RegionShape shape(const std::vector<OpIndex>& members) const {
    RegionShape result;
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
      RegionShape::Piece& piece = result.pieces[from];
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
  const std::vector<InstanceRegions>& found_;
  std::vector<Searched> searched_;  // by instance; empty: it goes as another
  OpIndex first_ = 0;               // operation of the searched instance at hand
  Searched* own_ = nullptr;
  std::vector<OpIndex> awaited_;  // by operations of later instances
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  ProgramRegions result_;
};

}  // namespace

ProgramRegions find_regions(const Program& program, const MayJoin& may_join,
                            const ProgramOrder& order) {
  const std::vector<InstanceRegions> found = RegionSearch(program, may_join, order).found();
  return ShapeWriter(program, order, found).written();
}

}  // namespace trainyard
