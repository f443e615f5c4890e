// The CPU of a rank (its host), which issues the operations of the rank's program one after another
// (decision D6).
//
// The host issues operations in program order. Between two points at which it waits for the GPU, it
// issues operation i at its base plus the dispatch costs up to i; no event is needed for that. At
// such a point, a sync, it waits until the awaited operations have ended. The base then grows as
// far as that delays the host:
//
//    issue(i) = base + issued_s[i]      base' = max(base, end of what it awaits - issued_s[after])
//
// Three kernels of 1 s, issued every 2 s: they end at 3, 5 and 7 s; were they issued every 0.5 s,
// at 1.5, 2.5 and 3.5 s. An operation starts no earlier than it is issued.
//
//    HostClocks hosts(lanes, workload, partition);
//    const std::optional<double> date = hosts.issue_date(rank_class, op);
//    if (!date) hosts.park(rank_class, op);   // the host waits at a sync before it
//    for (OpIndex freed : hosts.ended(rank_class, other, now)) use(freed);   // have a date now
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A point at which the host waits for the GPU: after it has issued operation `after`, it waits
// until all awaited operations have ended.
struct HostSync {
  OpIndex after = 0;
  std::vector<OpIndex> awaited = {};  // each at or before `after`
};

// The time that the CPU needs to issue one program. Empty `issued_s`: no time.
struct HostLane {
  std::vector<double> issued_s = {};  // indexed by operation, cumulative, never falling
  std::vector<HostSync> syncs = {};   // ascending by `after`
  // Indexed by operation; empty: none. An operation with true is issued together with an operation
  // long before it, so the host never delays it. Its dependencies alone decide when it starts.
  std::vector<bool> ahead = {};
};

class HostClocks {
 public:
  // `lanes`: by program, or empty: every host is infinitely fast. Does not throw. REQUIRES: the
  // lanes are as the comments of HostLane describe.
  HostClocks(std::span<const HostLane> lanes, const Workload& workload, const Partition& partition);

  // Returns the time at which the host has issued the operation; nothing while the host waits at a
  // sync before it.
  [[nodiscard]] std::optional<double> issue_date(std::uint32_t rank_class, OpIndex op) const {
    if (lanes_.empty()) return 0.0;
    const Clock& clock = clocks_[rank_class];
    if (clock.ahead != nullptr && (*clock.ahead)[op]) return 0.0;
    if (op >= clock.horizon) return std::nullopt;
    return clock.issued_s == nullptr ? 0.0 : clock.base_s + (*clock.issued_s)[op];
  }
  // Stores an operation that only the host still delays. REQUIRES: issue_date() returns nothing.
  void park(std::uint32_t rank_class, OpIndex op) { clocks_[rank_class].parked.push_back(op); }
  // Call it when an operation has ended. Returns the parked operations whose issue date is now
  // known.
  [[nodiscard]] std::vector<OpIndex> ended(std::uint32_t rank_class, OpIndex op, double now) {
    if (lanes_.empty() || clocks_[rank_class].syncs.empty()) return {};
    return pass_syncs(rank_class, op, now);
  }

 private:
  // The state of a sync for one rank class.
  struct Call {
    OpIndex after = 0;
    std::uint32_t missing = 0;  // awaited operations that have not ended
    double reached_s = 0.0;     // when the last one ended
  };
  struct Clock {
    const std::vector<double>* issued_s = nullptr;
    const std::vector<bool>* ahead = nullptr;
    double base_s = 0.0;
    OpIndex horizon = kNone;  // operations before it can be issued
    std::uint32_t next = 0;   // the next sync of the host
    std::vector<Call> syncs;
    std::vector<OpIndex> parked;
  };
  // A sync of a program that awaits an operation. Pairs are sorted by operation.
  struct Awaited {
    OpIndex op = 0;
    std::uint32_t sync = 0;
  };

  [[nodiscard]] std::vector<OpIndex> pass_syncs(std::uint32_t rank_class, OpIndex op, double now);

  std::span<const HostLane> lanes_;
  std::vector<std::uint32_t> program_of_;      // indexed by rank class
  std::vector<std::vector<Awaited>> awaited_;  // indexed by program
  std::vector<Clock> clocks_;                  // indexed by rank class
};

}  // namespace trainyard
