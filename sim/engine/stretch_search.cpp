#include "sim/engine/stretch_search.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace trainyard {
namespace {

constexpr std::size_t kMostPieces = 4096;

class StretchSearch {
 public:
  StretchSearch(const Program& program, const MayJoin& may_join, const ProgramOrder& order)
      : program_(program),
        operations_(program.operations),
        may_join_(may_join),
        order_(order),
        computations_(operations_.blocks().size()) {
    list_computations();
  }

  std::vector<InstanceStretches> found() {
    const std::span<const Instance> instances = operations_.instances();
    std::vector<InstanceStretches> result(instances.size());
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
      result[number] = {.as = number, .stretches = search(number, fresh)};
      known.push_back(std::move(fresh));
    }
    return result;
  }

 private:
  // A stretch that was grown, or a head that nothing follows; numbers are places in the block.
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
    std::vector<std::vector<OpIndex>> stretches;
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
      stretches.push_back(std::move(members));
    }
    return stretches;
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

  // Whether all that `op` waits for is of the head's stretch or done before the head starts.
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
  std::vector<OpIndex> head_of_;      // by its places: the head of the stretch tried last
  std::vector<OpIndex> tails_;        // the last member on each stream, of the stretch being grown
};

}  // namespace

std::vector<InstanceStretches> search_stretches(const Program& program, const MayJoin& may_join,
                                                const ProgramOrder& order) {
  return StretchSearch(program, may_join, order).found();
}

}  // namespace trainyard
