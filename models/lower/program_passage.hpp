// A part of a program under construction that is written once for all microbatches that go alike:
// most often the forward or the backward of a chunk, or one of each woven together.
//
// As a block (program_block.hpp) it depends on what stands before it, which it remembers. Its
// operations are not copied, though: the program says that they come again (Passage).
//
//   WrittenPassage passage = build.begin_passage({});
//   ...                                        // writes operations
//   const bool again = build.end_passage(passage);
//   build.tag({.microbatch = 1});
//   if (!again || !build.repeat(passage, {})) ...;   // writes them for the next microbatch
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/program_block.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct WrittenPassage {
  BlockBorder begin = {};
  StepPart part = StepPart::Other;  // as tagged at its begin
  WorkClass work = WorkClass::Compute;
  std::int32_t microbatch = -1;
  std::int32_t beside = -1;              // the microbatch of what is woven with it; its own
  std::uint32_t number = 0;              // among the program's passages
  std::vector<std::size_t> inputs = {};  // which of those outside it waits for
  std::vector<OpIndex> waits = {};       // of the computation behind it (BlockBorder::inside)
  // By stream that it uses: the last operation, from its first.
  std::vector<std::pair<std::uint8_t, OpIndex>> last = {};
};

// The number of the passage with that operation. REQUIRES: one has it.
[[nodiscard]] std::size_t passage_with(std::span<const Passage> passages, OpIndex op);

}  // namespace trainyard
