// How much every operation of every rank class still waits for.
//
//   WaitCounters waiting(successors_by_rank_class);
//   waiting.release(rank_class, op, [](OpIndex next) { ... });   // op has ended; next is ready
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/successors.hpp"

namespace trainyard {

class WaitCounters {
 public:
  // REQUIRES: what `of_class` points to outlives this.
  explicit WaitCounters(std::span<const Successors* const> of_class) {
    for (const Successors* successors : of_class)
      classes_.push_back({.successors = successors, .left = successors->waits_for()});
  }

  // `op` has ended: tells `ready` of every operation that waits for nothing else.
  template <class Ready>
  void release(std::uint32_t rank_class, OpIndex op, const Ready& ready) {
    auto& [successors, left] = classes_[rank_class];
    for (const auto& [next, counter] : successors->of(op))
      if (--left[counter] == 0) ready(next);
  }

 private:
  struct RankClass {
    const Successors* successors = nullptr;
    std::vector<std::uint32_t> left = {};  // edges, by counter
  };
  std::vector<RankClass> classes_;
};

}  // namespace trainyard
