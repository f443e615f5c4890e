#include "sim/engine/host_lane.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

// Turns the lists of awaited operations around. Sorted by operation, they let pass_syncs() find the
// syncs of an operation that has ended by binary search.
HostClocks::HostClocks(std::span<const HostLane> lanes, const Workload& workload,
                       const Partition& partition)
    : lanes_(lanes) {
  if (lanes.empty()) return;
  TY_CHECK(lanes.size() == workload.programs.size(), lanes.size(), workload.programs.size());
  awaited_.resize(lanes.size());
  for (std::size_t program = 0; program < lanes.size(); ++program) {
    const HostLane& lane = lanes[program];
    const std::size_t operations = workload.programs[program].operations.size();
    TY_CHECK(lane.issued_s.empty() || lane.issued_s.size() == operations, program, operations);
    TY_CHECK(lane.ahead.empty() || lane.ahead.size() == operations, program, operations);
    for (std::uint32_t sync = 0; sync < lane.syncs.size(); ++sync) {
      for (const OpIndex op : lane.syncs[sync].awaited) {
        TY_CHECK(op <= lane.syncs[sync].after, program, op, lane.syncs[sync].after);
        awaited_[program].push_back({op, sync});
      }
    }
    std::sort(awaited_[program].begin(), awaited_[program].end(),
              [](const Awaited& a, const Awaited& b) {
                return std::pair(a.op, a.sync) < std::pair(b.op, b.sync);
              });
  }
  for (const RankClass& ranks : partition.ranks) {
    const HostLane& lane = lanes[ranks.program];
    Clock clock;
    if (!lane.issued_s.empty()) clock.issued_s = &lane.issued_s;
    if (!lane.ahead.empty()) clock.ahead = &lane.ahead;
    for (const HostSync& sync : lane.syncs) {
      clock.syncs.push_back({.after = sync.after,
                             .missing = static_cast<std::uint32_t>(sync.awaited.size()),
                             .reached_s = 0.0});
    }
    // The host waits behind operation `after`, so it can issue that one and all before it.
    if (!clock.syncs.empty()) clock.horizon = clock.syncs.front().after + 1;
    program_of_.push_back(ranks.program);
    clocks_.push_back(std::move(clock));
  }
}

// Counts down the syncs that await `op`, and moves the host past those that are complete. The host
// is late at a sync only by the time that the awaited operations end after it has issued `after`.
//
// Worked: issued_s[after] is 3 s and the awaited operation ends at 5 s. The base becomes 2 s, so
// the operation that costs 1 s more to issue is issued at 2 + 4 = 6 s. If the operation ends at 2
// s, the base stays 0 and nothing is late.
std::vector<OpIndex> HostClocks::pass_syncs(std::uint32_t rank_class, OpIndex op, double now) {
  Clock& clock = clocks_[rank_class];
  const std::vector<Awaited>& awaited = awaited_[program_of_[rank_class]];
  auto entry = std::lower_bound(awaited.begin(), awaited.end(), op,
                                [](const Awaited& a, OpIndex wanted) { return a.op < wanted; });
  for (; entry != awaited.end() && entry->op == op; ++entry) {
    Call& sync = clock.syncs[entry->sync];
    --sync.missing;
    sync.reached_s = now;
  }
  const std::uint32_t before = clock.next;
  // The host reaches the syncs in order: a later sync counts only when all earlier ones are done.
  while (clock.next < clock.syncs.size() && clock.syncs[clock.next].missing == 0) {
    const Call& sync = clock.syncs[clock.next++];
    const double issued_s = clock.issued_s == nullptr ? 0.0 : (*clock.issued_s)[sync.after];
    clock.base_s = std::max(clock.base_s, sync.reached_s - issued_s);
  }
  if (clock.next == before) return {};
  clock.horizon = clock.next < clock.syncs.size() ? clock.syncs[clock.next].after + 1 : kNone;
  // The host can now issue the parked operations before the horizon.
  const auto still = std::stable_partition(clock.parked.begin(), clock.parked.end(),
                                           [&](OpIndex it) { return it >= clock.horizon; });
  std::vector<OpIndex> freed(still, clock.parked.end());
  clock.parked.erase(still, clock.parked.end());
  return freed;
}

}  // namespace trainyard
