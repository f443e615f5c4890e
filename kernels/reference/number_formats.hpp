// The number formats of tensor cores, on the CPU: what is left of a value once it is stored.
//
//   rounded(DataType::Bf16, 1.00390625);   // 1.0: halfway between 1 and 1 + 2^-7, ties to even
//   rounded(DataType::Fp8, 1000.0);        // 448, the largest E4M3 value: conversions saturate
#pragma once

#include <cstdint>

#include "sim/workload/kernel.hpp"

namespace trainyard::reference {

// A binary floating-point format: a value is sign * 1.fraction * 2^exponent, and below the least
// exponent fractions lose their leading one (subnormal numbers).
struct NumberFormat {
  int fraction_bits = 0;
  int least_exponent = 0;
  double largest = 0.0;
};

// fp8 is E4M3 as tensor cores have it: no infinity, 448 the largest (Micikevicius et al. 2022,
// arXiv 2209.05433, table 1). tf32 has the range of fp32 and the fraction of fp16.
[[nodiscard]] NumberFormat number_format(DataType dtype);

// The nearest value of the format, ties to even; beyond the largest, the largest.
// REQUIRES: value is finite.
[[nodiscard]] double rounded(DataType dtype, double value);

// The value that the bits stand for, in the storage of the dtype (tf32: four bytes).
//
//   decoded(DataType::Bf16, 0x3f80);   // 1.0
[[nodiscard]] double decoded(DataType dtype, std::uint32_t bits);

}  // namespace trainyard::reference
