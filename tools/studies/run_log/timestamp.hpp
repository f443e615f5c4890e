// A point in time as logs write it: a date (ISO 8601), or a plain number of seconds.
//
//    timestamp("2026-03-01T12:00:00Z")->seconds;   // 1772366400 (Unix time)
//    timestamp("86400.5")->seconds;                // 86400.5, dated is false
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

struct Timestamp {
  double seconds = 0.0;  // since 1970-01-01 UTC if dated, else since an unknown moment
  bool dated = false;
};

// Reads "2026-03-01", "2026-03-01T12:00:00", a space in place of the T, fractions of a second, and
// a zone: "Z", " UTC", "+01:00" or "-0800"; without a zone the time counts as UTC. Returns nothing
// for any other text.
[[nodiscard]] std::optional<Timestamp> timestamp(std::string_view text);

// Returns "2026-03-01 12:00 UTC" for a Unix time.
[[nodiscard]] std::string date_text(double unix_s);

}  // namespace trainyard
