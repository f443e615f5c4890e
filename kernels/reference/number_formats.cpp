#include "kernels/reference/number_formats.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::reference {

NumberFormat number_format(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
      return {.fraction_bits = 23, .least_exponent = -126, .largest = 0x1.fffffep127};
    case DataType::Tf32:
      return {.fraction_bits = 10, .least_exponent = -126, .largest = 0x1.ffcp127};
    case DataType::Bf16:
      return {.fraction_bits = 7, .least_exponent = -126, .largest = 0x1.fep127};
    case DataType::Fp16:
      return {.fraction_bits = 10, .least_exponent = -14, .largest = 65504.0};
    case DataType::Fp8:
      return {.fraction_bits = 3, .least_exponent = -6, .largest = 448.0};
  }
  return {};
}

double rounded(DataType dtype, double value) {
  TY_CHECK(std::isfinite(value), value);
  if (value == 0.0) return value;
  const NumberFormat format = number_format(dtype);
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  // The distance of neighbours at this magnitude; nearbyint rounds ties to even.
  const double quantum = std::ldexp(1.0, exponent - format.fraction_bits);
  return std::clamp(std::nearbyint(value / quantum) * quantum, -format.largest, format.largest);
}

}  // namespace trainyard::reference
