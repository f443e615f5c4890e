// How computation and communication of a rank slow each other (design D7).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Computation that overlapping communication slows (design D7).
//
// A rank class computes at full speed, 1, less the losses of the communications alive on it.
// Between two changes the speed is constant. Ends are announced when all that starts and ends at an
// instant is known: a communication that follows another takes what that one gives back, and
// changes nothing. Where the speed has changed, the work left of every running kernel is measured
// and its end announced anew. Ends announced before are stale: their ticket no longer counts.
//
//   SlowedCompute slowed(input.partition.ranks.size());
//   slowed.start(rank_class, op, 2.0, now);
//   slowed.announce(now);               // ends after 2 s, unless ...
//   slowed.change(rank_class, +0.5);    // a second later
//   slowed.announce(now + 1.0);         // ends 2 s from then
//
// Two equal pieces that each halve the other take as long together as one after the other
// (tests/sim/engine/interference_test.cpp).
// A kernel's end, as things stand: so many seconds from now, known by its ticket.
struct Announcement {
  std::uint32_t ticket = 0;
  double seconds = 0.0;
};

struct FinishedCompute {
  std::uint32_t rank_class = 0;
  OpIndex operation = 0;
};

class SlowedCompute {
 public:
  explicit SlowedCompute(std::size_t rank_classes) : classes_(rank_classes) {}

  // `seconds` at full speed, > 0.
  void start(std::uint32_t rank_class, OpIndex op, double seconds, double now);
  // Adds `loss` to the class; negative: takes it away.
  void change(std::uint32_t rank_class, double loss);
  // The ends of the kernels that have started, or whose speed has changed, since it was last asked.
  [[nodiscard]] std::vector<Announcement> announce(double now);
  // What the communications alive on the class take.
  [[nodiscard]] double loss(std::uint32_t rank_class) const { return classes_[rank_class].loss; }
  // The kernel whose announced end has come; nothing when the ticket is stale.
  [[nodiscard]] std::optional<FinishedCompute> finish(std::uint32_t ticket);

 private:
  struct Running {
    OpIndex operation = 0;
    double left_s = 0.0;           // at full speed
    double since_s = 0.0;          // when left_s was measured
    std::uint32_t ticket = kNone;  // kNone: no end is announced yet
  };
  struct State {
    double loss = 0.0;
    double speed = 1.0;    // at which ends were announced
    bool touched = false;  // since ends were last asked for
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

// Which groups have a member that computes, and so communicate more slowly (design D7).
//
// Told of every kernel's start and end, it answers at the end of an instant: a kernel that follows
// another at once changes nothing.
//
//   BusyMembers busy(partition, communication_loss);
//   busy.started(rank_class);
//   for (const BusyMembers::Change& change : busy.take_changes()) set_speed(change);
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
  // The groups whose speed is another since the last call, by group class.
  [[nodiscard]] std::vector<Change> take_changes();

 private:
  struct Member {
    std::int32_t running = 0;  // kernels
    bool computed = false;     // when changes were last taken
    bool touched = false;
    std::vector<std::uint32_t> groups;  // that lose speed, each once for every participant
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
  std::vector<Member> members_;         // by rank class
  std::vector<std::uint32_t> busy_;     // by group class: participants that compute
  std::vector<bool> slow_;              // by group class
  std::vector<std::uint32_t> touched_;  // rank classes
};

}  // namespace trainyard
