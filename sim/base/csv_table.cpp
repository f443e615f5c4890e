#include "sim/base/csv_table.hpp"

#include <charconv>
#include <sstream>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {

namespace {

std::vector<std::string> cut(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

}  // namespace

CsvTable::CsvTable(const std::filesystem::path& file) : file_(file.string()) {
  std::istringstream lines(read_file(file));
  std::string line;
  std::getline(lines, line);
  header_ = cut(line);
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    rows_.push_back(cut(line));
    if (rows_.back().size() != header_.size())
      throw InputError(
          Problem{file.string(), "",
                  "has a line of " + std::to_string(rows_.back().size()) + " fields: " + line,
                  "give every line the fields of the header"});
  }
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
  if (end.ec != std::errc{} || end.ptr != word.data() + word.size())
    throw InputError(Problem{file_, "",
                             "line " + std::to_string(row + 2) + " has " + column + " \"" + word +
                                 "\", which is not a number",
                             "write a number"});
  return value;
}

std::int64_t CsvTable::integer(std::size_t row, const std::string& column) const {
  return parsed<std::int64_t>(row, column);
}

double CsvTable::number(std::size_t row, const std::string& column) const {
  return parsed<double>(row, column);
}

}  // namespace trainyard
