#include "kernels/reference/number_formats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

double decoded(DataType dtype, std::uint32_t bits) {
  const int width = 8 * static_cast<int>(element_bytes(dtype));
  // tf32 is stored as fp32, of which it leaves the last fraction bits zero.
  const int fraction_bits =
      number_format(dtype == DataType::Tf32 ? DataType::Fp32 : dtype).fraction_bits;
  const std::uint32_t one = 1;
  const std::uint32_t fraction = bits & ((one << fraction_bits) - 1);
  const std::uint32_t raised = (bits >> fraction_bits) & ((one << (width - 1 - fraction_bits)) - 1);
  const std::uint32_t all_raised = (one << (width - 1 - fraction_bits)) - 1;
  const double sign = ((bits >> (width - 1)) & 1U) != 0 ? -1.0 : 1.0;
  if (dtype == DataType::Fp8 ? (bits & 0x7fU) == 0x7fU : raised == all_raised)
    return dtype != DataType::Fp8 && fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                                                   : std::numeric_limits<double>::quiet_NaN();
  const double leading = raised == 0 ? 0.0 : std::ldexp(1.0, fraction_bits);
  const int exponent = std::max(static_cast<int>(raised), 1) - 1 +
                       number_format(dtype).least_exponent - fraction_bits;
  return sign * std::ldexp(leading + static_cast<double>(fraction), exponent);
}

}  // namespace trainyard::reference
