// Deadlines in order: by date, and among equal dates in the order they were added.
//
//   heap.add(1.5, {token});
//   for (const Due& due : heap.take_earliest()) ...;   // everything due at the earliest date
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/pricing.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

struct Due {
  Token token = 0;
  std::uint32_t flow_class = kNone;  // kNone: a delay
  std::uint32_t ticket = 0;          // of a flow's announced end (timed_flows.hpp)
  std::uint32_t cohort = kNone;      // of its flow (simgrid/cohorts.hpp), whose place is the ticket
};

class DeadlineHeap {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] double earliest() const { return heap_.front().date; }

  void add(double date, const Due& due) {
    heap_.push_back({date, sequence_++, due});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  // Removes and returns everything due at the earliest date. Valid until the next call. REQUIRES:
  // !empty().
  [[nodiscard]] std::span<const Due> take_earliest() {
    due_.clear();
    const double date = earliest();
    while (!heap_.empty() && heap_.front().date == date) {
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      due_.push_back(heap_.back().due);
      heap_.pop_back();
    }
    return due_;
  }

 private:
  struct Deadline {
    double date;
    std::uint64_t sequence;
    Due due;
  };
  struct Later {
    bool operator()(const Deadline& a, const Deadline& b) const {
      return a.date != b.date ? a.date > b.date : a.sequence > b.sequence;
    }
  };
  std::vector<Deadline> heap_;
  std::vector<Due> due_;
  std::uint64_t sequence_ = 0;
};

}  // namespace trainyard
