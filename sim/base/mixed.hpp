// Hash functions for 64-bit words.
//
//    sum += mixed(std::uint64_t{label} << 32U | colour);   // a sum that identifies a multiset
//    hash = hash_with(hash, word);                         // a list, word by word
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace trainyard {

inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15ULL;  // 2^64 over the golden ratio

// The finaliser of splitmix64 (Steele, Lea, Flood 2014, OOPSLA, figure 17): every input bit affects
// every output bit.
[[nodiscard]] constexpr std::uint64_t splitmix64_finaliser(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31U);
}

// Returns the output of splitmix64 for the state `word`. Chained over words, each combined with the
// hash so far, it gives a separate random number for every list.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t word) {
  return splitmix64_finaliser(word + kGoldenGamma);
}

// Extends the hash of a list by one word. It is fast, and meant for tables that compare keys too.
[[nodiscard]] constexpr std::uint64_t hash_with(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kGoldenGamma;
  return hash ^ (hash >> 29U);
}

// The hash function for keys that are lists of words.
struct ListHash {
  [[nodiscard]] std::size_t operator()(const auto& words) const {
    std::uint64_t hash = words.size();
    for (const std::uint64_t word : words) hash = hash_with(hash, word);
    return hash;
  }
};

// Rounds a number to 40 bits of its mantissa and returns the result as a word. Numbers that differ
// by rounding errors only, such as sums in another order, then have equal keys (unless they are
// next to a rounding boundary).
[[nodiscard]] inline std::uint64_t rounded_key(double value) {
  constexpr std::uint64_t kDropped = 12;  // of the 52 bits of the mantissa
  const auto bits = std::bit_cast<std::uint64_t>(value == 0.0 ? 0.0 : value);
  return (bits + (std::uint64_t{1} << (kDropped - 1))) >> kDropped;
}

}  // namespace trainyard
