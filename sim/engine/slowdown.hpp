// How computation and communication of a rank slow each other (decision D7).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The computation of a rank is slowed by a faulty GPU, which has a share of its rate, and by
// communications, which take a share of that.
struct Slowing {
  double rate = 1.0;
  double loss = 0.0;  // by all communications
  // The share of the full speed that is left.
  [[nodiscard]] double speed() const { return rate * (1.0 - std::min(loss, kComputeLossMost)); }
  bool operator==(const Slowing&) const = default;
};

// The end of a kernel at its present speed: the seconds from now. The ticket identifies the
// announcement.
struct Announcement {
  std::uint32_t ticket = 0;
  double seconds = 0.0;
};

struct FinishedCompute {
  std::uint32_t rank_class = 0;
  OpIndex operation = 0;
};

// Computation that overlapping communication slows (decision D7).
//
// A rank class computes at the rate of its GPU, 1 without a fault, less the losses of the
// communications alive on it.
// Between two changes the speed is constant. Ends are announced only when everything that starts
// and ends at an instant is known: when one communication follows another with the same loss, the
// speed does not change. Where the speed has changed, the work left of every running kernel is
// computed and a new end is announced. Earlier announcements are then stale, and their tickets no
// longer count.
//
//    SlowedCompute slowed(partition.ranks.size());
//    slowed.start(rank_class, op, 2.0, now);
//    slowed.announce(now);               // ends after 2 s if the speed stays 1
//    slowed.change(rank_class, +0.5);    // a second later
//    slowed.announce(now + 1.0);         // ends 2 s from then
//
// Two equal pieces of work that each halve the speed of the other take as long at the same time as
// one after the other (tests/sim/engine/interference_test.cpp).
class SlowedCompute {
 public:
  explicit SlowedCompute(std::size_t rank_classes) : classes_(rank_classes) {}

  // `seconds`: the time at full speed, > 0.
  void start(std::uint32_t rank_class, OpIndex op, double seconds, double now);
  // Adds `loss` to the class. A negative loss takes it away.
  void change(std::uint32_t rank_class, double loss);
  // Returns the ends of the kernels that have started, or whose speed has changed, since the last
  // call.
  [[nodiscard]] std::vector<Announcement> announce(double now);
  // From now on the class's GPU has this share of its rate. REQUIRES: rate > 0.
  void set_rate(std::uint32_t rank_class, double rate);
  // Returns the fault and the losses that slow the computation of the class now.
  [[nodiscard]] Slowing slowing(std::uint32_t rank_class) const {
    return classes_[rank_class].slowing;
  }
  // Returns the kernel whose announced end has come; nothing when the ticket is stale.
  [[nodiscard]] std::optional<FinishedCompute> finish(std::uint32_t ticket);

 private:
  struct Running {
    OpIndex operation = 0;
    double left_s = 0.0;           // work left, in seconds at full speed
    double since_s = 0.0;          // when left_s was measured
    std::uint32_t ticket = kNone;  // kNone: no end is announced yet
  };
  struct State {
    Slowing slowing;
    double speed = 1.0;    // the speed for which ends were announced
    bool touched = false;  // since the last announce()
    std::vector<Running> running;
  };

  void touch(std::uint32_t rank_class);
  void announce(std::uint32_t rank_class, double now, std::vector<Announcement>& announcements);
  [[nodiscard]] std::uint32_t new_ticket(std::uint32_t rank_class);

  std::vector<State> classes_;
  std::vector<std::uint32_t> touched_;          // rank classes
  std::vector<std::uint32_t> class_of_ticket_;  // kNone: free
  std::vector<std::uint32_t> free_tickets_;
};

// The groups that have a computing member, and therefore communicate more slowly (decision D7).
//
// The class is notified of the start and the end of every kernel, and returns changes at the end of
// an instant. A kernel that follows another one at once changes nothing.
//
//    BusyMembers busy(partition, communication_loss);
//    busy.started(rank_class);
//    for (const BusyMembers::Change& change : busy.take_changes()) use(change.speed);
class BusyMembers {
 public:
  // `loss`: by group class, or empty: nothing slows any communication.
  BusyMembers(const Partition& partition, std::span<const double> loss);

  void started(std::uint32_t rank_class) { count(rank_class, +1); }
  void ended(std::uint32_t rank_class) { count(rank_class, -1); }

  struct Change {
    std::uint32_t group_class = 0;
    double speed = 1.0;
  };
  // The groups whose speed has changed since the last call, by group class.
  [[nodiscard]] std::vector<Change> take_changes();

 private:
  struct Member {
    std::int32_t running = 0;  // kernels that run now
    bool computed = false;     // whether it computed when changes were last taken
    bool touched = false;
    std::vector<std::uint32_t> groups;  // groups that lose speed, listed once for every participant
  };
  void count(std::uint32_t rank_class, std::int32_t change) {
    if (loss_.empty()) return;
    Member& member = members_[rank_class];
    member.running += change;
    if (member.touched) return;
    member.touched = true;
    touched_.push_back(rank_class);
  }

  std::span<const double> loss_;
  std::vector<Member> members_;         // indexed by rank class
  std::vector<std::uint32_t> busy_;     // indexed by group class: participants that compute
  std::vector<bool> slow_;              // indexed by group class
  std::vector<std::uint32_t> touched_;  // rank classes
};

}  // namespace trainyard
