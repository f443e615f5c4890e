#include "sim/base/csv.hpp"

#include <boost/algorithm/string/replace.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // Excel puts it before UTF-8

// Removes spaces around the word, and then quotes around it. Within them a quote is written twice.
std::string bare(std::string_view word) {
  const std::size_t begin = word.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  word = word.substr(begin, word.find_last_not_of(" \t\r") - begin + 1);
  if (word.size() < 2 || word.front() != '"' || word.back() != '"') return std::string(word);
  return boost::replace_all_copy(std::string(word.substr(1, word.size() - 2)), "\"\"", "\"");
}

// The comma that ends the field at `begin`, or the line's end. A field that begins with a quote may
// contain commas within quotes.
std::size_t end_of_field(std::string_view line, std::size_t begin) {
  const std::size_t first = line.find_first_not_of(" \t", begin);
  const bool may_quote = first != std::string_view::npos && line[first] == '"';
  bool inside = false;
  for (std::size_t at = begin; at < line.size(); ++at) {
    if (may_quote && line[at] == '"') inside = !inside;
    if (line[at] == ',' && !inside) return at;
  }
  return line.size();
}

// The fields of a line. A line that ends with a comma has an empty last field.
std::vector<std::string> cut(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = end_of_field(line, begin);
    words.push_back(bare(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return words;
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size();
}

// Excel and LibreOffice evaluate such cells as formulas (OWASP, CSV injection).
bool is_formula(const std::string& text) {
  constexpr std::string_view kBegins = "=+-@\t\r";
  return text.size() > 1 && kBegins.find(text.front()) != std::string_view::npos &&
         !is_number(text);
}

}  // namespace

// Comment lines may come before the header and between rows. A table with semicolons or tabs in
// place of commas is refused with a hint: it would be read as a single column.
CsvTable::CsvTable(const std::filesystem::path& file) : file_(file.string()) {
  const std::string text = as_utf8(read_file(file));
  std::istringstream lines(text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size())
                                                            : text);
  std::size_t number = 1;
  std::string line;
  while (std::getline(lines, line) && line.starts_with('#')) ++number;
  if (!lines) line.clear();  // the file holds comments only
  header_ = cut(line);
  if (header_.size() == 1 && line.find_first_of(";\t") != std::string::npos)
    throw InputError(
        Problem{file_, "", "has no comma in its first line: " + line, "part fields by commas"});
  while (std::getline(lines, line)) {
    ++number;
    if (bare(line).empty() || line.starts_with('#')) continue;
    rows_.push_back(cut(line));
    lines_.push_back(number);
    if (rows_.back().size() != header_.size())
      refuse(rows_.size() - 1,
             "has " + std::to_string(rows_.back().size()) + " fields, the header has " +
                 std::to_string(header_.size()) + ": " + bare(line),
             "give every line the fields of the header");
  }
}

void CsvTable::refuse(std::size_t row, const std::string& problem, const std::string& hint) const {
  throw InputError(
      Problem{file_, "", "line " + std::to_string(lines_.at(row)) + " " + problem, hint});
}

const std::string& CsvTable::text(std::size_t row, const std::string& column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  if (found == header_.end())
    throw InputError(Problem{file_, "", "has no column \"" + column + "\"", "add it"});
  return rows_.at(row)[static_cast<std::size_t>(found - header_.begin())];
}

template <class Number>
Number CsvTable::parsed(std::size_t row, const std::string& column) const {
  const std::string& word = text(row, column);
  Number value{};
  const auto end = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = std::is_integral_v<Number>;
  // from_chars() also reads "inf" and "nan", which no table may contain.
  if (end.ec != std::errc{} || end.ptr != word.data() + word.size() ||
      !std::isfinite(static_cast<double>(value)))
    refuse(row,
           "has " + column + " \"" + word + "\", which is " +
               (whole ? "no whole number" : "not a number"),
           whole ? "write a whole number" : "write a number");
  return value;
}

std::int64_t CsvTable::integer(std::size_t row, const std::string& column) const {
  return parsed<std::int64_t>(row, column);
}

double CsvTable::number(std::size_t row, const std::string& column) const {
  return parsed<double>(row, column);
}

std::string csv_field(std::string_view text) {
  std::string field(text);
  if (is_formula(field)) field.insert(field.begin(), '\'');
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char letter : field)
    quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

std::string csv_cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  return csv_field(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace trainyard
