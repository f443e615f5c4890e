// Who waits for an operation: the edges of one program, turned round.
//
// An operation waits for its dependencies and for the operation before it on its stream. Programs
// are shared by many rank classes, so the edges are stored once per program and each class keeps
// only a count of what an operation still waits for; operations that wait for nothing, or stand
// within a region, need none.
//
//   Successors next(program);
//   std::vector<std::uint32_t> left = next.waits_for();
//   for (const Successors::Edge& edge : next.of(7)) --left[edge.counter];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/regions.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class Successors {
 public:
  struct Edge {
    OpIndex operation = 0;
    std::uint32_t counter = 0;
  };

  Successors() = default;
  // Operations within a region follow from its head: they wait for nothing here, and nobody has to
  // tell them.
  explicit Successors(const Program& program, const ProgramRegions& regions = {});

  // REQUIRES: the operation stands outside regions, begins one, or is seen from outside.
  [[nodiscard]] std::span<const Edge> of(OpIndex op) const {
    const std::uint32_t number = number_of(op);
    return std::span(edges_).subspan(begin_[number], begin_[number + 1] - begin_[number]);
  }
  // By counter: how many edges lead to its operation.
  [[nodiscard]] const std::vector<std::uint32_t>& waits_for() const { return waits_for_; }
  // Operations to which no edge leads, ascending.
  [[nodiscard]] const std::vector<OpIndex>& heads() const { return heads_; }

 private:
  // An operation that waits by itself, outside regions or at the head of one.
  struct Waiting {
    OpIndex op = 0;
    OpIndex previous = kNone;  // on its stream
  };

  void number_operations(const ProgramRegions& regions);
  [[nodiscard]] std::vector<Waiting> waiting(const ProgramRegions& regions) const;
  [[nodiscard]] std::uint32_t number_of(OpIndex op) const;

  OperationList operations_;
  // Only those that have edges are numbered: where there are no regions, all.
  std::vector<std::vector<std::uint32_t>> numbers_;  // [variant of an instance][place]; kNone
  std::vector<std::uint32_t> variant_of_;            // by instance
  std::vector<std::uint32_t> first_number_;          // by instance, and their end
  std::vector<std::uint32_t> begin_;                 // by number, and their end
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> waits_for_;
  std::vector<OpIndex> heads_;
};

// How much every operation of every rank class still waits for.
//
//   WaitCounters waiting(successors_by_rank_class);
//   waiting.release(rank_class, op, [](OpIndex next) { ... });   // op has ended; next is ready
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
