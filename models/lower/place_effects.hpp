// Where effects on memory stand in a program whose microbatches share what is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Effects of a passage that came while it was written: they hold for all that repeat it.
struct EffectRange {
  std::uint32_t passage = 0;  // the one that was written
  std::size_t begin = 0;      // among the program's effects
  std::size_t end = 0;
};

// Gives every operation its range of the effects returned (Program::effects). `effects`: of
// operations by number, in the order they came. What has another effect than the passages it is
// written for is written out: it gets operations of its own.
[[nodiscard]] std::vector<MemoryEffect> place_effects(
    std::span<const std::pair<OpIndex, MemoryEffect>> effects, std::span<const EffectRange> own,
    std::vector<Operation>& operations, std::vector<Passage>& passages);

}  // namespace trainyard
