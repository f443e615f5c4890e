// Random operands of the profilers: nearly normally distributed, and identical on GPU and CPU.
//
// A value depends only on the seed and the memory index. The CPU reference therefore computes every
// operand without copying it from the GPU, and it rounds operands with its own code, independently
// of the GPU.
//
//    random_value(1, 42);   // mean 0, deviation 1.155, between -4 and 4, exact in fp32
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TRAINYARD_ON_BOTH __host__ __device__
#else
#define TRAINYARD_ON_BOTH
#endif

namespace trainyard::bench {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014, OOPSLA, figure 15).
TRAINYARD_ON_BOTH constexpr std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

// The sum of four uniform 16-bit numbers minus its mean, times 2^-15: the Irwin-Hall distribution,
// with deviation sqrt(4 / 12) * 2 = 1.155. The sum has 18 bits, so fp32 represents it exactly.
TRAINYARD_ON_BOTH constexpr float random_value(std::uint64_t seed, std::int64_t place) {
  const std::uint64_t bits =
      mixed_bits((seed << 48U) + static_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15ULL);
  const std::uint64_t sum =
      (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48);
  return static_cast<float>(static_cast<std::int32_t>(sum) - 2 * 0xffff) * 0x1p-15F;
}

// The row that a gathering kernel reads for row `row` of its result: any row (an embedding), or
// each row once (a permutation, in steps of a prime that does not divide the number of rows).
TRAINYARD_ON_BOTH constexpr std::int64_t gathered_row(bool each_once, std::int64_t row,
                                                      std::int64_t rows) {
  constexpr std::int64_t prime = 1000003;
  if (each_once && rows % prime != 0) return row * prime % rows;
  return static_cast<std::int64_t>(mixed_bits(static_cast<std::uint64_t>(row)) %
                                   static_cast<std::uint64_t>(rows));
}

}  // namespace trainyard::bench
