// Measured profiles put together, compared, taken from tables, judged and made part of a GPU's
// profile.
//
//   MeasuredProfile both = merged({read_profile("gemm.json"), read_profile("attention.json")});
//   auto document = with_measured(json_of_h200, both);    // kernels/profiles/h200.json and the
//                                                           // rows
//   ProfileDiff diff = compared(before, after);           // where did this driver get slower?
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/measured_profile.hpp"
#include "kernels/fit/judge.hpp"

namespace trainyard::bench {

// The kernel that a row answers in a simulation; launches, interference, fused products and
// unfused attention answer none.
[[nodiscard]] std::optional<Kernel> kernel_of(const Task& task);

// The rows of all; of a task that several measured, the last one's. Throws InputError where they
// were measured on different GPUs, drivers or libraries. REQUIRES: at least one.
[[nodiscard]] MeasuredProfile merged(const std::vector<MeasuredProfile>& profiles);

// A GPU's profile (`kernels/profiles/<gpu>.json`) whose section "measured" holds the rows, besides
// those it held before; of a kernel in both, the new one. Rows of interference become its
// `communication_sms.slowed` and `compute_loss`.
[[nodiscard]] nlohmann::ordered_json with_measured(nlohmann::ordered_json gpu_profile,
                                                   const MeasuredProfile& rows);

// One task in both profiles.
struct RowChange {
  Task task;
  double before_us = 0.0;
  double after_us = 0.0;
  bool beyond_spread = false;  // the middle eighty percent of the runs do not meet
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
// For a terminal: what differs in provenance, each group, the `most` rows that changed most.
[[nodiscard]] std::string diff_text(const ProfileDiff& diff, std::size_t most);

// The factors that rows of interference give, medians of all of them: `slowed` is the share of its
// rate that the copying kernel loses beside the product; `compute_loss` the share of its speed that
// the product loses, for each share of the GPU's SMs that were held. 16 of 132 SMs held, 100 us
// alone and 116 beside: (1 - 100 / 116) / (16 / 132) = 1.138. Nothing without such rows. REQUIRES:
// sms > 0.
struct InterferenceFactors {
  std::size_t rows = 0;
  double slowed = 0.0;
  double compute_loss = 0.0;
};
[[nodiscard]] std::optional<InterferenceFactors> interference_factors(const MeasuredProfile& rows,
                                                                      std::int64_t sms);

// A table of kernels measured elsewhere (comma-separated, a header line). Columns of products:
// dtype, m, n, k, time_us; of attention: dtype, batch, seq, heads, kv_heads, head_dim, time_us
// (causal, forward, window 0). Equal rows become their median; rows of a precision unknown here
// are left out and counted in the provenance. Throws InputError for other columns.
struct CsvOrigin {
  std::string gpu;     // as the provenance is to say
  std::string source;  // where the table comes from
  std::string date;
};
[[nodiscard]] MeasuredProfile from_csv(const std::filesystem::path& file, const CsvOrigin& origin);

// By kind of kernel and precision, at burst clock. All rows are judged: `known` of them have shapes
// that the profile holds as measured, on its own machine. Rows that no simulated kernel answers
// (launches, interference) are left out. Throws InputError for a profile that is not there, a
// precision that the GPU lacks, or no row.
[[nodiscard]] std::vector<fit::Judgement> judge_rows(const MeasuredProfile& rows,
                                                     const std::string& gpu_profile);

}  // namespace trainyard::bench
