// Comma-separated values: tables read whole, and the fields of tables for spreadsheets and pandas.
//
//   const CsvTable table("h100_sxm.csv");
//   table.number(0, "time_us");
//   text += csv_field("ring, 2 nodes") + "," + csv_cell(row["time_us"]) + "\n";
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// A table with a header line. What is not there, or is no number, is refused with an InputError
// that names the file, the line and the column. Fields are cut at the commas, of which none stands
// in quotes; spaces and quotes around a field are not part of it. As spreadsheets write it: a
// byte-order mark and CRLF are passed over.
class CsvTable {
 public:
  explicit CsvTable(const std::filesystem::path& file);
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] bool has(const std::string& column) const {
    return std::find(header_.begin(), header_.end(), column) != header_.end();
  }
  [[nodiscard]] const std::string& text(std::size_t row, const std::string& column) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, const std::string& column) const;
  [[nodiscard]] double number(std::size_t row, const std::string& column) const;
  // Throws InputError that names the row's line.
  [[noreturn]] void refuse(std::size_t row, const std::string& problem,
                           const std::string& hint) const;

 private:
  template <class Number>
  [[nodiscard]] Number parsed(std::size_t row, const std::string& column) const;
  std::string file_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> lines_;  // of the rows in the file, from 1
};

// A text as a field of a table for others (RFC 4180): in quotes where it must be, and behind an
// apostrophe where a spreadsheet would take it for a formula ("=1+1", "@SUM(A1)", "-2+3").
[[nodiscard]] std::string csv_field(std::string_view text);

// A value of JSON as such a field: texts without their quotes, nothing where it is null.
[[nodiscard]] std::string csv_cell(const nlohmann::ordered_json& value);

}  // namespace trainyard
