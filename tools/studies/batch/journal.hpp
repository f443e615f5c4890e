// Results of many runs as JSON Lines: one object per line, appended as each run ends.
//
// The file also makes a batch resumable. A journal that is opened once more knows which runs are
// done, and drops a last line that an interruption has cut short. The files of several shards are
// merged by concatenation. A row may carry a fingerprint of its inputs ("fingerprint"), by which
// batch.hpp separates rows that are still valid from outdated ones. Only one process at a time can
// open the file.
//
//    Journal journal("sweep.jsonl");
//    if (!journal.has(key)) journal.append(row);     // row["key"] == key
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
  // Opens the journal. Without a file the rows are only in memory. Throws InputError if the file
  // contains a line that is not a row (an object with a "key"), if it cannot be written, or if
  // another process has it open. `state` is the fingerprint of the program and data that compute
  // the rows; with an empty state rows carry no fingerprint.
  explicit Journal(std::filesystem::path file, std::string state = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  Journal(Journal&&) = delete;
  Journal& operator=(Journal&&) = delete;

  [[nodiscard]] const std::string& state() const { return state_; }
  [[nodiscard]] bool has(const std::string& key) const { return keys_.contains(key); }
  // Whether the row of this key comes from an earlier process and drop_outdated_rows() has not
  // checked it yet.
  [[nodiscard]] bool is_unchecked(const std::string& key) const { return unchecked_.contains(key); }
  // Removes the rows whose fingerprint differs from the given one of their key, also from the file,
  // and returns their number.
  std::size_t drop_outdated_rows(const std::map<std::string, std::string>& fingerprints);
  // Appends a row. The row is on disk when the function returns. Throws InputError if it cannot be
  // written. REQUIRES: a new key; the row passes check_numbers (sim/report/result_json.hpp).
  void append(const nlohmann::ordered_json& row);

  // Rows in the order in which their runs ended. The rows of earlier processes come first.
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
