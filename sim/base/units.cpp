#include "sim/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

struct Scale {
  double factor;
  std::string_view unit;
};

// The largest unit that leaves a number of at least one; the last unit takes what is smaller still.
std::string scaled(double value, std::span<const Scale> scales) {
  TY_CHECK(std::isfinite(value), value);
  if (value == 0.0) return fmt::format("0 {}", scales.back().unit);
  Scale chosen = scales.back();
  for (const Scale& scale : scales) {
    if (std::abs(value) >= scale.factor * 0.99995) {
      chosen = scale;
      break;
    }
  }
  return fmt::format("{:.4g} {}", value / chosen.factor, chosen.unit);
}

}  // namespace

std::string to_text(Seconds time) {
  constexpr std::array<Scale, 4> scales{{{1.0, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  TY_CHECK(std::isfinite(time.value()), time.value());
  if (time.value() >= 1e4) return fmt::format("{:.0f} s", time.value());
  return scaled(time.value(), scales);
}

std::string to_text(Bytes bytes) {
  constexpr std::array<Scale, 5> scales{
      {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1.0, "B"}}};
  TY_CHECK(bytes.value() >= 0.0, bytes.value());
  return scaled(bytes.value(), scales);
}

std::string to_text(BytesPerSecond rate) {
  constexpr std::array<Scale, 5> scales{
      {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1.0, "B/s"}}};
  return scaled(rate.value(), scales);
}

std::string to_text(FlopsPerSecond rate) {
  constexpr std::array<Scale, 5> scales{
      {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}, {1.0, "FLOP/s"}}};
  return scaled(rate.value(), scales);
}

}  // namespace trainyard
