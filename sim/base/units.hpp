// Physical quantities as types, so that seconds are never added to bytes.
//
// A Quantity holds one double in the SI unit its name says. Quantities of one kind add, subtract,
// compare and scale by plain numbers; the few products and quotients that mean something are
// spelled out below (bytes / rate = seconds). Everything else does not compile.
//
//   constexpr Seconds t = Bytes{1e9} / BytesPerSecond{450e9};   // 2.2 ms
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace trainyard {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  // The number in the SI unit of the kind (seconds, bytes, FLOP, bytes/s, FLOP/s).
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) { return value_ += other.value_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value_ -= other.value_, *this; }
  constexpr Quantity& operator*=(double factor) { return value_ *= factor, *this; }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value_ + b.value_};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value_ - b.value_};
  }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value_ / k}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds{b.value() / r.value()}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds{f.value() / r.value()}; }
constexpr BytesPerSecond operator/(Bytes b, Seconds t) {
  return BytesPerSecond{b.value() / t.value()};
}
constexpr FlopsPerSecond operator/(Flops f, Seconds t) {
  return FlopsPerSecond{f.value() / t.value()};
}
constexpr Bytes operator*(BytesPerSecond r, Seconds t) { return Bytes{r.value() * t.value()}; }

// Text for people: four significant digits and the unit that reads best ("13.75 s", "3.4 us").
[[nodiscard]] std::string to_text(Seconds time);
// Binary units, as memory is sold and allocated ("79.6 GiB").
[[nodiscard]] std::string to_text(Bytes bytes);
// Decimal units, as links are sold ("450 GB/s").
[[nodiscard]] std::string to_text(BytesPerSecond rate);
[[nodiscard]] std::string to_text(FlopsPerSecond rate);

}  // namespace trainyard
