// A heap of deadlines, in the order of date and, among equal dates, in the order in which they were
// added.
//
//    heap.add(1.5, {token});
//    for (const Due& due : heap.take_earliest()) use(due.token);   // all that is due at that date
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
  std::uint32_t ticket = 0;          // identifies an announced end (timed_flows.hpp)
  // The component of the flow (simgrid/flow_components.hpp); its index there is then the ticket.
  std::uint32_t component = kNone;
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

  // Removes and returns everything due at the earliest date. The result is valid until the next
  // call. REQUIRES: !empty().
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
  // The entries that the heap moves are small: 16 bytes, with the order and the index of the data
  // in one word. 40 bits of order last for half a day at ten million additions a second; 24 bits of
  // index allow sixteen million deadlines alive.
  static constexpr unsigned kPlaceBits = 24;
  static constexpr std::uint64_t kMostDue = std::uint64_t{1} << kPlaceBits;
  struct Deadline {
    double date;
    std::uint64_t order;  // the order of addition, and in the low bits the index in dues_
  };
  struct Later {
    bool operator()(const Deadline& a, const Deadline& b) const {
      return a.date != b.date ? a.date > b.date : a.order > b.order;
    }
  };
  std::vector<Deadline> heap_;
  std::vector<Due> dues_;
  std::vector<std::uint32_t> free_;  // unused indices in dues_
  std::vector<Due> due_;
  std::uint64_t sequence_ = 0;
};

}  // namespace trainyard
