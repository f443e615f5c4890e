// Comma-separated values: a reader of whole tables, and fields of tables for spreadsheets and
// pandas.
//
//    const CsvTable table("h100_sxm.csv");
//    table.number(0, "time_us");
//    text += csv_field("ring, 2 nodes") + "," + csv_cell(row["time_us"]) + "\n";
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// A table with a header line. For a missing column or a value that is not a number it throws an
// InputError with the file, and with the line and the column where they are known. It splits lines
// at every comma outside quotes. It removes spaces and quotes around
// fields. It accepts a byte-order mark and CRLF, as spreadsheets write them. Lines that begin with
// '#' are comments.
class CsvTable {
 public:
  explicit CsvTable(const std::filesystem::path& file);
  [[nodiscard]] const std::vector<std::string>& columns() const { return header_; }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] bool has(const std::string& column) const {
    return std::find(header_.begin(), header_.end(), column) != header_.end();
  }
  [[nodiscard]] const std::string& text(std::size_t row, const std::string& column) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, const std::string& column) const;
  [[nodiscard]] double number(std::size_t row, const std::string& column) const;
  // Throws InputError with the line of the row.
  [[noreturn]] void refuse(std::size_t row, const std::string& problem,
                           const std::string& hint) const;

 private:
  template <class Number>
  [[nodiscard]] Number parsed(std::size_t row, const std::string& column) const;
  std::string file_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> lines_;  // by row: its line in the file, from 1
};

// Formats a text as a field of a table (RFC 4180): in quotes if necessary, and after an apostrophe
// if a spreadsheet would take it for a formula ("=1+1", "@SUM(A1)", "-2+3").
[[nodiscard]] std::string csv_field(std::string_view text);

// Formats a JSON value as such a field: a string without its JSON quotes, null as an empty field.
[[nodiscard]] std::string csv_cell(const nlohmann::ordered_json& value);

}  // namespace trainyard
