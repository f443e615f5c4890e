// The CPU of a rank, which issues the operations of its program one after another (design D6).
//
// The host works through the program in order. Between two points at which it waits for the GPU,
// the moment at which it has issued operation i is its base plus the dispatch costs up to i; no
// event is needed for that. At such a point, a sync, it waits until the operations it asks for have
// ended, and its base becomes whatever makes it late enough:
//
//     issue(i) = base + issued_s[i]      base' = max(base, end of what it awaits - issued_s[after])
//
// Three kernels of 1 s, issued every 2 s: they end at 3, 5 and 7 s; were they issued every 0.5 s,
// at 1.5, 2.5 and 3.5 s. An operation starts no earlier than it is issued.
//
//   HostClocks hosts(lanes, workload, partition);
//   if (const auto date = hosts.issue_date(rank_class, op)) start_at(*date);
//   else hosts.park(rank_class, op);                       // the host waits at a sync before it
//   for (OpIndex freed : hosts.ended(rank_class, op, now)) ...;
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// After it has issued `after` the host waits until all that it awaits has ended.
struct HostSync {
  OpIndex after = 0;
  std::vector<OpIndex> awaited = {};  // each at or before `after`
};

// The time that issuing one program costs its CPU. Empty `issued_s`: it costs nothing.
struct HostLane {
  std::vector<double> issued_s = {};  // by operation, cumulative, never falling
  std::vector<HostSync> syncs = {};   // by `after`, ascending
  // By operation, empty: none. Issued together with an operation long before it, so that the host
  // never holds it up; the program says what else it waits for.
  std::vector<bool> ahead = {};
};

class HostClocks {
 public:
  // `lanes`: by program, or empty: every host is infinitely fast. Throws nothing; REQUIRES: lanes
  // as their comments say.
  HostClocks(std::span<const HostLane> lanes, const Workload& workload, const Partition& partition);

  // When the host has issued the operation; nothing while it waits at a sync before it.
  [[nodiscard]] std::optional<double> issue_date(std::uint32_t rank_class, OpIndex op) const {
    if (lanes_.empty()) return 0.0;
    const Clock& clock = clocks_[rank_class];
    if (clock.ahead != nullptr && (*clock.ahead)[op]) return 0.0;
    if (op >= clock.horizon) return std::nullopt;
    return clock.issued_s == nullptr ? 0.0 : clock.base_s + (*clock.issued_s)[op];
  }
  // Remembers an operation that is ready but for the host. REQUIRES: issue_date gives nothing.
  void park(std::uint32_t rank_class, OpIndex op) { clocks_[rank_class].parked.push_back(op); }
  // An operation has ended: the parked ones of whose issue the date is known now.
  [[nodiscard]] std::vector<OpIndex> ended(std::uint32_t rank_class, OpIndex op, double now) {
    if (lanes_.empty() || clocks_[rank_class].syncs.empty()) return {};
    return pass_syncs(rank_class, op, now);
  }

 private:
  // A sync as one rank class meets it.
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
    std::uint32_t next = 0;   // the sync the host comes to next
    std::vector<Call> syncs;
    std::vector<OpIndex> parked;
  };
  // Which syncs of a program await an operation: pairs sorted by operation.
  struct Awaited {
    OpIndex op = 0;
    std::uint32_t sync = 0;
  };

  [[nodiscard]] std::vector<OpIndex> pass_syncs(std::uint32_t rank_class, OpIndex op, double now);

  std::span<const HostLane> lanes_;
  std::vector<std::uint32_t> program_of_;      // by rank class
  std::vector<std::vector<Awaited>> awaited_;  // by program
  std::vector<Clock> clocks_;                  // by rank class
};

}  // namespace trainyard
