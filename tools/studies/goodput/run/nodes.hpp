// The nodes of a job: which of them work, which are in repair, how many stand by, and which fail
// more often than the others.
//
// A slot is the place of a node in the job, numbered from 0, replica by replica. A node that is
// lost leaves its slot empty until another one takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "tools/studies/goodput/run/draws.hpp"
#include "tools/studies/goodput/run/job.hpp"

namespace trainyard {

class Nodes {
 public:
  Nodes(const Job& job, const DrawsOf& draws);

  // The slots that an event takes which hits `count` nodes side by side: the aligned group of them
  // around a place between 0 and 1. Lemons are hit more often. Slots that are empty are left out.
  [[nodiscard]] std::vector<std::int64_t> hit(double place, std::int64_t count) const;

  // The nodes leave their slots and go to repair. A lemon that has failed often enough, or that the
  // repair cures, is then a sound node.
  void lose(const std::vector<std::int64_t>& slots, double now);

  // Repaired nodes join those that stand by, or go back to where a borrowed one came from.
  void collect_repairs(double now);
  [[nodiscard]] double next_repair() const;  // its time; infinite without one

  [[nodiscard]] std::int64_t standing_by() const { return standing_by_; }
  [[nodiscard]] const std::vector<std::int64_t>& empty_slots() const { return empty_; }  // sorted
  void replace_from_spares(std::int64_t count);
  // At most so many nodes come from elsewhere now.
  [[nodiscard]] std::int64_t elsewhere() const;
  void replace_from_elsewhere(std::int64_t count);

  // Rate of failures of the nodes at work over that of a whole job of average nodes.
  [[nodiscard]] double failure_weight() const;

 private:
  // The failures of a lemon until now; of another node they are not counted.
  static constexpr std::int64_t kSound = -1;
  struct Repair {
    double end_s;
    std::int64_t failures;
    bool operator>(const Repair& other) const { return end_s > other.end_s; }
  };
  struct Lemon {
    std::int64_t slot;
    std::int64_t failures;
  };
  [[nodiscard]] std::int64_t take_out(std::int64_t slot);
  [[nodiscard]] double repair_time();
  [[nodiscard]] double time_around(double mean);  // of the distribution of repairs
  [[nodiscard]] std::int64_t nth_of_others(std::int64_t place,
                                           const std::vector<std::int64_t>& skipped) const;
  void fill_slot(std::int64_t failures);
  // A node out of `count`, of which some are lemons: the failures of one, or a sound node.
  [[nodiscard]] std::int64_t take_one(std::vector<std::int64_t>& lemons, std::int64_t count);
  void add_lemon(const Lemon& lemon);
  [[nodiscard]] std::int64_t take_from_elsewhere();

  const Job& job_;
  Draws draws_;
  std::int64_t slots_;
  std::vector<std::int64_t> empty_;
  std::priority_queue<Repair, std::vector<Repair>, std::greater<>> repairs_;
  std::int64_t standing_by_;
  std::vector<std::int64_t> lemons_standing_by_;  // of these, by their failures
  std::int64_t borrowed_ = 0;                     // nodes from elsewhere that are still owed
  std::vector<std::int64_t> lemons_elsewhere_;    // of a limited number of nodes
  std::vector<Lemon> lemons_;                     // at work, by slot
};

}  // namespace trainyard
