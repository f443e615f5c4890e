// The static check for deadlock (declared in workload.hpp). It executes the workload without
// durations, as Kahn's topological sort does: an operation ends when all that it waits for has
// ended. If some operations never end, they contain a cycle, and the check reports it.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/call_sequences.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

// The waits-for relation within one program, which all ranks of the program share.
struct Waits {
  std::vector<std::vector<OpIndex>> waits_for;  // distinct: previous on its stream, dependencies
  std::vector<std::vector<OpIndex>> dependents;
};

// Duplicates are removed, because each predecessor counts down `pending` once when it ends.
Waits order_of(const Program& program, std::size_t streams) {
  const std::size_t count = program.operations.size();
  Waits order{.waits_for = std::vector<std::vector<OpIndex>>(count),
              .dependents = std::vector<std::vector<OpIndex>>(count)};
  std::vector<std::uint32_t> last(streams, kNone);
  for (OpIndex i = 0; i < count; ++i) {
    const Operation& op = program.operations[i];
    std::vector<OpIndex>& before = order.waits_for[i];
    if (last[op.stream] != kNone) before.push_back(last[op.stream]);
    last[op.stream] = i;
    for (const OpIndex dependency : program.dependencies_of(i)) before.push_back(dependency);
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const OpIndex earlier : before) order.dependents[earlier].push_back(i);
  }
  return order;
}

// An operation of a rank.
struct Place {
  RankId rank = 0;
  OpIndex op = 0;
  auto operator<=>(const Place&) const = default;
};

