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
        computations_(order.columns()),
        number_(operations_.size(), kNone) {
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
      result[number] = {.as = number, .stretches = search(instances[number], fresh)};
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

  void list_computations() {
    OpIndex next = 0;
    for (const Operation& operation : operations_) {
      const OpIndex op = next++;
      if (operation.kind == OpKind::Compute) computations_[order_.column(op)].push_back(op);
    }
    const auto in_use = [](const std::vector<OpIndex>& stream) { return !stream.empty(); };
    in_turn_ = std::ranges::count_if(computations_, in_use) <= 1;
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
      return computes_alone_to(first + tried.last) == tried.alone;
    };
    return std::ranges::all_of(other.tried, alike);
  }

  std::vector<std::vector<OpIndex>> search(const Instance& instance, Searched& searched) {
    std::vector<std::vector<OpIndex>> stretches;
    const OpIndex end = instance.first + operations_.block_of(instance).count;
    for (OpIndex op = instance.first; op < end; ++op) {
      if (operations_[op].kind != OpKind::Compute || !may_join_(op)) continue;
      if (!computes_alone_from(op)) continue;
      std::vector<OpIndex> members = grown(op, end);
      const OpIndex last = members.back();
      const bool alone = computes_alone_to(last);
      searched.tried.push_back({op - instance.first, last - instance.first, alone});
      if (members.size() < 2 || !alone) continue;
      op = last;
      stretches.push_back(std::move(members));
    }
    return stretches;
  }

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
  std::vector<OpIndex> grown(OpIndex head, OpIndex end) {
    std::vector<OpIndex> members = {head};
    number_[head] = head;
    tails_ = {head};
    std::size_t kept = 1;
    for (OpIndex op = head + 1; op < end && members.size() < kMostPieces; ++op) {
      if (operations_[op].microbatch != operations_[head].microbatch) break;
      if (!may_join_(op) || !follows(op, head)) {
        if (operations_[op].kind == OpKind::Compute) break;
        continue;
      }
      number_[op] = head;
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
      if (number_[input] == head) {
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
  bool in_turn_ = true;                             // all computations, on one stream
  std::vector<std::vector<OpIndex>> computations_;  // by stream
  std::vector<OpIndex> number_;                     // by operation: head of the stretch tried last
  std::vector<OpIndex> tails_;  // the last member on each stream, of the stretch being grown
};

}  // namespace

std::vector<InstanceStretches> search_stretches(const Program& program, const MayJoin& may_join,
                                                const ProgramOrder& order) {
  return StretchSearch(program, may_join, order).found();
}

}  // namespace trainyard
