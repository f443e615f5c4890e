// Physical quantities as text with a unit, as people write them in scenario and data files.
//
//   parse_rate("450 GB/s");            // 450e9 bytes/s
//   parse_rate("400 Gb/s");            // 50e9: networks are sold in bits
//   exact_text(Seconds{5e-7});         // "500 ns", and parse_time of it is 5e-7 to the last bit
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"

namespace trainyard {

// nullopt when the text is not a finite number followed by a unit of that kind.
[[nodiscard]] std::optional<Seconds> parse_time(std::string_view text);
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);
[[nodiscard]] std::optional<BytesPerSecond> parse_rate(std::string_view text);
[[nodiscard]] std::optional<FlopsPerSecond> parse_flops_rate(std::string_view text);

// Text that parses back to exactly the same value, in the unit that reads best. (units.hpp rounds
// to four digits for people; this is for files that are read again.)
[[nodiscard]] std::string exact_text(Seconds time);
[[nodiscard]] std::string exact_text(Bytes bytes);
[[nodiscard]] std::string exact_text(BytesPerSecond rate);
[[nodiscard]] std::string exact_text(FlopsPerSecond rate);

// The units accepted, for messages and for the schema: "ns, us, ms, s, min, h".
[[nodiscard]] std::string_view time_units();
[[nodiscard]] std::string_view byte_units();
[[nodiscard]] std::string_view rate_units();
[[nodiscard]] std::string_view flops_rate_units();

// Regular expressions (ECMA 262) that match what the parsers accept, for JSON Schema.
[[nodiscard]] std::string time_pattern();
[[nodiscard]] std::string byte_pattern();
[[nodiscard]] std::string rate_pattern();
[[nodiscard]] std::string flops_rate_pattern();

}  // namespace trainyard
