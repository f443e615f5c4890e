// A run of operations of a program under construction that can be written again by copying it.
//
// Layers and microbatches are alike but for their numbers: what a layer writes depends on the kind
// of layer and on what stands before it, which the block remembers: what the next computation was
// to wait for and whether there was a computation at all. Where these are alike again, the same
// operations follow, and those that came from before the block stand for those that do now. The
// block keeps operations of its own, so that it outlives a new order of the program's.
//
//   ProgramBlock block = build.begin_block();
//   ...                                        // writes operations
//   build.end_block(block);
//   build.tag({.microbatch = 1});
//   if (!build.repeat(block)) ...;             // writes them for the next microbatch
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// What operations that follow may name: as it is at one point of a program.
struct BlockBorder {
  OpIndex next = 0;             // operation
  std::size_t next_effect = 0;  // of memory
  // From before it: the last computation, those the next one waits for, others; kNone: there is
  // none.
  std::vector<OpIndex> outside = {};
  std::vector<std::uint8_t> streams = {};  // of those
  std::size_t waits = 0;                   // how many the next computation waits for

  // To what follows all of these are as those: on the same streams, the same where the same were.
  [[nodiscard]] bool alike(const BlockBorder& other) const;
  // An operation as what follows may write it: one from here on by its number from here, another
  // as an outside one, from kOutsideInput on; kNone where it may not name it.
  [[nodiscard]] OpIndex inside(OpIndex op) const;
  // What such a number stands for in a copy that begins here.
  [[nodiscard]] OpIndex copied(OpIndex inside) const {
    return inside < kOutsideInput ? next + inside : outside[inside - kOutsideInput];
  }
};

struct ProgramBlock {
  BlockBorder begin = {};
  StepPart part = StepPart::Other;  // as tagged at its begin
  WorkClass work = WorkClass::Compute;
  std::uint32_t order = 0;  // of the program's operations at its begin: a weave makes another
  // Its operations from 0 on. What they name is numbered likewise (BlockBorder::inside).
  std::vector<Operation> operations = {};
  std::vector<OpIndex> dependencies = {};
  std::vector<std::pair<OpIndex, MemoryEffect>> effects = {};
  std::vector<OpIndex> waits = {};  // of the computation behind it
};

}  // namespace trainyard
