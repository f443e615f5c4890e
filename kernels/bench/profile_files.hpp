// Operations on measured profiles: merge, compare, import from tables, evaluate, and insert into a
// GPU's profile.
//
//    MeasuredProfile both = merged({read_profile("gemm.json"), read_profile("attention.json")});
//    auto document = with_measured(json_of_h200, both);   // kernels/profiles/h200.json with rows
//    ProfileDiff diff = compared(before, after);          // where did this driver get slower?
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/measured_profile.hpp"
#include "kernels/fit/judge.hpp"

namespace trainyard::bench {

// The simulated kernel that a row measures. Launches, interference, fused GEMMs and unfused
// attention have none.
[[nodiscard]] std::optional<Kernel> kernel_of(const Task& task);

// The rows of all profiles. If several profiles measured a task, the row of the last one is used.
// Throws InputError where they were measured on different GPUs, drivers or libraries. REQUIRES: at
// least one profile.
[[nodiscard]] MeasuredProfile merged(const std::vector<MeasuredProfile>& profiles);

// A GPU's profile (`kernels/profiles/<gpu>.json`) whose section "measured" contains the new rows in
// addition to its old ones. If both contain a kernel, the new row is used. Rows of interference set
// `communication_sms.slowed` and `compute_loss`.
[[nodiscard]] nlohmann::ordered_json with_measured(nlohmann::ordered_json gpu_profile,
                                                   const MeasuredProfile& rows);

// A kernel as traces of training steps have it: the median of its repetitions.
struct TracedKernelRow {
  Kernel kernel;
  double time_us = 0.0;
  std::size_t repetitions = 1;
};

// The same for kernels from traces of training steps. They have exactly their time in a step, with
// the framework's overhead; kernels of other shapes are unchanged. Rows that `trainyard profile`
// measured stay. `provenance` names the files, the GPU and the date.
[[nodiscard]] nlohmann::ordered_json with_traced(nlohmann::ordered_json gpu_profile,
                                                 const std::vector<TracedKernelRow>& rows,
                                                 const nlohmann::ordered_json& provenance);

// One task in both profiles.
struct RowChange {
  Task task;
  double before_us = 0.0;
  double after_us = 0.0;
  bool beyond_spread = false;  // the middle eighty percent of the two sets of runs do not overlap
  [[nodiscard]] double ratio() const { return after_us / before_us; }
};
struct GroupChange {
  std::string group;  // "gemm", ...
  std::size_t rows = 0;
  double ratio = 1.0;                  // median of after / before
  std::size_t slower = 0, faster = 0;  // beyond the spread
};
struct ProfileDiff {
  std::vector<std::string> provenance;  // "driver: 570.86 -> 580.12"
  std::vector<GroupChange> groups;
  std::vector<RowChange> rows;  // largest change first
  std::size_t only_before = 0, only_after = 0;
};
[[nodiscard]] ProfileDiff compared(const MeasuredProfile& before, const MeasuredProfile& after);
// Text for a terminal: the differences in provenance, each group, and the `most` rows that changed
// most.
[[nodiscard]] std::string diff_text(const ProfileDiff& diff, std::size_t most);

// Factors from the rows of interference, as medians over all of them. `slowed` is the share of its
// rate that the copying kernel loses while the GEMM runs. `compute_loss` is the share of its speed
// that the GEMM loses, per share of the GPU's SMs that are occupied. Example: 16 of 132 SMs are
// occupied, the GEMM takes 100 us alone and 116 us with the copy: (1 - 100 / 116) / (16 / 132) =
// 1.138. Nothing without such rows. REQUIRES: sms > 0.
struct InterferenceFactors {
  std::size_t rows = 0;
  double slowed = 0.0;
  double compute_loss = 0.0;
};
[[nodiscard]] std::optional<InterferenceFactors> interference_factors(const MeasuredProfile& rows,
                                                                      std::int64_t sms);

// Reads a table of kernels that were measured elsewhere (comma-separated, a header line). Columns
// of GEMMs: dtype, m, n, k, time_us; of attention: dtype, batch, seq, heads, kv_heads, head_dim,
// time_us (causal, forward, window 0). Equal rows are replaced by their median. Rows with an
// unknown precision are left out and counted in the provenance. Throws InputError for other
// columns.
struct CsvOrigin {
  std::string gpu;     // name for the provenance
  std::string source;  // source of the table
  std::string date;
};
[[nodiscard]] MeasuredProfile from_csv(const std::filesystem::path& file, const CsvOrigin& origin);

// Errors by kind of kernel and precision, at burst clock. All rows are evaluated; for `known` of
// them the profile contains a measurement, from its own machine. Rows that have no simulated kernel
// (launches, interference) are left out. Throws InputError for a missing profile, a precision that
// the GPU lacks, or if there is no row.
[[nodiscard]] std::vector<fit::Judgement> judge_rows(const MeasuredProfile& rows,
                                                     const std::string& gpu_profile);

}  // namespace trainyard::bench
