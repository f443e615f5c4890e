// Which groups have a member that computes, and so communicate more slowly (design D7).
//
// Told of every kernel's start and end, it answers at the end of an instant: a kernel that follows
// another at once changes nothing.
//
//   BusyMembers busy(partition, communication_loss);
//   busy.started(rank_class);
//   for (const BusyMembers::Change& change : busy.take_changes()) set_speed(change);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fold/fold.hpp"

namespace trainyard {

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
    std::vector<std::uint32_t> groups;  // that lose speed, each once for every party
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
  std::vector<std::uint32_t> busy_;     // by group class: parties that compute
  std::vector<bool> slow_;              // by group class
  std::vector<std::uint32_t> touched_;  // rank classes
};

}  // namespace trainyard
