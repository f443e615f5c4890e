// Results of many runs as JSON Lines: one object a line, appended as each run ends.
//
// The file is also the memory of an interrupted batch: opened again it knows what is done, and a
// last line cut short by the interruption is dropped. Files of several shards are merged by
// concatenation.
//
//   Journal journal("sweep.jsonl");
//   if (!journal.has(key)) journal.append(row);     // row["key"] == key
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trainyard {

class Journal {
 public:
  // Without a file rows are kept in memory alone. Throws InputError where the file holds a line
  // that is no row (an object with a "key"), or cannot be written.
  explicit Journal(std::filesystem::path file);

  [[nodiscard]] bool has(const std::string& key) const { return keys_.contains(key); }
  // On disk when it returns. Throws InputError where it cannot be written. REQUIRES: a new key.
  void append(const nlohmann::ordered_json& row);

  // In the order of their ends, what earlier processes wrote first.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& rows() const { return rows_; }

 private:
  void read(const std::string& text);
  void keep(nlohmann::ordered_json row);

  std::filesystem::path file_;
  std::set<std::string> keys_;
  std::vector<nlohmann::ordered_json> rows_;
};

}  // namespace trainyard
