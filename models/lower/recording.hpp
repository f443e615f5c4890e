// A recording is a part of a program under construction that may be written again in few words.
//
// Microbatches are alike but for their numbers: what they write depends on their kind and on what
// stands before them, which a recording remembers: what the next computation was to wait for and
// whether there was a computation at all. Where these are alike again, the same operations follow,
// and those that came from before stand for those that do now: the program gets another instance of
// the block.
//
//   RecordedBlock block = build.begin_block({});
//   ...                                               // writes operations
//   (void)build.end_block(block, {});
//   build.tag({.microbatch = 1});
//   if (!build.instantiate(block, {})) ...;           // writes them for the next microbatch
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// A border is one point of a program with the operations that those behind it may name.
struct RecordingBorder {
  OpIndex next = 0;             // operation
  std::size_t next_effect = 0;  // of memory
  // From before it: the last computation, those the next one waits for, others; kNone: there is
  // none.
  std::vector<OpIndex> outside = {};
  std::vector<std::uint8_t> streams = {};  // of those
  std::size_t waits = 0;                   // how many the next computation waits for

  // To what follows all of these are as those: on the same streams, the same where the same were.
  [[nodiscard]] bool alike(const RecordingBorder& other) const;
  // An operation as what follows may write it: one from here on by its number from here, another
  // as an outside one, from kBlockInput on; kNone where it may not name it.
  [[nodiscard]] OpIndex inside(OpIndex op) const;
  // The operation that such a number stands for where the same begins here.
  [[nodiscard]] OpIndex copied(OpIndex inside) const {
    return inside < kBlockInput ? next + inside : outside[inside - kBlockInput];
  }
};

struct RecordedBlock {
  RecordingBorder begin = {};
  StepPart part = StepPart::Other;  // as tagged at its begin
  WorkClass work = WorkClass::Compute;
  std::int32_t microbatch = -1;
  std::int32_t beside = -1;         // the other microbatch that it is of; its own
  std::vector<OpIndex> waits = {};  // of the computation behind it (RecordingBorder::inside)
  std::uint32_t block = 0;          // its number in the program
  // It names nothing but what its border knows, so that it may be instantiated unseen.
  bool closed = false;
  std::vector<std::size_t> inputs = {};  // of the block, among those outside
  // By stream that it uses: the place of its last operation.
  std::vector<std::pair<std::uint8_t, OpIndex>> last = {};
};

}  // namespace trainyard
