// Tables for spreadsheets and pandas: fields of comma-separated values.
//
//   text += csv_field("ring, 2 nodes") + "," + csv_cell(row["time_us"]) + "\n";
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trainyard {

// A text as a field of a table for others (RFC 4180): in quotes where it must be, and behind an
// apostrophe where a spreadsheet would take it for a formula ("=1+1", "@SUM(A1)", "-2+3").
[[nodiscard]] std::string csv_field(std::string_view text);

// A value of JSON as such a field: texts without their quotes, nothing where it is null.
[[nodiscard]] std::string csv_cell(const nlohmann::ordered_json& value);

}  // namespace trainyard
