// Who waits for an operation: the edges of one program, turned round.
//
// An operation waits for its dependencies and for the operation before it on its stream. Programs
// are shared by many rank classes, so the edges are stored once per program and each class keeps
// only a count of what an operation still waits for; operations that wait for nothing, or stand
// within a stretch, need none.
//
//   Successors next = successors(program);
//   std::vector<std::uint32_t> left = next.waits_for;
//   for (const Successors::Edge& edge : next.of(7)) --left[edge.counter];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/stretches.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Successors {
  struct Edge {
    OpIndex operation = 0;
    std::uint32_t counter = 0;
  };
  std::vector<std::uint32_t> begin;  // by operation, one more than there are operations
  std::vector<Edge> edges;
  std::vector<std::uint32_t> waits_for;  // by counter: how many edges lead to its operation
  std::vector<OpIndex> heads;            // to which none leads

  [[nodiscard]] std::span<const Edge> of(OpIndex op) const {
    return std::span(edges).subspan(begin[op], begin[op + 1] - begin[op]);
  }
};

// Operations within a stretch follow from its head: they wait for nothing here, and nobody has to
// tell them.
[[nodiscard]] Successors successors(const Program& program, const ProgramStretches& stretches = {});

}  // namespace trainyard
