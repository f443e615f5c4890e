// Reads the output of nccl-tests: its table, in the text of any release, or its JSON.
//
//    std::vector<MeasuredRun> runs = read_nccl_log("all_reduce.log", text, {});
//    runs[0].rows[0].time_us;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/profile/measured.hpp"

namespace trainyard {

// Values from the user, for a log that does not contain them. They override the log.
struct LogHints {
  std::optional<CollectiveOp> op = {};
  std::optional<std::uint32_t> ranks = {};
  std::optional<std::uint32_t> nodes = {};
  std::optional<std::string> gpu = {};
};

// Reads the output of all_reduce_perf and its siblings: the table of any release (old tables
// without "redop" or "root", #wrong as N/A, -G, -T, per-iteration columns), with lines of
// NCCL_DEBUG and prefixes of mpirun and srun in between, or the JSON of -J. Returns one run for
// each test. Truncated and unreadable rows are left out and noted. Throws InputError where there is
// no row at all, or where neither the log nor a hint gives the operation, the ranks or the nodes.
[[nodiscard]] std::vector<MeasuredRun> read_nccl_log(const std::string& file, std::string_view text,
                                                     const LogHints& hints);

// Converts a version code: 22703 is "2.27.3"; 2708, from before 2.9, is "2.7.8".
[[nodiscard]] std::string nccl_version_text(std::int64_t code);

}  // namespace trainyard
