// Overflow-checked sums of sizes in workload files. scenarios/reader/checks.cpp bounds the sizes in
// scenarios.
//
//    checked_sum(held, effect.bytes);    // throws SizeOverflow above 2^63 - 1
#pragma once

#include <cstdint>
#include <stdexcept>

namespace trainyard {

// A caller that knows the field or the file turns it into an InputError.
struct SizeOverflow : std::overflow_error {
  SizeOverflow() : std::overflow_error("a size does not fit into 64 bits") {}
};

[[nodiscard]] inline std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw SizeOverflow();
  return sum;
}

}  // namespace trainyard
