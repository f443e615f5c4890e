// How much every operation of every rank class still waits for.
//
// Classes that run programs of one form pass the same operations at much the same time, and meet in
// collectives there: what they count for one operation stands side by side.
//
//   WaitCounters waiting(successors_by_rank_class);
//   waiting.release(rank_class, op, [](OpIndex next) { ... });   // op has ended; next is ready
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/engine/successors.hpp"

namespace trainyard {

class WaitCounters {
 public:
  // REQUIRES: what `of_class` points to outlives this; a form's is the same for all its classes.
  explicit WaitCounters(std::span<const Successors* const> of_class) {
    std::map<const Successors*, std::size_t> classes;
    for (const Successors* successors : of_class)
      lanes_.push_back({.successors = successors, .place = classes[successors]++});
    std::map<const Successors*, std::size_t> first;
    for (const auto& [successors, count] : classes) {
      first[successors] = left_.size();
      for (const std::uint32_t edges : successors->waits_for)
        left_.insert(left_.end(), count, edges);
    }
    for (Lane& lane : lanes_) {
      lane.place += first[lane.successors];
      lane.stride = classes[lane.successors];
    }
  }

  // `op` has ended: tells `ready` of every operation that waits for nothing else.
  template <class Ready>
  void release(std::uint32_t rank_class, OpIndex op, const Ready& ready) {
    const Lane& lane = lanes_[rank_class];
    for (const auto& [next, counter] : lane.successors->of(op))
      if (--left_[lane.place + counter * lane.stride] == 0) ready(next);
  }

 private:
  struct Lane {
    const Successors* successors = nullptr;
    std::size_t place = 0;  // in left_, of counter 0
    std::size_t stride = 1;
  };
  std::vector<Lane> lanes_;          // by rank class
  std::vector<std::uint32_t> left_;  // edges
};

}  // namespace trainyard
