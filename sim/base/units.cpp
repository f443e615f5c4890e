#include "sim/base/units.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// value in SI = number * numerator / denominator. Both are exact in a double, so "500 ns" is the
// double nearest to 5e-7. The product 500 * 1e-9 would differ in the last bit.
struct Unit {
  std::string_view name;
  double numerator;
  double denominator = 1.0;
};

// `written` runs from the largest unit to the smallest. `aliases` are accepted but never written.
struct UnitTable {
  std::span<const Unit> written;
  std::span<const Unit> aliases;
};

constexpr Unit kTimeUnits[] = {{"s", 1.0}, {"ms", 1.0, 1e3}, {"us", 1.0, 1e6}, {"ns", 1.0, 1e9}};
constexpr Unit kTimeAliases[] = {{"\u00b5s", 1.0, 1e6}, {"min", 60.0}, {"h", 3600.0}};
constexpr UnitTable kTime{kTimeUnits, kTimeAliases};

constexpr Unit kByteUnits[] = {
    {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1.0}};
constexpr Unit kByteAliases[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}};
constexpr UnitTable kByte{kByteUnits, kByteAliases};

constexpr Unit kRateUnits[] = {
    {"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1.0}};
constexpr Unit kRateAliases[] = {{"TiB/s", 0x1p40},    {"GiB/s", 0x1p30},   {"MiB/s", 0x1p20},
                                 {"KiB/s", 0x1p10},    {"Tb/s", 1e12, 8.0}, {"Gb/s", 1e9, 8.0},
                                 {"Mb/s", 1e6, 8.0},   {"kb/s", 1e3, 8.0},  {"b/s", 1.0, 8.0},
                                 {"Gbit/s", 1e9, 8.0}, {"Tbps", 1e12, 8.0}, {"Gbps", 1e9, 8.0},
                                 {"Mbps", 1e6, 8.0},   {"GBps", 1e9}};
constexpr UnitTable kRate{kRateUnits, kRateAliases};

constexpr Unit kFlopsUnits[] = {
    {"PFLOP/s", 1e15}, {"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"MFLOP/s", 1e6}, {"FLOP/s", 1.0}};
constexpr Unit kFlopsAliases[] = {{"PFLOPS", 1e15}, {"TFLOPS", 1e12}, {"GFLOPS", 1e9}};
constexpr UnitTable kFlops{kFlopsUnits, kFlopsAliases};

const Unit* find_unit(const UnitTable& table, std::string_view name) {
  for (const auto& units : {table.written, table.aliases}) {
    for (const Unit& unit : units) {
      if (unit.name == name) return &unit;
    }
  }
  return nullptr;
}

std::string_view without_spaces_around(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// from_chars does not depend on the locale.
std::optional<double> parse(std::string_view text, const UnitTable& table) {
  text = without_spaces_around(text);
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const auto used = static_cast<std::size_t>(end - text.data());
  const Unit* unit = find_unit(table, without_spaces_around(text.substr(used)));
  if (unit == nullptr) return std::nullopt;
  const double value = number * unit->numerator / unit->denominator;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Uses the largest unit that gives a number of at least one, if the text is short and parses back
// exactly. Else it tries the next smaller unit, and at last the SI unit, whose shortest round-trip
// text is exact by construction.
std::string exact(double value, const UnitTable& table) {
  for (const Unit& unit : table.written) {
    const double number = value * unit.denominator / unit.numerator;
    if (std::abs(number) < 1.0) continue;
    std::string text = fmt::format("{} {}", number, unit.name);
    if (parse(text, table) == value && text.size() <= 16) return text;
  }
  for (const Unit& unit : table.written) {
    if (unit.numerator == 1.0 && unit.denominator == 1.0) {
      return fmt::format("{} {}", value, unit.name);
    }
  }
  return {};
}

// Unit names contain no special characters of regular expressions, except "/".
std::string pattern(const UnitTable& table) {
  std::string units;
  for (const auto& list : {table.written, table.aliases}) {
    for (const Unit& unit : list) {
      if (!units.empty()) units += '|';
      units += unit.name;
    }
  }
  return fmt::format("^ *([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)? *({}) *$", units);
}

template <class Kind>
std::optional<Kind> as(std::optional<double> value) {
  return value ? std::optional(Kind{*value}) : std::nullopt;
}

// to_text(Seconds) divides by these factors.
constexpr Unit kTimeScales[] = {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};

// From so many seconds on, a time is written in this unit.
struct LongTime {
  double from_s;
  const char* name;
  double seconds;
};
constexpr LongTime kLongTimes[] = {{2.0 * 365.25 * 86400.0, "years", 365.25 * 86400.0},
                                   {2.0 * 86400.0, "days", 86400.0},
                                   {1e4, "h", 3600.0}};

// Uses the largest unit that gives a number of at least one after rounding, else the smallest unit.
// REQUIRES: the denominators of all units are 1.
std::string scaled(double value, std::span<const Unit> units) {
  TY_CHECK(std::isfinite(value), value);
  if (value == 0.0) return fmt::format("0 {}", units.back().name);
  Unit chosen = units.back();
  for (const Unit& unit : units) {
    // With four digits, 0.99995 rounds to 1.
    if (std::abs(value) >= unit.numerator * 0.99995) {
      chosen = unit;
      break;
    }
  }
  return fmt::format("{:.4g} {}", value / chosen.numerator, chosen.name);
}

}  // namespace

std::string to_text(Seconds time) {
  TY_CHECK(std::isfinite(time.value()), time.value());
  for (const LongTime& unit : kLongTimes)
    if (time.value() >= unit.from_s)
      return fmt::format("{:.4g} {}", time.value() / unit.seconds, unit.name);
  return scaled(time.value(), kTimeScales);
}

std::string to_text(Bytes bytes) {
  TY_CHECK(bytes.value() >= 0.0, bytes.value());
  return scaled(bytes.value(), kByteUnits);
}

std::string to_text(BytesPerSecond rate) { return scaled(rate.value(), kRateUnits); }
std::string to_text(FlopsPerSecond rate) { return scaled(rate.value(), kFlopsUnits); }

std::optional<Seconds> parse_time(std::string_view text) { return as<Seconds>(parse(text, kTime)); }
std::optional<Bytes> parse_bytes(std::string_view text) { return as<Bytes>(parse(text, kByte)); }
std::optional<BytesPerSecond> parse_rate(std::string_view text) {
  return as<BytesPerSecond>(parse(text, kRate));
}
std::optional<FlopsPerSecond> parse_flops_rate(std::string_view text) {
  return as<FlopsPerSecond>(parse(text, kFlops));
}

std::string exact_text(Seconds time) { return exact(time.value(), kTime); }
std::string exact_text(Bytes bytes) { return exact(bytes.value(), kByte); }
std::string exact_text(BytesPerSecond rate) { return exact(rate.value(), kRate); }
std::string exact_text(FlopsPerSecond rate) { return exact(rate.value(), kFlops); }

std::string_view time_units() { return "ns, us, ms, s, min, h"; }
std::string_view byte_units() { return "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB"; }
std::string_view rate_units() { return "kB/s, MB/s, GB/s, TB/s, or in bits Mb/s, Gb/s, Tb/s"; }
std::string_view flops_rate_units() { return "GFLOP/s, TFLOP/s, PFLOP/s"; }

std::string time_pattern() { return pattern(kTime); }
std::string bytes_pattern() { return pattern(kByte); }
std::string rate_pattern() { return pattern(kRate); }
std::string flops_rate_pattern() { return pattern(kFlops); }

}  // namespace trainyard
