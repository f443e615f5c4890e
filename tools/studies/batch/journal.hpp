// Results of many runs as JSON Lines: one object a line, appended as each run ends.
//
// The file is also the memory of an interrupted batch: opened again it knows what is done, and a
// last line cut short by the interruption is dropped. Files of several shards are merged by
// concatenation. A row may carry a fingerprint of what it was computed from ("fingerprint"), by
// which batch.hpp tells rows that still hold from those that do not. One process at a time has the
// file open.
//
//   Journal journal("sweep.jsonl");
//   if (!journal.has(key)) journal.append(row);     // row["key"] == key
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trainyard {

class Journal {
 public:
  // Without a file rows are kept in memory alone. Throws InputError where the file holds a line
  // that is no row (an object with a "key"), cannot be written, or is open in another process.
  // `state`: the fingerprint of program and data that rows are computed in; empty: rows carry none.
  explicit Journal(std::filesystem::path file, std::string state = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  Journal(Journal&&) = delete;
  Journal& operator=(Journal&&) = delete;

  [[nodiscard]] const std::string& state() const { return state_; }
  [[nodiscard]] bool has(const std::string& key) const { return keys_.contains(key); }
  // Whether the row of this key is from an earlier process and drop_unlike() was not asked of it.
  [[nodiscard]] bool is_unchecked(const std::string& key) const { return unchecked_.contains(key); }
  // Takes out the rows whose fingerprint is not the one given for their key, from the file as well,
  // and returns how many these were.
  std::size_t drop_unlike(const std::map<std::string, std::string>& fingerprints);
  // On disk when it returns. Throws InputError where it cannot be written. REQUIRES: a new key;
  // check_numbers (sim/report/result_json.hpp).
  void append(const nlohmann::ordered_json& row);

  // In the order of their ends, what earlier processes wrote first.
  [[nodiscard]] const std::vector<nlohmann::ordered_json>& rows() const { return rows_; }

 private:
  void open();
  void read(const std::string& text);
  void keep(nlohmann::ordered_json row);
  void rewrite();

  std::filesystem::path file_;
  std::string state_;
  int descriptor_ = -1;  // of the file; it holds the lock
  std::set<std::string> keys_;
  std::set<std::string> unchecked_;
  std::vector<nlohmann::ordered_json> rows_;
};

}  // namespace trainyard
