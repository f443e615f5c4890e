// Who waits for an operation: the edges of one program, turned round.
//
// An operation waits for its dependencies and for the operation before it on its stream. Programs
// are shared by many rank classes, so the edges are stored once per program and each class keeps
// only a count of what an operation still waits for.
//
//   Successors next = successors(program);
//   for (OpIndex op : next.of(7)) --remaining[op];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/stretches.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

struct Successors {
  std::vector<std::uint32_t> begin;  // by operation, one more than there are operations
  std::vector<OpIndex> operations;
  std::vector<std::uint32_t> waits_for;  // by operation: how many edges lead to it

  [[nodiscard]] std::span<const OpIndex> of(OpIndex op) const {
    return std::span(operations).subspan(begin[op], begin[op + 1] - begin[op]);
  }
};

// Operations within a stretch follow from its head: they wait for nothing here, and nobody has to
// tell them.
[[nodiscard]] Successors successors(const Program& program, const ProgramStretches& stretches = {});

}  // namespace trainyard
