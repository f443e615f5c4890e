// Text tables for people: cells aligned in columns, plain ASCII, no colour.
//
//    TextTable table({"stage", "peak"});
//    table.row({"0", "61.2 GiB"});
//    out += table.text();     // the first column is left-aligned, the others right-aligned
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

inline constexpr std::size_t kTextWidth = 100;

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  // REQUIRES: as many cells as titles.
  void row(std::vector<std::string> cells);
  // Returns one line per row, indented by two. The titles come first unless all are empty.
  [[nodiscard]] std::string text() const;
  // Returns the same table in Markdown.
  [[nodiscard]] std::string markdown() const;

  [[nodiscard]] const std::vector<std::string>& titles() const { return titles_; }
  [[nodiscard]] const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

// Breaks the text into lines of at most kTextWidth; lines after the first are indented.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent);

// Return "23.4 %", and with its sign, as for the difference from a published figure, "+3.9 %".
[[nodiscard]] std::string percent(double fraction);
[[nodiscard]] std::string signed_percent(double fraction);

// Return "9 931", and with three digits and a unit, "15 T", "8.03 B", "1.05 M", "12 k".
[[nodiscard]] std::string grouped(double count);
[[nodiscard]] std::string short_count(double count);

// Returns a bar of '#', one per 2 %.
[[nodiscard]] std::string bar(double fraction);

}  // namespace trainyard
