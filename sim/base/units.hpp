// Physical quantities as types, so that seconds cannot be added to bytes; and conversion to and
// from text with units.
//
// A Quantity holds one double in the SI unit of its kind. Quantities of one kind can be added,
// subtracted, compared and scaled by plain numbers. The few meaningful products and quotients are
// defined below (bytes / rate = seconds). No other operation compiles.
//
//    constexpr Seconds t = Bytes{1e9} / BytesPerSecond{450e9};   // 2.2 ms
//    parse_rate("400 Gb/s");                                     // 50e9: networks are sold in bits
//    exact_text(Seconds{5e-7});   // "500 ns", and parse_time of it is 5e-7 to the last bit
#pragma once

#include <compare>
#include <optional>
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

// Text for people: four significant digits and the most readable unit ("13.75 s", "3.4 us").
[[nodiscard]] std::string to_text(Seconds time);
// Binary units, as memory is sold and allocated ("79.6 GiB").
[[nodiscard]] std::string to_text(Bytes bytes);
// Decimal units, as links are sold ("450 GB/s").
[[nodiscard]] std::string to_text(BytesPerSecond rate);
[[nodiscard]] std::string to_text(FlopsPerSecond rate);

// Returns the value of a text in scenario and data files; nullopt if the text is not a finite
// number followed by a unit of the kind.
[[nodiscard]] std::optional<Seconds> parse_time(std::string_view text);
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);
[[nodiscard]] std::optional<BytesPerSecond> parse_rate(std::string_view text);
[[nodiscard]] std::optional<FlopsPerSecond> parse_flops_rate(std::string_view text);

// Returns a text that parses back to exactly the same value, in the most readable unit. It is for
// files that are read again; to_text rounds for people.
[[nodiscard]] std::string exact_text(Seconds time);
[[nodiscard]] std::string exact_text(Bytes bytes);
[[nodiscard]] std::string exact_text(BytesPerSecond rate);
[[nodiscard]] std::string exact_text(FlopsPerSecond rate);

// The accepted units, for messages and for the schema: "ns, us, ms, s, min, h".
[[nodiscard]] std::string_view time_units();
[[nodiscard]] std::string_view byte_units();
[[nodiscard]] std::string_view rate_units();
[[nodiscard]] std::string_view flops_rate_units();

// Regular expressions (ECMA 262) that match what the parsers accept, for JSON Schema.
[[nodiscard]] std::string time_pattern();
[[nodiscard]] std::string bytes_pattern();
[[nodiscard]] std::string rate_pattern();
[[nodiscard]] std::string flops_rate_pattern();

}  // namespace trainyard
