// Deadlines in order: by date, and among equal dates in the order they were added.
//
//   heap.add(1.5, {token});
//   for (const Due& due : heap.take_earliest()) ...;   // everything due at the earliest date
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/engine/pricing.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Due {
  Token token = 0;
  std::uint32_t flow_class = kNone;  // kNone: a delay
  std::uint32_t ticket = 0;          // of a flow's announced end (timed_flows.hpp)
  std::uint32_t component =
      kNone;  // of its flow (simgrid/flow_components.hpp), whose place is the ticket
};

class DeadlineHeap {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] double earliest() const { return heap_.front().date; }

  void add(double date, const Due& due) {
    if (free_.empty()) {
      TY_CHECK(dues_.size() < kMostDue, dues_.size());
      free_.push_back(static_cast<std::uint32_t>(dues_.size()));
      dues_.emplace_back();
    }
    dues_[free_.back()] = due;
    heap_.push_back({date, sequence_++ << kPlaceBits | free_.back()});
    free_.pop_back();
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  // Removes and returns everything due at the earliest date. Valid until the next call. REQUIRES:
  // !empty().
  [[nodiscard]] std::span<const Due> take_earliest() {
    due_.clear();
    const double date = earliest();
    while (!heap_.empty() && heap_.front().date == date) {
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      const auto place = static_cast<std::uint32_t>(heap_.back().order & (kMostDue - 1));
      heap_.pop_back();
      due_.push_back(dues_[place]);
      free_.push_back(place);
    }
    return due_;
  }

 private:
  // Entries that move about are small: half a day of adding ten million a second, sixteen million
  // alive.
  static constexpr unsigned kPlaceBits = 24;
  static constexpr std::uint64_t kMostDue = std::uint64_t{1} << kPlaceBits;
  struct Deadline {
    double date;
    std::uint64_t order;  // of adding, and in the last bits the place in dues_
  };
  struct Later {
    bool operator()(const Deadline& a, const Deadline& b) const {
      return a.date != b.date ? a.date > b.date : a.order > b.order;
    }
  };
  std::vector<Deadline> heap_;
  std::vector<Due> dues_;
  std::vector<std::uint32_t> free_;  // places
  std::vector<Due> due_;
  std::uint64_t sequence_ = 0;
};

}  // namespace trainyard
