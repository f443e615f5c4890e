// A hash of one word, in which every input bit reaches every output bit.
//
//   sum += mixed(std::uint64_t{label} << 32U | colour);   // tells multisets apart by their sums
#pragma once

#include <cstdint>

namespace trainyard {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014, OOPSLA, figure 17). Chained over words,
// each combined with the hash so far, it gives every list of them a draw of its own.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31U);
}

}  // namespace trainyard