// Executes the workload without durations: every operation that can end ends.
class DryRun {
 public:
  explicit DryRun(const Workload& workload) : workload_(workload), sequences_(workload) {
    for (const Program& program : workload.programs) {
      orders_.push_back(order_of(program, workload.streams.size()));
    }
    number_rendezvous();
    for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
      std::vector<std::uint32_t>& pending = pending_.emplace_back();
      for (const auto& before : order(rank).waits_for) {
        pending.push_back(static_cast<std::uint32_t>(before.size()));
      }
      done_.emplace_back(pending.size(), false);
    }
  }

  // Returns the cycle of operations that cannot end; empty if all operations end.
  std::vector<Place> cycle() {
    for (RankId rank = 0; rank < pending_.size(); ++rank) {
      for (OpIndex op = 0; op < pending_[rank].size(); ++op) {
        // All other operations are added when the last operation that they wait for ends.
        if (order(rank).waits_for[op].empty()) reached_.push_back({rank, op});
      }
    }
    while (!reached_.empty()) {
      const Place place = reached_.front();
      reached_.pop_front();
      arrive(place);
    }
    return left_over();
  }

  // Returns the reason why one operation of the cycle waits for the next, for the message.
  [[nodiscard]] std::string reason(const Place& waiting, const Place& awaited) const {
    const std::string what = describe(workload_, workload_.ranks[awaited.rank].program, awaited.op);
    if (waiting.rank != awaited.rank) {
      return fmt::format("waits in group {} for rank {} to reach {}",
                         group_of(rendezvous_[waiting.rank][waiting.op]), awaited.rank, what);
    }
    const Program& program = workload_.programs[workload_.ranks[waiting.rank].program];
    const auto after = program.dependencies_of(waiting.op);
    const bool named = std::ranges::find(after, awaited.op) != after.end();
    return fmt::format("waits for {} of the same rank, {}", what,
                       named ? "on which it depends" : "which is before it on its stream");
  }

 private:
  [[nodiscard]] const Waits& order(RankId rank) const {
    return orders_[workload_.ranks[rank].program];
  }

  // Numbers the calls of all groups, group by group. Call i of a group has the number
  // first_rendezvous_[group] + i.
  void number_rendezvous() {
    for (const Rank& rank : workload_.ranks) {
      rendezvous_.emplace_back(workload_.programs[rank.program].operations.size(), kNone);
    }
    std::uint32_t next = 0;
    for (GroupId group = 0; group < workload_.groups.size(); ++group) {
      first_rendezvous_.push_back(next);
      const std::vector<RankId>& members = workload_.groups[group].members;
      for (std::size_t member = 0; member < members.size(); ++member) {
        const std::vector<OpIndex>& calls = sequences_.operations(group, member);
        for (std::uint32_t i = 0; i < calls.size(); ++i) {
          rendezvous_[members[member]][calls[i]] = next + i;
        }
      }
      next += static_cast<std::uint32_t>(sequences_.operations(group, 0).size());
    }
    arrived_.assign(next, 0);
  }

  [[nodiscard]] GroupId group_of(std::uint32_t rendezvous) const {
    // Returns the last group that starts at or before the rendezvous. A group without calls starts
    // where the next group does, so upper_bound skips it.
    const auto after = std::ranges::upper_bound(first_rendezvous_, rendezvous);
    return static_cast<GroupId>(after - first_rendezvous_.begin() - 1);
  }

  // Returns the operations of a rendezvous, one per member.
  [[nodiscard]] std::vector<Place> rendezvous_places(std::uint32_t rendezvous) const {
    const GroupId group = group_of(rendezvous);
    const std::vector<RankId>& members = workload_.groups[group].members;
    std::vector<Place> places;
    for (std::size_t member = 0; member < members.size(); ++member) {
      places.push_back(
          {members[member],
           sequences_.operations(group, member)[rendezvous - first_rendezvous_[group]]});
    }
    return places;
  }

  void arrive(const Place& place) {
    // A communication ends for all members when the last member arrives at the rendezvous.
    const std::uint32_t rendezvous = rendezvous_[place.rank][place.op];
    if (rendezvous == kNone) {
      end(place);
      return;
    }
    if (++arrived_[rendezvous] < workload_.groups[group_of(rendezvous)].members.size()) return;
    for (const Place& member : rendezvous_places(rendezvous)) end(member);
  }

  void end(const Place& place) {
    done_[place.rank][place.op] = true;
    for (const OpIndex later : order(place.rank).dependents[place.op]) {
      if (--pending_[place.rank][later] == 0) reached_.push_back({place.rank, later});
    }
  }

  [[nodiscard]] std::vector<Place> left_over() const {
    for (RankId rank = 0; rank < done_.size(); ++rank) {
      // Every operation that cannot end waits for another such operation (awaited). There are
      // finitely many, so a walk along these waits must reach an operation twice; the walk between
      // is the cycle.
      const auto stuck = std::ranges::find(done_[rank], false);
      if (stuck == done_[rank].end()) continue;
      std::vector<Place> path{{rank, static_cast<OpIndex>(stuck - done_[rank].begin())}};
      for (;;) {
        const Place next = awaited(path.back());
        const auto seen = std::ranges::find(path, next);
        if (seen != path.end()) return {seen, path.end()};
        path.push_back(next);
      }
    }
    return {};
  }

  // Returns an operation that a stuck operation waits for, and that cannot end either.
  [[nodiscard]] Place awaited(const Place& stuck) const {
    for (const OpIndex before : order(stuck.rank).waits_for[stuck.op]) {
      if (!done_[stuck.rank][before]) return {stuck.rank, before};
    }
    for (const Place& member : rendezvous_places(rendezvous_[stuck.rank][stuck.op])) {
      if (pending_[member.rank][member.op] > 0) return member;
    }
    TY_CHECK(false, stuck.rank, stuck.op);
    return stuck;
  }

  const Workload& workload_;
  CallSequences sequences_;
  std::vector<Waits> orders_;  // by program
  // [rank][operation]; kNone: the operation does not communicate.
  std::vector<std::vector<std::uint32_t>> rendezvous_;
  std::vector<std::uint32_t> first_rendezvous_;      // by group
  std::vector<std::uint32_t> arrived_;               // by rendezvous
  std::vector<std::vector<std::uint32_t>> pending_;  // [rank][operation]: unfinished predecessors
  std::vector<std::vector<bool>> done_;
  std::deque<Place> reached_;
};

}  // namespace

void check_progress(const Workload& workload, const std::string& file) {
  DryRun dry_run(workload);
  const std::vector<Place> cycle = dry_run.cycle();
  if (cycle.empty()) return;
  const Place& first = cycle.front();
  std::string text = fmt::format("deadlock: rank {}'s {}", first.rank,
                                 describe(workload, workload.ranks[first.rank].program, first.op));
  constexpr std::size_t kNamed = 16;
  for (std::size_t i = 0; i < std::min(cycle.size(), kNamed); ++i) {
    text += i == 0 ? " " : ", which ";
    text += dry_run.reason(cycle[i], cycle[(i + 1) % cycle.size()]);
  }
  text += cycle.size() > kNamed
              ? fmt::format(", and so on through {} operations back to the first", cycle.size())
              : ", where this began";
  throw InputError(
      {file, "/programs", text, "issue one of these operations earlier, or on another stream"});
}

}  // namespace trainyard
