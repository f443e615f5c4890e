// What the two readers of nccl-tests' output share: a run as far as it is known, and its end.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/nccl_log.hpp"

namespace trainyard {

// A test of the log while it is read.
struct LogRun {
  std::string test = {};  // the program, "all_reduce_perf"; empty: not told
  std::uint32_t ranks = 0;
  std::set<std::string> hosts = {};
  std::string gpu = {};
  std::string nccl_version = {};
  bool cuda_graph = false;
  bool concluded = false;  // its last line is there
  std::size_t broken = 0;  // rows that could not be read
  std::size_t wrong = 0;   // times left out because the data were wrong
  std::vector<RunRow> rows = {};
};

// "all_reduce_perf", where the text holds the name of a test; empty elsewhere.
[[nodiscard]] std::string test_named_in(std::string_view text);

// Runs with rows, completed by the hints and the file's name. Throws as read_nccl_log.
[[nodiscard]] std::vector<MeasuredRun> finished_runs(const std::string& file,
                                                     const std::vector<LogRun>& runs,
                                                     const LogHints& hints);

[[nodiscard]] std::vector<LogRun> parse_log_text(std::string_view text);
// Throws InputError for JSON that is not nccl-tests'. What a cut leaves whole is kept.
[[nodiscard]] std::vector<LogRun> parse_log_json(const std::string& file, std::string_view text);

}  // namespace trainyard
